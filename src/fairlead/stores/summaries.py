"""What a list says about a session: its name, its first message and how many messages it has.

This is the only module of the stores that looks into entries, so that lists are the same wherever sessions are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.messages import UserMessage, decode_message, user_text
from fairlead.core.snapshots import SessionInfo


class _Line(Struct):
    """The fields of a line that listings need. They accept any type, so that one bad field does not hide the others."""

    type: Any = ""
    name: Any = None
    custom_type: Any = msgspec.field(name="customType", default="")
    message: Raw | UnsetType = UNSET


_line = msgspec.json.Decoder(_Line)


def decode_listed(text: bytes) -> _Line | None:
    """Decode a line of a file; None if it cannot be decoded."""
    try:
        return _line.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if not text.strip():
            return None
    try:
        return _line.decode(msgspec.json.encode(lenient.decode(text)))
    except (msgspec.DecodeError, ValueError):
        return None


def describe_lines(info: SessionInfo, lines: Iterable[bytes]) -> int:
    """Fill in the name and the first message of a session from its lines, and return how many of these are messages."""
    count = 0
    for text in lines:
        line = decode_listed(text)
        if line is None:
            continue
        if line.type == "session_info":
            info.name = (line.name.strip() if isinstance(line.name, str) else "") or None
        elif line.type == "message" and line.message is not UNSET:
            count += 1
            if not info.first_message and isinstance(message := decode_message(line.message), UserMessage):
                info.first_message = user_text(message)
    return count
