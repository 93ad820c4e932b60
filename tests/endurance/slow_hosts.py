"""Hosts that hardly read, never read, or write a byte at a time, while the model writes megabytes."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.endurance.entries import Figures, Options
from tests.endurance.slow_parts import PATIENCE, Agent, agent, an_answer, beginning, ending, event, provider, text_delta

NAME = "slow-hosts"
TITLE = "A host that reads one byte a second, one that never reads, one that writes one byte at a time"
STARTS_PROCESSES = True

#: How much the memory of the process may grow while its host does not read, in MiB: the queue of frames has 8, and the answer of
#: 4 MiB is kept a few times while it is written to the file.
GROWTH = 64
_ANSWER = 4 << 20


def _long_answer(number: int) -> Iterable[bytes]:
    return an_answer("word " * (_ANSWER // 5), 4_000)


def _turns(number: int) -> Iterator[bytes]:
    """Yield an answer with a tool call, every time: the run never ends by itself."""
    yield beginning({"type": "text", "text": ""})
    for _ in range(50):
        yield text_delta("text " * 200)
    yield event("content_block_stop", index=0)
    yield event(
        "content_block_start", index=1, content_block={"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {}}
    )
    arguments = json.dumps({"command": f"echo {number}; head -c 20000 /dev/zero | tr '\\0' x"})
    yield event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": arguments})
    yield ending("tool_use").replace(b'"index": 0', b'"index": 1')


def _unread(root: Path, body: Callable[[int], Iterable[bytes]], seconds: float, pace: float | None) -> tuple[float, float, Agent]:
    """Start a run for a host that reads a byte each `pace` seconds, or never.

    Returns how much the memory grew, the seconds until the process had ended, and the process.
    """
    with provider(body) as url, agent(root, url) as started:
        started.send(id="s", type="get_state")
        started.until(b'"id":"s"')
        before = started.peak
        started.send(id="p", type="prompt", message="go")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if pace is not None:
                started.read(1)
            time.sleep(pace or 0.2)
        # A getter waits for the host to read, and an abort does not wait behind it. It ends the run, as the file shows; then the
        # host leaves without reading.
        started.send(id="g", type="get_state")
        started.send(id="a", type="abort")
        _await_end_of_run(started)
        grown = started.peak - before
        return grown, started.leave(), started


def _await_end_of_run(started: Agent) -> None:
    """Wait until the last answer in the file calls no more tools. Its run has ended then, although no frame was read."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answers = [entry["message"] for entry in started.saved() if entry.get("message", {}).get("role") == "assistant"]
        if answers and answers[-1]["stopReason"] in ("stop", "aborted"):
            return
        time.sleep(0.05)
    raise AssertionError("an abort did not end the run of a host that does not read")


def bytewise_writes(root: Path) -> None:
    """Check that commands which arrive byte by byte are answered like others."""
    with provider(lambda number: an_answer("hello")) as url, agent(root, url) as started:
        for data in (
            b'{"id":"s","type":"get_state"}\n',
            '{"id":"p","type":"prompt","message":"ü 😀"}\r\n'.encode(),
            b"\n",
            b"x\n",
        ):
            for at in range(len(data)):
                started.write(data[at : at + 1])
        started.until(b'"id":"s"')
        started.until(b'"type":"agent_settled"')
        started.leave()
        texts = [str(entry) for entry in started.saved()]
        assert any("ü 😀" in text for text in texts) and any("hello" in text for text in texts), texts


def run(options: Options) -> Figures:
    seconds = options.choose(3, 120)
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="fairlead-slow-") as folder:
        cases: list[tuple[str, Callable[[int], Iterable[bytes]], float | None]] = [
            ("a byte a second, an answer of 4 MiB", _long_answer, 1.0),
            ("a byte a second, turns without end", _turns, 1.0),
            ("never reads, an answer of 4 MiB", _long_answer, None),
            ("never reads, turns without end", _turns, None),
        ]
        slowest = 0.0
        for number, (name, body, pace) in enumerate(cases):
            grown, left, started = _unread(Path(folder, str(number)), body, seconds, pace)
            figures.done[f"MiB more ({name})"] = grown
            slowest = max(slowest, left)
            if grown > GROWTH:
                figures.problems.append(f"{name}: the memory grew by {grown:.0f} MiB")
            if not any(entry.get("message", {}).get("role") == "user" for entry in started.saved()):
                figures.problems.append(f"{name}: the prompt is not in the file")
        bytewise_writes(Path(folder, "bytewise"))
    figures.done["seconds at most until the process left"] = slowest
    return figures
