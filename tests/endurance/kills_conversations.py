"""Kills an agent at random moments, again and again. Everything that its host was told is there when it is started again.

A host that does everything at random uses an agent whose model does the same, until a SIGKILL ends the agent after some frames
and some milliseconds. Then the session's file is read strictly, the session is opened again, and the conversation continues.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.endurance.kills_guest import EXTENSION, Guest, Phases, phases, wild_turn
from tests.support.host import PATIENCE, Frame
from tests.support.ledger import Ledger, Ledgers
from tests.support.session_file import SessionLines, missing, read_strictly, repeated, text_of
from tests.support.stage import Stage, says, stage

#: How many agents of a conversation are killed.
LIVES = 4
DIALECTS = ("pi", "omp", "xcsh")
#: Little is kept in a compaction, and retries do not wait.
SETTINGS: Mapping[str, Any] = {"compaction": {"keepRecentTokens": 50}, "retry": {"baseDelayMs": 1}}

CALM = says("That is all I have to say.")
#: The answer to every request for a summary.
SUMMARY = says("What happened so far. " * 20, match="transcript above", delayMs=1)


def conversation(root: Path, seed: int) -> list[Phases]:
    """Play one conversation with several agents, each of which is killed. Returns what each was doing at that moment."""
    folder = root / "sessions"
    folder.mkdir(parents=True)
    ledgers = Ledgers(folder / "first.jsonl")
    kills: list[Phases] = []
    for life in range(LIVES):
        chance = random.Random(f"{seed}.{life}")
        dialect = DIALECTS[(seed + life) % len(DIALECTS)]
        kills.append(be_killed(root / f"{life}-killed", dialect, chance, ledgers, f"{seed}.{life}"))
        ledger = ledgers.check()
        if life % 2:
            tear(ledger)
        continue_session(root / f"{life}-calm", dialect, ledger, f"{seed}.{life} continues")
    return kills


def tear(ledger: Ledger) -> None:
    """Leave half a line at the end of a file, as a kill in the middle of a long write does. That is rare."""
    if ledger.has_begun and ledger.path is not None:
        last = ledger.path.read_bytes().splitlines()[-1]
        with ledger.path.open("ab") as file:
            file.write(last[: len(last) // 2])


# The agent that is killed


def be_killed(root: Path, dialect: str, chance: random.Random, ledgers: Ledgers, tag: str) -> Phases:
    """Use an agent until it is killed. Returns what it was doing."""
    turns = [SUMMARY, *(wild_turn(chance) for _ in range(60))]
    flags = ["--session", str(ledgers.present.path), "--extension", str(extension(root))]
    with stage(root / "killed", dialect, turns, flags=flags, model=None, settings=SETTINGS) as host:
        guest = Guest(host, chance, tag)
        killer = threading.Thread(target=kill, args=(host, *moment(chance)))
        killer.start()
        try:
            guest.behave()
        except (AssertionError, BrokenPipeError) as error:  # the agent was killed before the guest was done
            if "seconds passed" in str(error):
                raise
        host.process.kill()
        killer.join()
        assert host.exit_code() == -signal.SIGKILL, host.stderr()
        accept_all(host)
    assert "Traceback" not in host.stderr(), host.stderr()
    refused = [frame for frame in host.frames if frame["type"] == "response" and not frame["success"]]
    # A prompt is refused if another one aborts it before its run begins, and while the host has the session compacted.
    whys = ("Aborted", "compaction is in progress")
    unexpected = [
        frame
        for frame in refused
        if frame["command"] not in ("compact", "clone") and not any(why in frame["error"] for why in whys)
    ]
    assert not unexpected, unexpected
    ledgers.learn(guest.sent, host.frames, drops_queue=dialect == "pi", late_refusals=dialect != "pi")
    return phases(guest.sent, host.frames)


def moment(chance: random.Random) -> tuple[int, float]:
    """Choose when to kill: after how many frames, and how many seconds later."""
    if chance.random() < 0.1:
        return 0, chance.uniform(0, 0.15)
    return chance.randrange(1, chance.choice((3, 20, 80, 300))), chance.uniform(0, chance.choice((0, 0.01, 0.1)))


def kill(host: Stage, frames: int, delay: float) -> None:
    """Kill an agent some seconds after it has sent a number of frames."""
    with suppress(AssertionError):
        if frames:
            host.wait_for(lambda frame: True, "a moment to die", nth=frames)
    time.sleep(delay)
    host.process.kill()


def accept_all(host: Stage) -> None:
    """Wait until the provider has accepted the connections of a killed agent, so that it closes them when it stops.

    It accepts connections in order, so this one is answered last.
    """
    late = HTTPConnection("127.0.0.1", host.provider.port, timeout=PATIENCE)
    late.request("GET", "/")
    late.getresponse().read()
    late.close()


def extension(root: Path) -> Path:
    root.mkdir(parents=True)
    path = root / "extension.py"
    path.write_text(EXTENSION)
    return path


# The agent that continues


def continue_session(root: Path, dialect: str, ledger: Ledger, text: str) -> None:
    """Open a session again, compare it with its file, and prompt once more."""
    path = ledger.path
    assert path is not None
    before = read_strictly(path) if path.exists() and path.stat().st_size else None
    waiting = before.waiting() if before else []
    with stage(root, dialect, [SUMMARY, CALM], flags=["--session", str(path)], model=None, settings=SETTINGS) as host:
        if before:
            check_answers(host, path, before)
        since = host.mark()
        frames = host.prompt(text)
        heard = [text_of(frame["message"]) for frame in frames if is_end_of("user", frame)]
        assert sorted(heard) == sorted([text, *(text_of(message) for message in waiting if message["role"] == "user")])
        assert host.request("get_state")["data"]["pendingMessageCount"] == 0
        last = next(frame["message"] for frame in reversed(host.frames[since:]) if is_end_of("assistant", frame))
        assert (last["stopReason"], text_of(last)) == ("stop", CALM["text"])
        for request in host.provider.requests:
            assert not missing(*calls_and_results(request.body)), "a tool call has no result"
        assert host.leave() == 0
    after = read_strictly(path)
    assert (after.torn, after.waiting()) == (b"", [])
    assert after.entries[: len(before.entries) if before else 0] == (before.entries if before else [])
    ledger.sent.add(text)
    ledger.said.append(text)
    ledger.messages += [frame["message"] for frame in frames if frame["type"] == "message_end"]
    ledger.check(after)
    commands = [message["command"] for message in after.with_role("bashExecution")]
    assert not missing(ledger.commands, commands)
    assert not repeated(commands)


def check_answers(host: Stage, path: Path, lines: SessionLines) -> None:
    """Check that an agent that has just opened a session knows everything in the file."""
    state = host.request("get_state")["data"]
    waiting = lines.waiting()
    assert (state["sessionFile"], state["sessionId"]) == (str(path), lines.header["id"])
    assert state.get("sessionName") == lines.name()
    assert state["pendingMessageCount"] == sum(message["role"] == "user" for message in waiting)
    if lines.model() is not None:
        assert state["model"]["id"] == lines.model()
    assert host.request("get_entries")["data"]["entries"][: len(lines.entries)] == lines.entries
    messages = host.request("get_messages")["data"]["messages"]
    # Commands that waited for the end of a run are part of the history now.
    last_part = lines.last_part() + [message for message in waiting if message["role"] == "bashExecution"]
    assert messages[len(messages) - len(last_part) :] == last_part
    assert state["messageCount"] == len(messages)


def is_end_of(role: str, frame: Frame) -> bool:
    return frame["type"] == "message_end" and frame["message"]["role"] == role


def calls_and_results(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the ids of the tool calls in a request, and those of the results."""
    asked: list[str] = []
    given: list[str] = []
    for message in body["messages"]:
        asked += [call["id"] for call in message.get("tool_calls") or ()]
        given += [message["tool_call_id"]] if message["role"] == "tool" else []
        for block in message["content"] if isinstance(message["content"], list) else ():
            asked += [block["id"]] if block["type"] == "tool_use" else []
            given += [block["tool_use_id"]] if block["type"] == "tool_result" else []
    return asked, given
