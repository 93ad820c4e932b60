"""The header of a session: the first line of its file, or a field of its row. And the files that have none, or must not be read.

The header is all that a store knows of the contents of a session, besides what lists say about one: its name, its first message
and how many messages it has. No other module of the stores looks into entries, so lists are the same wherever sessions are kept.
"""

import os
import stat
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.config.project_files import is_of_kernel
from fairlead.core import lenient
from fairlead.core.messages import UserMessage, decode_message, user_text
from fairlead.core.snapshots import SessionInfo
from fairlead.errors import SessionError
from fairlead.stores.paths import iso

VERSION = 3

#: The flag that keeps Windows from translating line ends.
BINARY: int = getattr(os, "O_BINARY", 0)
#: The largest file that is read as a whole.
LARGEST = 1 << 30

#: A header has to be within this many bytes of a file's beginning.
HEADER_LIMIT = 1 << 16

#: omp writes a title line before the header.
TITLE = b'{"type":"title"'
_BLANKS = b" \t\r\n\0"


class Header(Struct, tag_field="type", tag="session", rename="camel", omit_defaults=True, frozen=True):
    """The first line of a session file.

    `version` is missing in files of version 1. `cwd` is the working directory. `parent_session` is the path of the session
    that this one was forked from or, for a sub-agent, that started it.
    """

    version: int | UnsetType = UNSET
    id: str = ""
    timestamp: str = ""
    cwd: str = ""
    parent_session: str | None = None


def new_header(session_id: str, cwd: str, now_ms: int, parent_session: str | None = None) -> Header:
    """Return the header of a new session that starts at `now_ms`, in milliseconds since the epoch."""
    return Header(version=VERSION, id=session_id, timestamp=iso(now_ms), cwd=cwd, parent_session=parent_session)


def milliseconds(timestamp: str) -> int:
    """Convert an entry's time to milliseconds since the epoch; 0 if it cannot be parsed."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def read_header(line: bytes) -> Header | None:
    """Return the header in a line; None if the line is something else."""
    value = decode_object(line)
    if value is None or value.get("type") != "session":  # msgspec would accept an object without a type
        return None
    try:
        header = msgspec.convert(value, Header)
    except msgspec.ValidationError:
        return None
    return header if header.id else None


def header_in(data: bytes) -> Header | None:
    """Return the header of a file that begins with `data`; None if it has none."""
    return read_header(without_title(data.split(b"\n", 2))[0])


def without_title(lines: list[bytes]) -> list[bytes]:
    """Return the lines of a session file from its header on: without the title that omp writes first."""
    return lines[1:] if len(lines) > 1 and lines[0].startswith(TITLE) else lines


def refuse_endless(path: Path, *, whole: bool = False) -> None:
    """Raise SessionError for a file that may block or never end when it is read: a pipe, a device, a file of the kernel.

    With `whole`, also raise it for a file that is too large for memory. Raises OSError if there is no such file.
    """
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or is_of_kernel(status):
        raise SessionError(f"{path} is not a session file: it is not a regular file on a disk.")
    if whole and status.st_size > LARGEST:
        raise SessionError(f"{path} is too large to open: it has more than {LARGEST >> 30} GiB.")


def header_of(path: Path) -> Header | None:
    """Return the header of a file; None if it has none or cannot be read."""
    try:
        refuse_endless(path)
        with path.open("rb", buffering=0) as file:
            return header_in(file.read(HEADER_LIMIT))
    except (OSError, SessionError):
        return None


def is_blank(handle: int) -> bool:
    """Whether an open file has no content: no bytes, only blanks and NULs, or the beginning of a header that a crash cut off."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > HEADER_LIMIT:
        return False
    data = os.pread(handle, HEADER_LIMIT, 0).strip(_BLANKS)
    return not data or (b"\n" not in data and data.startswith(b'{"type":"session"') and not _is_complete(data))


def is_blank_file(path: Path) -> bool:
    """Whether a file exists at `path` and is blank, as `is_blank` defines it."""
    try:
        refuse_endless(path)
        handle = os.open(path, os.O_RDONLY | BINARY)
    except (OSError, SessionError):
        return False
    try:
        return is_blank(handle)
    except OSError:
        return False
    finally:
        os.close(handle)


def decode_object(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line; None if the line is something else."""
    try:
        value = lenient.decode(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_complete(line: bytes) -> bool:
    try:
        lenient.decode(line)
    except ValueError:
        return False
    return True


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
