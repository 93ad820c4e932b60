"""A conversation on disk: an append-only file of JSON lines, one `write` per entry, one writer at a time.

    file = SessionFile.create(path, log)            # a new one; it appears with the first message of the user
    file, log, problems = SessionFile.open(path)    # an old one, to go on with
    log, problems = read_session(path)              # to look at it, also while another process writes it

What could not be written is never half there: the file ends with the last entry that was. A crash in the middle of a
write leaves a torn last line; the next writer cuts it off.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from fairlead.core import lenient
from fairlead.errors import SessionError
from fairlead.session.entries import (
    VERSION,
    WAITING,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    Header,
    NotAnEntry,
    decode_line,
    role_of,
)
from fairlead.session.log import Log
from fairlead.session.places import Durability

_BINARY: int = getattr(os, "O_BINARY", 0)


# Reading


class _Contents(Struct):
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

    Raises SessionError if it is no session file.
    """
    try:
        refuse_endless(path)
        data = path.read_bytes()
    except OSError as error:
        raise _cannot("read", path, error) from error
    contents = _parse(path, data)
    if contents.good < len(data):
        contents.problems.append(f"The last line of {path} is incomplete and was left out.")
    return contents.log, contents.problems


def _parse(path: Path, data: bytes) -> _Contents:
    lines = data.split(b"\n")
    tail = lines.pop()
    unended = _is_json(tail)
    if unended:
        lines.append(tail)
    if not _is_utf8(data):
        lines = [line if _is_utf8(line) else line.decode("utf-8", "replace").encode() for line in lines]
    start, header = _find_header(path, lines)
    version = 1 if header.version is UNSET else header.version
    migrated: list[bytes] | None = None
    if version < VERSION:
        from fairlead.session.migrate import migrate

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
    return _Contents(Log(header, records, gaps=gaps), problems, good, unended, migrated)


def _find_header(path: Path, lines: list[bytes]) -> tuple[int, Header]:
    """The header, and which line it is: the first one, after omp's title if there is one."""
    for number, line in enumerate(lines[:2]):
        header = read_header(line)
        if header is not None:
            return number, header
        if not line.startswith(b'{"type":"title"'):
            break
    raise SessionError(f"{path} is not a session file: it does not begin with a session header.")


def read_header(line: bytes) -> Header | None:
    """The header in a file's first line; None if it is something else."""
    try:
        header = msgspec.convert(lenient.decode(line), Header)
    except (msgspec.ValidationError, ValueError):
        return None
    return header if header.id else None


def _is_json(line: bytes) -> bool:
    try:
        decode_line(line)
    except NotAnEntry:
        return read_header(line) is not None
    except ValueError:
        return False
    return True


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# Writing


class SessionFile:
    """The sink of a log: see `fairlead.session.log.Sink`."""

    def __init__(self, path: Path, durability: Durability = "flush") -> None:
        self.path = path
        #: Lines that are not on disk: from before the user's first message, or held back by a failure. In order.
        self.pending: list[bytes] = []
        #: Whether the conversation is worth a file: there is one, or the next write makes it.
        self.begun = False
        self._durability: Durability = durability
        self._handle: int | None = None
        #: Where the file must be cut before anything is added.
        self._cut_to: int | None = None

    @classmethod
    def create(cls, path: Path, log: Log, *, durability: Durability = "flush") -> SessionFile:
        """Keep a new conversation, or a fork of one, in a new file.

        The disk is not touched before the conversation has a message of the user or the model, or a command that was run.
        """
        file = cls(path, durability)
        file.pending = log.lines()
        if any(_begins(entry) for entry in log.entries()):
            file.begun = True
            file.flush_pending()
        log.sink = file
        return file

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "flush") -> tuple[SessionFile, Log, list[str]]:
        """Go on with a conversation; also says what was wrong with its file. An old version's file is rewritten.

        Raises SessionError if it is no session file, cannot be written, or another process is writing it.
        """
        file = cls(path, durability)
        try:
            refuse_endless(path)
            file._handle = _open_locked(path, os.O_RDWR | os.O_APPEND | _BINARY)
            with open(file._handle, "rb", buffering=0, closefd=False) as stream:
                data = stream.readall()
            contents = _parse(path, data)
            version = contents.log.header.version
            if version is not UNSET and version > VERSION:
                raise SessionError(
                    f"{path} is of version {version}; this program can read it, but writes version {VERSION} only."
                )
            file._repair(contents, len(data))
        except OSError as error:
            file.close()
            raise _cannot("open", path, error) from error
        except BaseException:
            file.close()
            raise
        file.begun = True
        contents.log.sink = file
        return file, contents.log, contents.problems

    def write(self, entry: Entry, line: bytes) -> None:
        """Append an entry, after all that is pending. Raises SessionError if it cannot; the file is then as it was."""
        if not self.begun and not _begins(entry):
            self.pending.append(line)
            return
        self._write_out([*self.pending, line])
        self.begun = True

    def hold(self, line: bytes) -> None:
        """Write this line, which could not be written, before the next."""
        self.pending.append(line)
        self.begun = True

    def flush_pending(self) -> None:
        """Try again to write what is pending. Raises SessionError, and keeps it, if that still fails."""
        if self.begun and self.pending:
            self._write_out(self.pending)

    def close(self) -> None:
        """Let another process write the file. What is still pending stays unwritten."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = self._cut_to = None

    # Inside

    def _write_out(self, lines: list[bytes]) -> None:
        try:
            created = self._handle is None
            handle = self._handle if self._handle is not None else self._create()
            try:
                if created and self._durability == "fsync":
                    _sync_folder(self.path.parent)
                self._add(handle, b"\n".join([*lines, b""]))
            except BaseException:
                if created:  # an empty file would only be in the way; it goes while nobody else can begin to use it
                    with suppress(OSError):
                        self.path.unlink()
                    self.close()
                raise
        except OSError as error:
            raise _cannot("write", self.path, error) from error
        self.pending = []

    def _create(self) -> int:
        _make_folders(self.path.parent)
        handle = _open_locked(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY)
        if os.fstat(handle).st_size:
            os.close(handle)
            raise SessionError(f"Session file {self.path} exists already.")
        self._handle = handle
        return handle

    def _add(self, handle: int, data: bytes) -> None:
        """Append all of `data`, or nothing of it."""
        if self._cut_to is not None:
            os.ftruncate(handle, self._cut_to)
            self._cut_to = None
        before = os.fstat(handle)
        if before.st_nlink == 0:
            raise SessionError(f"Session file {self.path} was deleted or replaced while in use. A clone gets a file of its own.")
        if before.st_size and os.pread(handle, 1, before.st_size - 1) != b"\n":
            data = b"\n" + data  # another program has cut the file off in the middle of a line: that must not take ours with it
        written = 0
        try:
            # One call, unless the disk is full (then the second one says so) or there are gigabytes to write.
            while written < len(data):
                written += os.write(handle, data[written:] if written else data)
            if self._durability == "fsync":
                os.fsync(handle)
        except OSError:
            # A program that does not know of the lock may have added something since: that is not ours to cut.
            if written and os.fstat(handle).st_size == before.st_size + written:
                self._cut_to = before.st_size
                with suppress(OSError):
                    os.ftruncate(handle, before.st_size)
                    self._cut_to = None
            raise

    def _repair(self, contents: _Contents, size: int) -> None:
        assert self._handle is not None
        if contents.good < size:
            contents.problems.append(
                f"The last line of {self.path} was incomplete and was cut off ({size - contents.good} bytes)."
            )
        if contents.migrated is not None:
            self._replace(b"\n".join([*contents.migrated, b""]))
        elif contents.good < size:
            os.ftruncate(self._handle, contents.good)
        elif contents.unended:
            self._add(self._handle, b"")  # the end of its line

    def _replace(self, data: bytes) -> None:
        """Put a new file in the place of the present one, at once, without letting go of the lock."""
        import tempfile

        assert self._handle is not None
        target = self.path.resolve()  # a link to the file stays a link
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        new: int | None = None
        try:
            new = _open_locked(Path(name), os.O_RDWR | os.O_APPEND | _BINARY)
            self._add(new, data)
            os.fsync(new)
            Path(name).replace(target)
        except BaseException:
            if new is not None:
                os.close(new)
            Path(name).unlink(missing_ok=True)
            raise
        os.close(self._handle)
        self._handle = new


def _begins(entry: Entry) -> bool:
    """Whether a session is worth a file from this entry on: somebody said something, or queued it, or ran a command."""
    if isinstance(entry, CustomEntry):
        return entry.custom_type == WAITING
    return isinstance(entry, CustomMessageEntry) or role_of(entry) in ("user", "assistant", "bashExecution")


def _cannot(what: str, path: Path, error: OSError) -> SessionError:
    if isinstance(error, FileNotFoundError) and what != "write":
        return SessionError(f"Session file {path} does not exist.")
    return SessionError(f"Cannot {what} session file {path}: {error.strerror or error}.")


def refuse_endless(path: Path) -> None:
    """Raise SessionError for what may never end, or never begin, when it is read: a pipe, a device, a socket."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SessionError(f"{path} is not a session file: it is not a regular file.")


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it, for this user alone."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Locking


def _open_locked(path: Path, flags: int) -> int:
    """A handle of a file that no other process has locked. Raises SessionError if one has."""
    while True:
        handle = os.open(path, flags, 0o600)
        try:
            lock(handle, path)
            # Whoever held the lock before may have put another file in the place of the one that is open here.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass  # it was deleted
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def lock(handle: int, path: Path) -> None:
    """Claim a session file for as long as `handle` is open. Raises SessionError if another process has."""
    if os.name == "nt":  # a lock there would keep readers out
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return  # a file system without locks
        pid = _lock_holder(handle)
        if pid == os.getpid():
            raise SessionError(f"Session file {path} is in use by another session of this process.") from None
        known = f" (pid {pid})" if pid else ""
        raise SessionError(f"Session file {path} is in use by another process{known}.") from None


def _lock_holder(handle: int) -> int | None:
    """The process that has locked a file, where the system tells."""
    status = os.fstat(handle)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = Path("/proc/locks").read_text()
    except OSError:
        return None
    for line in locks.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK" and words[5] == file:
            return int(words[4]) if words[4].isdecimal() else None
    return None
