"""Hosts of the claude dialect that send bad lines and cut frames, that do not read, and whose agent is killed at random."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.claude.host import MODEL, STREAM, ClaudeHost, another, claude, command, environment, prompt
from tests.endurance.entries import Figures, Options
from tests.endurance.fuzz_lines import seeds
from tests.endurance.mutation import Mutator
from tests.support.host import Frame
from tests.support.stage import Turn, calls, says

from fairlead.session.history.claude_files import project_folder
from fairlead.testing import ProviderServer

NAME = "claude"
TITLE = "Hosts of the claude dialect: bad lines and cut frames to a live agent, SIGKILL at random, a host that never reads"
STARTS_PROCESSES = True

#: Lines with these would end the agent, start programs, or make it wait for answers of the host.
_LEFT_OUT = (b"end_session", b'"command"', b"allback", b"dkMcp", b"mcp", b"Mcp", b"hooks", b"jsonSchema", b"system")
#: How much the memory may grow while the host does not read, in MiB.
GROWTH = 64
PATIENCE = 60.0


def send_bad_lines(root: Path, seed: int, count: int) -> int:
    """Send mutated lines in pieces. The agent lives, and answers the next request and prompt. Returns the number of lines."""
    source = random.Random(seed)
    mutator = Mutator(source, [line for line in seeds() if b'"jsonrpc"' not in line], [b'"type":"user"', b'"request_id":"r1"'])
    with claude(root, [says("ok")], "--permission-prompt-tool", "stdio", loop=True) as host:
        for number in range(count):
            data = mutator.data().replace(b"\n", b" ") + b"\n"
            if not any(word in data for word in _LEFT_OUT):
                for chunk in mutator.chunks(data):
                    host.write(chunk)
            if number % 25 == 24:
                assert host.control("get_binary_version")["subtype"] == "success", (seed, number)
        host.control("interrupt", cancel_queued=True)
        host.control("set_model", model=MODEL)
        ident = str(uuid.UUID(int=source.getrandbits(128), version=4))
        host.say("Are you there?", uuid=ident)
        wanted = "the result of the last prompt"
        result = host.wait_for(lambda frame: frame["type"] == "result" and ident in frame.get("user_message_uuids", ()), wanted)
        assert result["result"] == "ok", (seed, result)
        assert host.process.poll() is None
    return count


def kill_often(root: Path, seed: int, lives: int) -> int:
    """Kill an agent in its work and resume its session. What its host was told is in the file. Returns the number of kills."""
    source = random.Random(seed)
    work = calls(("Bash", {"command": "echo $RANDOM; sleep 0.02"}), text="Looking.")
    turns: list[Turn] = [work, says("word " * 200, delayMs=1), work, work, says("done")]
    told: dict[str, Frame] = {}
    with claude(root, turns, "--allowedTools", "Bash", "--include-partial-messages", loop=True) as host:
        session = host.ask("begin")["session_id"]
        path = project_folder(root / "home/.claude/projects", root / "cwd") / f"{session}.jsonl"
        _kill(host, told, 0)
        for _ in range(lives):
            with another(host, "--resume", session, "--allowedTools", "Bash", "--include-partial-messages") as later:
                later.say("go", uuid=str(uuid.UUID(int=source.getrandbits(128), version=4)))
                _kill(later, told, source.random() * source.choice((0.3, 1.0, 2.0)))
            kept = _uuids(path)
            missing = [frame for ident, frame in told.items() if ident not in kept]
            assert not missing, f"seed {seed}: not in the file: {json.dumps(missing[0])[:500]}"
        with another(host, "--resume", session, "--allowedTools", "Bash") as last:
            result = last.ask("end")
            assert (result["subtype"], result["session_id"]) == ("success", session), (seed, result)
    return lives


def _kill(host: ClaudeHost, told: dict[str, Frame], delay: float) -> None:
    """Kill an agent and note the frames that have an entry."""
    time.sleep(delay)
    host.process.send_signal(signal.SIGKILL)
    host.process.wait(PATIENCE)
    frames = list(host.frames)  # those that were read before the kill; more may be in the pipe
    for frame in frames:
        is_own = frame.get("isSynthetic") or frame.get("isReplay") or frame.get("message", {}).get("model") == "<synthetic>"
        if frame["type"] in ("assistant", "user") and not is_own:
            told[frame["uuid"]] = frame


def _uuids(path: Path) -> set[str]:
    found: set[str] = set()
    for line in path.read_bytes().split(b"\n"):
        try:
            value: Any = json.loads(line) if line else {}
        except ValueError:  # torn by the kill
            continue
        found.add(value.get("uuid", ""))
    return found


def never_read(root: Path, seconds: float) -> float:
    """Let an agent work for a host that never reads. Returns how much its memory grew, in MiB."""
    for folder in ("home", "cwd", "tmp"):
        (root / folder).mkdir(parents=True)
    turn = calls(("Bash", {"command": "date +%N; head -c 20000 /dev/zero | tr '\\0' x"}), text="text " * 2_000)
    flags = ("--model", MODEL, "--allowedTools", "Bash", "--include-partial-messages")
    with (
        ProviderServer([turn], loop=True) as provider,
        subprocess.Popen(
            command(*STREAM, *flags),
            cwd=root / "cwd",
            env=environment(root, provider),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(prompt("go")).encode() + b"\n")
            process.stdin.flush()
            _wait_for(lambda: len(provider.requests) >= 2)
            before = _peak(process.pid)
            time.sleep(seconds)
            grown = _peak(process.pid) - before
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
            return grown
        finally:
            process.kill()


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def _peak(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def run(options: Options) -> Figures:
    figures = Figures()
    lines, kills, grown = 0, 0, 0.0
    with tempfile.TemporaryDirectory(prefix="fairlead-claude-") as folder:
        for seed in range(options.seed, options.seed + options.choose(2, 100)):
            root = Path(folder, str(seed))
            try:
                lines += send_bad_lines(root / "lines", seed, options.choose(200, 2_000))
                kills += kill_often(root / "kills", seed, options.choose(3, 10))
            except Exception:
                figures.problems.append(f"seed {seed}: {traceback.format_exc()}")
        try:
            grown = never_read(Path(folder, "unread"), options.choose(3, 60))
        except Exception:
            figures.problems.append(traceback.format_exc())
    if grown > GROWTH:
        figures.problems.append(f"the memory grew by {grown:.1f} MiB for a host that does not read")
    figures.done = {"lines": lines, "kills": kills, "MiB more for a host that never reads": grown}
    return figures
