"""What people read about a tool call: a verb, what it is about, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import loads
from typing import Any

from fairlead.chat.view.text import plain, visible

Arguments = Mapping[str, Any]

#: How many characters of a value of an unknown tool are shown.
_LONGEST_VALUE = 60
_LONGEST_VALUES = 160
#: An argument of a call whose JSON is not complete yet.
_ARGUMENT = re.compile(r'"(path|command|pattern|file_path)"\s*:\s*"((?:[^"\\]|\\.)*)')
#: An escape of JSON that has not arrived as a whole.
_CUT_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}$")
_UNIT = 1000


def call_title(name: str, arguments: Arguments) -> tuple[str, str]:
    """Return a verb and what the call is about. The arguments may be unchecked or incomplete."""
    path = _text(arguments.get("path") or arguments.get("file_path"))
    match name:
        case "bash":
            return "$", _text(arguments.get("command")).strip("\n")
        case "read":
            return "Read", path + _lines_read(arguments)
        case "edit" | "write":
            return name.capitalize(), path
        case "grep" | "find":
            where = f" in {path}" if path and path != "." else ""
            return "Search" if name == "grep" else "Find", _text(arguments.get("pattern")) + where
        case "ls":
            return "List", path or "."
        case "task":
            return "Agents", _text(arguments.get("agent"))
        case "todo_write":
            return "Todo list", ""
        case "ask":
            return "Question", _text(arguments.get("question"))
        case _:
            return plain(visible(name)), _values(arguments)


def partial_title(name: str, json: str) -> tuple[str, str]:
    """Return the title of a call whose arguments are still arriving."""
    found = {match[1]: _unescape(match[2]) for match in _ARGUMENT.finditer(json[:2000])}
    verb, about = call_title(name, found)
    return verb, about.partition("\n")[0]


def _unescape(text: str) -> str:
    """Return what a string of JSON stands for. It may end in the middle of an escape, which is left out."""
    try:
        return loads(f'"{_CUT_ESCAPE.sub("", text)}"', strict=False)
    except ValueError:
        return text


def format_elapsed(seconds: float, whole_from: float = 10) -> str:
    """Return a time for people: `0.4s`, `12s`, `2m 05s`, `1h 02m`. Times from `whole_from` have no fraction."""
    if seconds < whole_from:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def size(count: float) -> str:
    """Return a number of bytes for people: `812 B`, `3.4 kB`, `12 MB`."""
    number = short(count)
    return f"{number.rstrip('kMG')} {number.lstrip('0123456789.')}B"


def format_count(count: int, noun: str) -> str:
    """Return `1 message` or `1,200 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def short(count: float) -> str:
    """Return a number for people: `812`, `3.4k`, `12M`."""
    for prefix in ("", "k", "M"):
        if count < _UNIT:
            return f"{count:.0f}{prefix}" if not prefix or count >= 10 else f"{count:.1f}{prefix}"
        count /= _UNIT
    return f"{count:.1f}G"


def _lines_read(arguments: Arguments) -> str:
    first, count = arguments.get("offset"), arguments.get("limit")
    first = first if isinstance(first, int) and first > 0 else 1
    if isinstance(count, int):
        return f":{first}-{first + count - 1}"
    return f":{first}-" if first > 1 else ""


def _values(arguments: Arguments) -> str:
    parts: list[str] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else repr(value)
        text = " ".join(plain(visible(text[: 4 * _LONGEST_VALUE])).split())
        parts.append(f"{plain(visible(name))}={text[:_LONGEST_VALUE]}{'…' if len(text) > _LONGEST_VALUE else ''}")
    shown = " ".join(parts)
    return shown if len(shown) <= _LONGEST_VALUES else f"{shown[:_LONGEST_VALUES]}…"


def _text(value: Any) -> str:
    return plain(visible(value), 4) if isinstance(value, str) else ""
