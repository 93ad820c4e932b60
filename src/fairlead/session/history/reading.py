"""Reading session files, whatever has become of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from fairlead.config.files import is_of_kernel
from fairlead.core import lenient
from fairlead.errors import SessionError
from fairlead.session.history.entries import VERSION, Entry, Header, NotAnEntry, decode_line
from fairlead.session.history.log import Log

#: Open files as bytes on systems that would translate line ends.
BINARY: int = getattr(os, "O_BINARY", 0)
#: A header is looked for in this much of a file.
HEADER_LIMIT = 1 << 16
#: The largest file that is read as a whole.
LARGEST = 1 << 30

_TITLE = b'{"type":"title"'
_NOTHING = b" \t\r\n\0"


class Contents(Struct):
    """What a file holds."""

    log: Log
    problems: list[str]
    #: How much of the file is good: after it comes a torn line, if anything.
    good: int
    #: The last line is complete but for its end.
    unended: bool
    #: The lines that an older version's file should have.
    migrated: list[bytes] | None


def read_session(path: Path) -> tuple[Log, list[str]]:
    """A conversation and what is wrong with its file, without touching it; also while another process writes it.

    Raises SessionError if it is not a session file.
    """
    try:
        refuse_endless(path, whole=True)
        data = path.read_bytes()
    except OSError as error:
        raise cannot("read", path, error) from error
    contents = parse(path, data)
    if contents.good < len(data):
        contents.problems.append(f"The last line of {path} is incomplete and was left out.")
    return contents.log, contents.problems


def parse(path: Path, data: bytes) -> Contents:
    """What the bytes of a session file say. Raises SessionError if they do not begin with a header."""
    lines = data.split(b"\n")
    tail = lines.pop()
    unended = _is_json(tail)
    if unended:
        lines.append(tail)
    if not is_utf8(data):
        lines = [line if is_utf8(line) else line.decode("utf-8", "replace").encode() for line in lines]
    start, header = _find_header(path, lines)
    version = 1 if header.version is UNSET else header.version
    migrated: list[bytes] | None = None
    if version < VERSION:
        from fairlead.session.history.migration import migrate

        migrated = lines = migrate(lines, version)
        header = read_header(lines[start]) or header
    records: list[tuple[Entry, bytes]] = []
    gaps: list[int] = []
    problems: list[str] = []
    for number in range(start + 1, len(lines)):
        line = lines[number]
        try:
            records.append(decode_line(line))
        except NotAnEntry:
            continue
        except ValueError:
            if line.strip():
                gaps.append(len(records))
                problems.append(f"Line {number + 1} of {path} cannot be read and was skipped.")
    good = len(data) if unended else len(data) - len(tail)
    return Contents(Log(header, records, gaps=gaps), problems, good, unended, migrated)


def _find_header(path: Path, lines: list[bytes]) -> tuple[int, Header]:
    """The header, and which line it is: the first one, after omp's title if there is one."""
    for number, line in enumerate(lines[:2]):
        header = read_header(line)
        if header is not None:
            return number, header
        if not line.startswith(_TITLE):
            break
    raise SessionError(f"{path} is not a session file: it does not begin with a session header.")


def read_header(line: bytes) -> Header | None:
    """The header in a file's first line; None if it is something else."""
    try:
        header = msgspec.convert(lenient.decode(line), Header)
    except (msgspec.ValidationError, ValueError):
        return None
    return header if header.id else None


def header_in(data: bytes) -> Header | None:
    """The header of a file that begins with `data`; None if it has none."""
    first, _, rest = data.partition(b"\n")
    return read_header(rest.partition(b"\n")[0] if first.startswith(_TITLE) else first)


def header_of(path: Path) -> Header | None:
    """The header of a file; None if it has none, or cannot be read."""
    try:
        refuse_endless(path)
        with path.open("rb", buffering=0) as file:
            return header_in(file.read(HEADER_LIMIT))
    except (OSError, SessionError):
        return None


def is_blank(handle: int) -> bool:
    """Whether an open file holds nothing: no bytes, or only those that a crash leaves of a header or of no text at all."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > HEADER_LIMIT:
        return False
    data = os.pread(handle, HEADER_LIMIT, 0).strip(_NOTHING)
    return not data or (b"\n" not in data and data.startswith(b'{"type":"session"') and not _is_complete(data))


def is_blank_file(path: Path) -> bool:
    """Whether there is a file of that name that holds nothing, as `is_blank` says."""
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


def _is_complete(line: bytes) -> bool:
    try:
        lenient.decode(line)
    except ValueError:
        return False
    return True


def _is_json(line: bytes) -> bool:
    try:
        decode_line(line)
    except NotAnEntry:
        return read_header(line) is not None
    except ValueError:
        return False
    return True


def is_utf8(data: bytes) -> bool:
    """Whether some bytes are valid UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def refuse_endless(path: Path, *, whole: bool = False) -> None:
    """Raise SessionError for what may never end, or never begin, when it is read: a pipe, a device, a file that the kernel makes
    up; with `whole`, also for a file that would not fit into memory."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or is_of_kernel(status):
        raise SessionError(f"{path} is not a session file: it is not a regular file on a disk.")
    if whole and status.st_size > LARGEST:
        raise SessionError(f"{path} is too large to be opened: it has more than {LARGEST >> 30} GiB.")


def cannot(what: str, path: Path, error: OSError) -> SessionError:
    """The error to raise when the system does not let us do something with a session file."""
    if isinstance(error, FileNotFoundError) and what != "write":
        return SessionError(f"Session file {path} does not exist.")
    return SessionError(f"Cannot {what} session file {path}: {error.strerror or error}.")
