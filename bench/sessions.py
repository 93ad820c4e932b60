"""Write a long session in pi's format (JSON lines, version 3), the same for every contestant."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

Fields = dict[str, Any]

_DATE, _TIMESTAMP = "2026-01-01T00:00:00.000Z", 1767225600000
_PRICES = {"input": 3e-6, "output": 15e-6, "cacheRead": 0.3e-6, "cacheWrite": 3.75e-6}
_HEADER = {"type": "session", "version": 3, "id": "019b7727-0800-7000-8000-000000000000", "timestamp": _DATE}


def write_session(path: Path, entries: int) -> int:
    """Write a session with a number of entries of about 580 bytes each. Return how many are messages."""
    path.write_bytes(msgspec.json.encode({**_HEADER, "cwd": str(path.parent)}) + b"\n" + _lines(entries))
    return entries - 2


@functools.cache
def _lines(entries: int) -> bytes:
    lines: list[bytes] = []
    parent = None
    for number, (kind, fields) in enumerate(islice(_conversation(), entries)):
        chained = {"type": kind, "id": f"{number:08x}", "parentId": parent, "timestamp": _DATE}
        lines.append(msgspec.json.encode({**chained, **fields}) + b"\n")
        parent = chained["id"]
    return b"".join(lines)


def _conversation() -> Iterator[tuple[str, Fields]]:
    """Yield the model and the thinking level; then, without end, a question, a few tool calls with results, and an answer."""
    yield "model_change", {"provider": "scripted", "modelId": "one"}
    yield "thinking_level_change", {"thinkingLevel": "off"}
    writer = _Writer()
    while True:
        yield _message("user", content=[writer.text(40)])
        for _ in range(writer.chance.randint(1, 5)):
            call = writer.call()
            yield writer.answer([writer.text(8), call], "toolUse")
            result = [writer.text(40)]
            yield _message("toolResult", toolCallId=call["id"], toolName=call["name"], content=result, isError=False)
        yield writer.answer([writer.text(45)], "stop")


def _message(role: str, **fields: Any) -> tuple[str, Fields]:
    return "message", {"message": {"role": role, **fields, "timestamp": _TIMESTAMP}}


class _Writer:
    """Makes up texts, the same in every run."""

    def __init__(self) -> None:
        self.chance = random.Random(7)
        self._words = ["".join(self.chance.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(2_000)]
        self._calls = 0

    def text(self, words: int) -> Fields:
        return {"type": "text", "text": self._lines_of(words)}

    def call(self) -> Fields:
        self._calls += 1
        return {
            "type": "toolCall",
            "id": f"toolu_{self._calls:06d}",
            "name": "bash",
            "arguments": {"command": self._lines_of(6)},
        }

    def answer(self, content: list[Fields], stop_reason: str) -> tuple[str, Fields]:
        tokens = {kind: self.chance.randint(1, 5_000) for kind in _PRICES}
        cost = {kind: count * _PRICES[kind] for kind, count in tokens.items()}
        usage = {**tokens, "totalTokens": sum(tokens.values()), "cost": {**cost, "total": sum(cost.values())}}
        model = {"api": "anthropic-messages", "provider": "scripted", "model": "one"}
        return _message("assistant", content=content, **model, usage=usage, stopReason=stop_reason)

    def _lines_of(self, words: int) -> str:
        """Return about this many words, ten per line."""
        chosen = self.chance.choices(self._words, k=self.chance.randint(1, 2 * words))
        return "\n".join(" ".join(chosen[start : start + 10]) for start in range(0, len(chosen), 10))
