"""Reads the conversations of sub-agents piece by piece while they grow."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.errors import SessionError
from fairlead.session.history.reading import is_utf8, refuse_endless


class Transcript(Struct):
    """The complete lines of a session file from the byte `start` to the byte `end`, where the next piece begins."""

    start: int
    end: int
    #: Whether the file was shorter than asked for, so that it was read from its beginning.
    reset: bool
    #: Header and entries, as JSON; and the messages in them.
    lines: list[bytes]
    messages: list[Raw]


class _Line(Struct):
    type: str = ""
    message: Raw | UnsetType = UNSET


_line = msgspec.json.Decoder(_Line)


def read_transcript(path: Path, start: int = 0) -> Transcript:
    """The content of a session file from a byte on. A file that does not exist yet is empty. Raises SessionError."""
    start = max(start, 0)
    try:
        refuse_endless(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            reset = start > size
            start = 0 if reset else start
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return Transcript(start, start, False, [], [])
    except OSError as error:
        raise SessionError(f"Cannot read session file {path}: {error.strerror or error}.") from error
    end = data.rfind(b"\n") + 1
    lines: list[bytes] = []
    messages: list[Raw] = []
    if not is_utf8(data):  # frames are: U+FFFD stands for what is not
        lines_of_file = [text.decode("utf-8", "replace").encode() for text in data[:end].split(b"\n")]
    else:
        lines_of_file = data[:end].split(b"\n")
    for text in lines_of_file:
        try:
            line = _line.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue  # empty, or only the end of a line
        lines.append(text)
        if line.type == "message" and not isinstance(line.message, UnsetType):
            messages.append(line.message)
    return Transcript(start, start + end, reset, lines, messages)
