"""The agent is killed at random moments, again and again: whatever its host was told of is there when it is started anew.

A host that knows no moderation uses an agent whose model does all kinds of things, until a SIGKILL ends it after some frames
and some milliseconds more. Then the session's file is read strictly, the session is opened again, and goes on.
A failure prints the seed of its conversation: `CRASH_SEED=<seed> make test-system ARGS="-k crashes"` plays that one alone.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import PATIENCE, Frame
from tests.support.ledger import FORKS, Ledger, Ledgers
from tests.support.session_file import SessionLines, missing, read_strictly, repeated, text_of
from tests.support.stage import WAIT, Stage, Turn, bash, calls, says, stage

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CONVERSATIONS, LIVES = 50, 4
AT_ONCE = 3
DIALECTS = ("pi", "omp", "xcsh")
#: Little is kept in a compaction, and no time is lost with another attempt.
SETTINGS: Mapping[str, Any] = {"compaction": {"keepRecentTokens": 50}, "retry": {"baseDelayMs": 1}}
MODELS = (("fake", "fake-1"), ("fake", "fake-2"), ("fake", "fake-small"), ("fakeoai", "fake-oai"))

CALM = says("That is all I have to say.")
#: Every request for a summary is answered by this.
SUMMARY = says("What happened so far. " * 20, match="transcript above", delayMs=1)

#: What an agent was doing when it was killed, as far as its host can tell: several things at once, or nothing.
Phases = set[str]
#: What happens so often that no two hundred kills miss it.
USUAL: Phases = {"starting", "accepting", "streaming", "tools", "command", "compacting", "stopping", "idle"}


def test_whatever_a_host_was_told_of_survives_two_hundred_kills(tmp_path: Path) -> None:
    seed = os.environ.get("CRASH_SEED")
    seeds = [int(seed)] if seed else random.sample(range(1_000_000), CONVERSATIONS)
    kills: list[Phases] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        playing = {pool.submit(conversation, tmp_path / str(seed), seed): seed for seed in seeds}
        for played in as_completed(playing):
            if error := played.exception():
                pool.shutdown(cancel_futures=True)
                raise AssertionError(f"CRASH_SEED={playing[played]} failed") from error
            kills += played.result()
    counts = Counter(phase for phases in kills for phase in phases)
    print(f"\n{len(kills)} kills:", ", ".join(f"{count} {phase}" for phase, count in counts.most_common()))
    assert len(kills) == len(seeds) * LIVES
    assert seed or counts.keys() >= USUAL, counts


def conversation(root: Path, seed: int) -> list[Phases]:
    """One conversation with several agents, each of which is killed. What each was doing at that moment."""
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
        go_on(root / f"{life}-calm", dialect, ledger, f"{seed}.{life} goes on")
    return kills


def tear(ledger: Ledger) -> None:
    """Leave half a line at the end of a file, as a kill in the middle of a long write does: too seldom to wait for it."""
    if ledger.has_begun and ledger.path is not None:
        last = ledger.path.read_bytes().splitlines()[-1]
        with ledger.path.open("ab") as file:
            file.write(last[: len(last) // 2])


# The agent that is killed


def be_killed(root: Path, dialect: str, chance: random.Random, ledgers: Ledgers, tag: str) -> Phases:
    """Use an agent until it is killed. What it was doing then."""
    turns = [SUMMARY, *(wild_turn(chance) for _ in range(60))]
    with stage(root, dialect, turns, flags=["--session", str(ledgers.present.path)], model=None, settings=SETTINGS) as host:
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
        let_in(host)
    assert "Traceback" not in host.stderr(), host.stderr()
    refused = [frame for frame in host.frames if frame["type"] == "response" and not frame["success"]]
    assert {frame["command"] for frame in refused} <= {"compact", "clone"}, refused
    ledgers.learn(guest.sent, host.frames, drops_queue=dialect == "pi")
    return phases(guest.sent, host.frames)


def moment(chance: random.Random) -> tuple[int, float]:
    """When to kill: after how many frames, and how many seconds more."""
    if chance.random() < 0.1:
        return 0, chance.uniform(0, 0.15)
    return chance.randrange(1, chance.choice((3, 20, 80, 300))), chance.uniform(0, chance.choice((0, 0.01, 0.1)))


def kill(host: Stage, frames: int, delay: float) -> None:
    """Kill an agent some time after it has sent so many frames, unless it ends before."""
    with suppress(AssertionError):
        if frames:
            host.wait_for(lambda frame: True, "a moment to die", nth=frames)
    time.sleep(delay)
    host.process.kill()


def let_in(host: Stage) -> None:
    """Return when the provider has let in everybody who came, so that it can show them out: a killed agent may be at the door.

    Connections are let in one after another, so this one is answered last.
    """
    late = HTTPConnection("127.0.0.1", host.provider.port, timeout=PATIENCE)
    late.request("GET", "/")
    late.getresponse().read()
    late.close()


def wild_turn(chance: random.Random) -> Turn:
    """What the model may do next."""
    pace = {"chunk": chance.choice((8, 40)), "delayMs": chance.choice((0, 1, 3))}
    words = "so it goes, " * chance.randrange(1, 40)
    shell = bash(f"echo {chance.random()}; sleep 0.0{chance.randrange(4)}; echo done")
    writing = ("write", {"path": f"{chance.randrange(3)}.txt", "content": words})
    reading = ("read", {"path": f"{chance.randrange(3)}.txt"})
    makes: Sequence[Callable[[], Turn]] = (
        lambda: says(words, **pace),
        lambda: {"thinking": words, "text": words, **pace},
        lambda: {"thinking": words, **calls(shell, **pace)},
        lambda: {"text": words, **calls(writing, shell, reading, shell, reading)},
        lambda: calls(*[reading] * 3, shell, ("no_such_tool", {})),
        lambda: says(words, repeat=chance.randrange(100, 400), chunk=20_000),
        lambda: says(words, usage={"input": 150_000, "output": 40_000}),
        lambda: {"status": 529, "error": "Overloaded"},
        lambda: says(words, dropAfter=2),
        lambda: {"status": 400, "error": chance.choice(("prompt is too long: 210000 tokens", "that was wrong"))},
    )
    return chance.choice(makes)()


class Guest:
    """A host without moderation. `sent` is all that it said."""

    def __init__(self, host: Stage, chance: random.Random, tag: str) -> None:
        self.sent: list[Frame] = []
        self._host = host
        self._chance = chance
        self._tag = tag

    def behave(self) -> None:
        """Do this and that, until there is nothing left to do or the agent is killed."""
        acts = (
            [self.prompt] * 6 + [self.queue] * 4 + [self.run_command] * 2 + [self.compact] * 2 + [self.choose] * 2
            + [self.clear, self.stop, self.fork, self.navigate]
        )  # fmt: skip
        for act in self._chance.choices(acts, k=self._chance.randrange(4, 16)):
            act()
            for _ in range(self._chance.choice((0, 0, 1, 4))):
                self._await(self._say("get_state"))
        if self._chance.random() < 0.5:
            self._await(self._say("abort"))

    def prompt(self) -> None:
        since = self._host.mark()
        kind = self._chance.choice(("prompt", "prompt", "prompt", "abort_and_prompt"))
        how = {"streamingBehavior": self._chance.choice(("steer", "followUp"))} if kind == "prompt" else {}
        self._say(kind, message=self._text(), **how)
        if self._chance.random() < 0.4:
            self._host.until("agent_settled", since=since)

    def queue(self) -> None:
        for _ in range(self._chance.randrange(1, 4)):
            self._say(self._chance.choice(("steer", "follow_up")), message=self._text())

    def clear(self) -> None:
        self._say("clear_queue")

    def run_command(self) -> None:
        pause = self._chance.choice(("", "sleep 0.02; ", "seq 3000; "))
        self._say("bash", command=f"{pause}echo {self._number()}")

    def choose(self) -> None:
        provider, model = self._chance.choice(MODELS)
        level = self._chance.choice(("off", "low", "high"))
        self._say("set_session_name", name=f"name {self._number()}")
        self._say("set_model", provider=provider, modelId=model)
        self._say("set_thinking_level", level=level)

    def stop(self) -> None:
        self._say("abort")

    def compact(self) -> None:
        # A prompt would be refused meanwhile, which omp says in two answers; so it is awaited before the next act.
        answer = self._say("compact")
        if self._chance.random() < 0.3:
            self.queue()
        self._await(answer)

    def fork(self) -> None:
        kind = self._chance.choice(sorted(FORKS))
        places = self._await(self._say("get_fork_messages"))["data"]["messages"]
        if kind == "clone":
            self._await(self._say(kind))
        elif places:
            self._await(self._say(kind, entryId=self._chance.choice(places)["entryId"]))

    def navigate(self) -> None:
        places = self._await(self._say("get_fork_messages"))["data"]["messages"]
        if places:
            self._await(self._say("navigate_tree", targetId=self._chance.choice(places)["entryId"]))

    def _say(self, type: str, **fields: Any) -> str:
        command = {"id": f"{type} {self._number()}", "type": type, **fields}
        self.sent.append(command)
        self._host.send(command)
        return command["id"]

    def _await(self, id: str) -> Frame:
        return self._host.response(id)

    def _number(self) -> str:
        return f"{self._tag}.{len(self.sent)}"

    def _text(self) -> str:
        """A text like no other; now and then one that takes more than a page of the disk."""
        return f"{self._number()} " + "and so on " * self._chance.choice((0, 0, 3, 30, 1_000, 30_000))


def phases(sent: Sequence[Frame], frames: Sequence[Frame]) -> Phases:
    """What the agent was doing when its host last heard of it, and what the host was waiting for."""
    answered = {frame.get("id") for frame in frames if frame["type"] == "response"}
    if not answered:
        return {"starting"}
    going: Phases = set()
    for frame in frames:
        match frame["type"].removeprefix("auto_"):
            case "agent_start":
                going.add("working")
            case "agent_settled":
                going.clear()
            case "message_start" if frame["message"]["role"] == "assistant":
                going.add("streaming")
            case "message_end":
                going.discard("streaming")
            case "tool_execution_start":
                going.add("tools")
            case "turn_end":
                going.discard("tools")
            case "compaction_start":
                going.add("compacting")
            case "compaction_end":
                going.discard("compacting")
            case "retry_start":
                going.add("retrying")
            case "retry_end":
                going.discard("retrying")
            case _:
                pass
    waited_for = {command["type"] for command in sent if command["id"] not in answered}
    return going | {PHASE_OF[type] for type in waited_for if type in PHASE_OF} or {"idle"}


#: What an agent does while its host waits for the answer to a command.
PHASE_OF = {
    **dict.fromkeys(("prompt", "steer", "follow_up", "clear_queue"), "accepting"),
    **dict.fromkeys((*FORKS, "navigate_tree", "abort", "abort_and_prompt"), "stopping"),
    "compact": "compacting",
    "bash": "command",
}


# The agent that goes on


def go_on(root: Path, dialect: str, ledger: Ledger, text: str) -> None:
    """Open a session again, look for everything that is in its file, and say one thing more."""
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
    """An agent that has just opened a session knows all that is in the file."""
    state = host.request("get_state")["data"]
    waiting = lines.waiting()
    assert (state["sessionFile"], state["sessionId"]) == (str(path), lines.header["id"])
    assert state.get("sessionName") == lines.name()
    assert state["pendingMessageCount"] == sum(message["role"] == "user" for message in waiting)
    if lines.model() is not None:
        assert state["model"]["id"] == lines.model()
    assert host.request("get_entries")["data"]["entries"][: len(lines.entries)] == lines.entries
    messages = host.request("get_messages")["data"]["messages"]
    # Commands that waited for the end of a run have their place now.
    last_part = lines.last_part() + [message for message in waiting if message["role"] == "bashExecution"]
    assert messages[len(messages) - len(last_part) :] == last_part
    assert state["messageCount"] == len(messages)


def is_end_of(role: str, frame: Frame) -> bool:
    return frame["type"] == "message_end" and frame["message"]["role"] == role


def calls_and_results(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of the tool calls that a request tells of, and of the results."""
    asked: list[str] = []
    given: list[str] = []
    for message in body["messages"]:
        asked += [call["id"] for call in message.get("tool_calls") or ()]
        given += [message["tool_call_id"]] if message["role"] == "tool" else []
        for block in message["content"] if isinstance(message["content"], list) else ():
            asked += [block["id"]] if block["type"] == "tool_use" else []
            given += [block["tool_use_id"]] if block["type"] == "tool_result" else []
    return asked, given


# Moments that chance seldom finds. Leaving the stage kills the agent.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_command_that_was_run_before_anything_was_said_is_kept(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with stage(tmp_path / "killed", dialect, flags=["--session", str(path)]) as host:
        host.request("bash", command="echo first")
    with stage(tmp_path / "calm", dialect, flags=["--session", str(path)]) as host:
        (message,) = host.request("get_messages")["data"]["messages"]
        assert (message["command"], message["output"]) == ("echo first", "first\n")


def test_a_message_that_a_turn_has_taken_up_is_not_taken_back_with_the_others(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    turns = [
        {**SUMMARY, "holdAfter": 1},
        says("word " * 1_000),
        calls(bash(WAIT), usage={"input": 19_000, "output": 100}),
    ]
    flags = ["--session", str(path)]
    with stage(tmp_path / "killed", "pi", turns, flags=flags, model="fake/fake-small", settings=SETTINGS) as host:
        host.prompt("first")
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("tool_execution_start")
        host.request("steer", message="one")
        host.request("steer", message="two")
        host.go.open()
        host.until_asked(3)  # for a summary, between two turns
        assert host.request("clear_queue")["data"] == {"steering": ["two"], "followUp": []}
    with stage(tmp_path / "calm", "pi", [CALM], flags=flags, model="fake/fake-1") as host:
        frames = host.prompt("go on")
        assert [text_of(frame["message"]) for frame in frames if is_end_of("user", frame)] == ["go on", "one"]
