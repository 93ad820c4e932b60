"""Cutting a text into lines."""

from __future__ import annotations

from fairlead.tools.background import Stop

_BLOCK = 1024 * 1024


def split_lines(text: str, stop: Stop) -> list[str]:
    """What lies between the newlines, as `text.split("\\n")` gives it.

    Done block by block: one split of a huge text would keep the interpreter, and the event loop with it, busy for seconds.
    """
    lines: list[str] = []
    start = 0
    while (end := text.find("\n", start + _BLOCK)) >= 0:
        stop.check()
        lines += text[start:end].split("\n")
        start = end + 1
    lines += text[start:].split("\n")
    return lines
