"""How much of a text a model is shown, and the account of it that goes to the host."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

MAX_LINES = 2000
MAX_BYTES = 50 * 1024


class Truncation(Struct, rename="camel"):
    """`content` is what was kept of a text of `total_lines` and `total_bytes`.

    A newline ends a line: `a\\nb\\n` has two. Content that was cut does not end with one.
    """

    content: str
    truncated: bool
    truncated_by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    #: The only line kept is itself cut (at its start).
    last_line_partial: bool = False
    #: Nothing could be kept: the first line alone is over the limit.
    first_line_exceeds_limit: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    def as_details(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)


def whole(text: str, size: int | None = None) -> Truncation:
    """Return the account of a text that was not cut."""
    lines = count_lines(text)
    size = len(text.encode()) if size is None else size
    return Truncation(text, False, None, lines, size, lines, size)


def head(text: str) -> Truncation:
    """The first lines of `text`, as many whole ones as the byte limit allows. A line count has its own limit in each listing."""
    data = text.encode()
    if len(data) <= MAX_BYTES:
        return whole(text, len(data))
    kept, newline, _ = data[: MAX_BYTES + 1].rpartition(b"\n")
    return Truncation(
        content=kept.decode(),
        truncated=True,
        truncated_by="bytes",
        total_lines=count_lines(text),
        total_bytes=len(data),
        output_lines=kept.count(b"\n") + 1 if newline else 0,
        output_bytes=len(kept),
        first_line_exceeds_limit=not newline,
    )


def tail(end: str, total_lines: int, total_bytes: int) -> Truncation:
    """Return the last lines of a text of which `end` holds at least the last `MAX_BYTES` bytes."""
    if total_lines <= MAX_LINES and total_bytes <= MAX_BYTES:
        return Truncation(end, False, None, total_lines, total_bytes, total_lines, total_bytes)
    data = end.encode().removesuffix(b"\n")
    by: Literal["lines", "bytes"] = "bytes"
    partial = False
    kept = data[-MAX_BYTES:]
    if len(data) > MAX_BYTES and data[-MAX_BYTES - 1] != 10:
        _, newline, rest = kept.partition(b"\n")
        partial = not newline
        kept = rest if newline else _from_character_start(kept)
    if kept.count(b"\n") >= MAX_LINES:
        kept = b"\n".join(kept.rsplit(b"\n", MAX_LINES)[1:])
        by = "lines"
    return Truncation(
        content=kept.decode(),
        truncated=True,
        truncated_by=by,
        total_lines=total_lines,
        total_bytes=total_bytes,
        output_lines=kept.count(b"\n") + 1,
        output_bytes=len(kept),
        last_line_partial=partial,
    )


def count_lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def format_size(size: int) -> str:
    if size < 1024:
        return f"{size}B"
    if size < 1024 * 1024:
        return f"{size / 1024:.1f}KB"
    return f"{size / (1024 * 1024):.1f}MB"


def _from_character_start(data: bytes) -> bytes:
    """Drop the bytes of a UTF-8 character whose first byte was cut off."""
    start = 0
    while start < min(len(data), 4) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
