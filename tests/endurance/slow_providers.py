"""Providers that send one byte at a time, 50 MB at once, or without end."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.endurance.entries import Figures, Options
from tests.endurance.slow_parts import (
    agent,
    an_answer,
    arguments_delta,
    beginning,
    ending,
    provider,
    text_delta,
)

NAME = "slow-providers"
TITLE = "A provider that sends one byte at a time, 50 MB of text, of arguments or in one event, and one that never ends"
STARTS_PROCESSES = True

_MIB = 1 << 20
#: The memory that a huge answer may take, as a multiple of its size: the text, its JSON, and the line of the session file.
TIMES = 8


def _bytewise(text: str) -> Iterator[bytes]:
    for piece in an_answer(text, 8):
        for at in range(len(piece)):
            yield piece[at : at + 1]


def _large_text(size: int) -> Iterator[bytes]:
    yield beginning({"type": "text", "text": ""})
    for _ in range(size // 4_000):
        yield text_delta("word " * 800)
    yield ending("end_turn")


def _large_arguments(size: int) -> Iterator[bytes]:
    yield beginning({"type": "tool_use", "id": "c1", "name": "write", "input": {}})
    yield arguments_delta('{"path": "made.txt", "content": "')
    for _ in range(size // 4_000):
        yield arguments_delta("word " * 800)
    yield arguments_delta('"}')
    yield ending("tool_use")


def _one_event(size: int) -> Iterator[bytes]:
    yield beginning({"type": "text", "text": ""})
    data = text_delta("word " * (size // 5))
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]
    yield ending("end_turn")


def _one_line() -> Iterator[bytes]:
    """Yield a line of an event that never ends."""
    yield beginning({"type": "text", "text": ""}) + b"data: "
    while True:
        yield b"x" * (1 << 16)


def _endless(pause: float) -> Iterator[bytes]:
    yield beginning({"type": "text", "text": ""})
    while True:
        yield text_delta("word " * 800)
        time.sleep(pause)


def _then_short(first: Iterable[bytes]) -> Callable[[int], Iterable[bytes]]:
    return lambda number: first if number == 0 else an_answer("done")


def _asked(root: Path, first: Iterable[bytes], *, abort_after: float | None = None) -> tuple[float, str, list[int]]:
    """Prompt a model that answers so. Returns the growth of memory in MiB, the reason of the stop, and the sizes of messages."""
    settings = {"retry": {"enabled": False}}
    with provider(_then_short(first)) as url, agent(root, url, settings=settings) as started:
        started.send(id="s", type="get_state")
        started.until(b'"id":"s"')
        started.send(type="set_updates", updates="delta")
        before = started.peak
        started.send(id="p", type="prompt", message="go")
        if abort_after is not None:
            end = time.monotonic() + abort_after
            while time.monotonic() < end:
                started.read(1 << 16)
            started.send(id="a", type="abort")
        started.until(b'"type":"agent_settled"', 600)
        grown = started.peak - before
        started.leave()
        answers = [entry["message"] for entry in started.saved() if entry.get("message", {}).get("role") == "assistant"]
        return grown, answers[0]["stopReason"], [len(json.dumps(answer)) for answer in answers]


def run(options: Options) -> Figures:
    size = options.choose(2, 50) * _MIB
    text = "a byte at a time " * options.choose(20, 400)
    figures = Figures()
    cases: list[tuple[str, Iterable[bytes], float | None, str, int]] = [
        ("one byte at a time", _bytewise(text), None, "stop", len(text)),
        (f"{size >> 20} MiB of text", _large_text(size), None, "stop", size),
        (f"{size >> 20} MiB of arguments", _large_arguments(size), None, "toolUse", size),
        (f"{size >> 20} MiB in one event", _one_event(size), None, "stop", size),
        ("text without end, aborted", _endless(0.005), options.choose(2, 20), "aborted", 0),
    ]
    if not options.short:
        cases.append(("a line without end", _one_line(), None, "error", 0))
        cases.append(("text without end", _endless(0), None, "error", 0))
    with tempfile.TemporaryDirectory(prefix="fairlead-slow-") as folder:
        for number, (name, first, abort_after, reason, length) in enumerate(cases):
            grown, stopped, sizes = _asked(Path(folder, str(number)), first, abort_after=abort_after)
            figures.done[f"MiB more ({name})"] = grown
            if stopped != reason:
                figures.problems.append(f"{name}: the answer ended with {stopped}, not {reason}")
            if sizes[0] < length * 0.99:
                figures.problems.append(f"{name}: the file has {sizes[0]} bytes of {length}")
            if length and grown > 32 + TIMES * length / _MIB:
                figures.problems.append(f"{name}: the memory grew by {grown:.0f} MiB")
    return figures
