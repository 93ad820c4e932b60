"""The header of a session: the first line of its file, or a field of its row. And the files that have none.

The header is all that a store knows of the contents of a session, besides what `fairlead.stores.summaries` shows in lists.
"""

import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.core import lenient
from fairlead.errors import SessionError
from fairlead.stores.paths import iso
from fairlead.stores.session_files import BINARY, refuse_endless

VERSION = 3

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
