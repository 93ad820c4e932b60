"""A conversation on disk: an append-only file of JSON lines, one `write` per entry, one writer at a time.

    file = SessionFile.create(path, log)            # a new one; it appears with the first message of the user
    file, log, problems = SessionFile.open(path)    # an old one, to go on with

A new file gets its name only when all that it begins with is in it. What could not be written is never half there: the file
ends with the last entry that was. A crash in the middle of a write leaves a torn last line; the next writer cuts it off.

What another program does to the file meanwhile is noticed before the next entry is written: see `_restore`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import UNSET

from fairlead.errors import SessionError
from fairlead.session.history.entries import (
    VERSION,
    WAITING,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
    role_of,
)
from fairlead.session.history.locking import make_folders, open_locked, put_in_place, set_aside, sync_folder, temporary
from fairlead.session.history.log import Log
from fairlead.session.history.paths import Durability
from fairlead.session.history.reading import BINARY, Contents, cannot, parse, refuse_endless

#: How many of a file's last bytes are looked at before something is added to it.
_TAIL = 64


class SessionFile:
    """The sink of a log: see `fairlead.session.history.log.Sink`."""

    def __init__(self, path: Path, log: Log, durability: Durability = "flush") -> None:
        self.path = path
        #: Lines that are not on disk: from before the file was made, or held back by a failure. In order.
        self.pending: list[bytes] = []
        #: Whether the conversation is worth a file: there is one, or the next write makes it.
        self.begun = False
        #: Whether any entry makes the file: a host was told, or will be, that it is kept.
        self.eager = False
        #: Told, in a sentence, what another program did to the file and what became of it.
        self.on_change: Callable[[str], None] = lambda text: None
        self._log = log
        self._durability: Durability = durability
        #: Where the file itself is: a link to it stays a link.
        self._target = path
        self._handle: int | None = None
        self._made_here = False
        #: Where the file must be cut before anything is added.
        self._cut_to: int | None = None
        #: How the file was left: its length and its last bytes.
        self._size = 0
        self._tail: bytes = b""

    @classmethod
    def create(cls, path: Path, log: Log, *, durability: Durability = "flush") -> SessionFile:
        """Keep a new conversation, or a fork of one, in a new file.

        The disk is not touched before the conversation has a message of the user or the model, or a command that was run;
        or before `begin`.
        """
        file = cls(path, log, durability)
        file.pending = log.lines()
        if any(_begins(entry) for entry in log.entries()):
            file.begin()
        log.sink = file
        return file

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "flush") -> tuple[SessionFile, Log, list[str]]:
        """Go on with a conversation; also says what was wrong with its file. An old version's file is rewritten.

        Raises SessionError if it is not a session file, cannot be written, or another process is writing it.
        """
        handle: int | None = None
        try:
            refuse_endless(path, whole=True)
            handle = open_locked(path, os.O_RDWR | os.O_APPEND | BINARY)
            with open(handle, "rb", buffering=0, closefd=False) as stream:
                data = stream.readall()
            contents = parse(path, data)
            version = contents.log.header.version
            if version is not UNSET and version > VERSION:
                raise SessionError(
                    f"{path} is of version {version}; this program can read it, but writes version {VERSION} only."
                )
            file = cls(path, contents.log, durability)
            file._target, file._handle = _real(path), handle
            file._size, file._tail = len(data), data[-_TAIL:]
            file._repair(contents)
        except OSError as error:
            _close(handle)
            raise cannot("open", path, error) from error
        except BaseException:
            _close(handle)
            raise
        file.begun = True
        contents.log.sink = file
        return file, contents.log, contents.problems

    def begin(self) -> None:
        """Make the file now, with all that the log holds. Raises SessionError if that fails; then it is tried again later."""
        self.begun = True
        self.flush_pending()

    def write(self, entry: Entry, line: bytes) -> None:
        """Append an entry, after all that is pending. Raises SessionError if it cannot; the file is then as it was."""
        if not (self.begun or self.eager or _begins(entry)):
            self.pending.append(line)
            return
        self._write_out([line])
        self.begun = True

    def hold(self, line: bytes) -> None:
        """Write this line, which could not be written, before the next."""
        self.pending.append(line)
        self.begun = True

    def flush_pending(self) -> None:
        """Try again to write what is pending. Raises SessionError, and keeps it, if that still fails."""
        if self.begun and self.pending:
            self._write_out([])

    def close(self) -> None:
        """Let another process write the file. What is still pending stays unwritten.

        A file that was made here, and in which nothing but a model or a thinking level was chosen, goes away.
        """
        if self._handle is None:
            return
        if self._made_here and not any(_is_worth_keeping(entry) for entry in self._log.entries()):
            with suppress(OSError):
                if self._state() == "as left":
                    self._target.unlink()
        _close(self._handle)
        self._handle = self._cut_to = None

    # Adding

    def _write_out(self, new: list[bytes]) -> None:
        """Write what is pending, and lines that are not part of the log yet."""
        try:
            if self._handle is None:
                self._create(_joined([*self.pending, *new]))
            else:
                self._cut(self._handle)
                state = self._state()
                if state == "added to":
                    self._take_addition(self._handle)
                if state in ("as left", "added to"):
                    self._add(self._handle, _joined([*self.pending, *new]))
                else:
                    self._restore(state, new)
        except OSError as error:
            raise cannot("write", self.path, error) from error
        self.pending = []

    def _create(self, data: bytes) -> None:
        target = _real(self.path)
        make_folders(target.parent)
        self._size, self._tail = 0, b""
        self._handle, self._target = self._placed(data, target, put_in_place), target
        self._made_here = True

    def _placed(self, data: bytes, target: Path, place: Callable[[Path, Path], None]) -> int:
        """Write a whole file under a temporary name and put it in its place. Returns its handle, which holds the lock."""
        size, tail = self._size, self._tail
        handle, name = temporary(target.parent)
        rest: Path | None = name
        try:
            self._size, self._tail = 0, b""
            self._add(handle, data)
            place(name, target)
            rest = target if self._handle is None else None  # a file that took the place of another one has to stay
            if self._durability == "fsync":
                sync_folder(target.parent)
        except BaseException:
            self._size, self._tail, self._cut_to = size, tail, None
            if rest is not None:
                with suppress(OSError):
                    rest.unlink()
            os.close(handle)
            raise
        return handle

    def _add(self, handle: int, data: bytes) -> None:
        """Append all of `data`, or nothing of it."""
        if self._size and not self._tail.endswith(b"\n"):
            data = b"\n" + data  # the last line has no end, which must not take ours with it
        written = 0
        try:
            # One call, unless the disk is full (then the second one says so) or there are gigabytes to write.
            while written < len(data):
                written += os.write(handle, data[written:] if written else data)
            if self._durability == "fsync":
                os.fsync(handle)
        except OSError:
            # A program that does not know of the lock may have added something since: that is not ours to cut.
            if written and os.fstat(handle).st_size == self._size + written:
                self._cut_to = self._size
                with suppress(OSError):
                    self._cut(handle)
            raise
        self._size += len(data)
        self._tail = data[-_TAIL:] if len(data) >= _TAIL else (self._tail + data)[-_TAIL:]

    def _cut(self, handle: int) -> None:
        """Take away what a write that failed has left."""
        if self._cut_to is not None:
            os.ftruncate(handle, self._cut_to)
            self._cut_to = None

    # What other programs do

    def _state(self) -> Literal["as left", "added to", "cut short", "changed", "deleted", "replaced"]:
        """What has happened to the file since something was last written here."""
        assert self._handle is not None
        ours = os.fstat(self._handle)
        try:
            present = self._target.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return "deleted"
        if not os.path.samestat(ours, present):
            return "replaced"
        if ours.st_size < self._size:
            return "cut short"
        if os.pread(self._handle, len(self._tail), self._size - len(self._tail)) != self._tail:
            return "changed"
        return "as left" if ours.st_size == self._size else "added to"

    def _take_addition(self, handle: int) -> None:
        """Go on behind what another program has added."""
        size = os.fstat(handle).st_size
        self.on_change(
            f"Another program has added {size - self._size} bytes to the session file {self.path}. They stay there, but are "
            "not part of this conversation; what follows is written after them."
        )
        self._size = size
        self._tail = os.pread(handle, _TAIL, max(size - _TAIL, 0))

    def _restore(self, state: Literal["cut short", "changed", "deleted", "replaced"], new: list[bytes]) -> None:
        """Write the whole conversation anew, because the file no longer holds it. What is there instead is kept beside it.

        Raises SessionError if another process uses what is there, and if the file was deleted: the user may have wanted that.
        """
        if state == "deleted":
            raise SessionError(f"Session file {self.path} was deleted or replaced while in use. A clone gets a file of its own.")
        data = _joined([*self._log.lines(), *new])
        aside: Path | None = None

        def replace(source: Path, target: Path) -> None:
            nonlocal aside
            if not stat.S_ISREG(target.lstat().st_mode):
                raise SessionError(f"Session file {self.path} was replaced by something that is not a file while it was in use.")
            other = open_locked(target, os.O_RDWR | BINARY) if state == "replaced" else None
            try:
                present = target.read_bytes()
                if present and not data.startswith(present):
                    aside = set_aside(target)
                source.replace(target)
            finally:
                _close(other)

        handle = self._placed(data, self._target, replace)
        _close(self._handle)
        self._handle = handle
        kept = "" if aside is None else f" What was there instead is kept as {aside}."
        self.on_change(
            f"Session file {self.path} was {state} by another program while it was in use. "
            f"It was written anew, with the whole conversation.{kept}"
        )

    # Opening

    def _repair(self, contents: Contents) -> None:
        assert self._handle is not None
        torn = self._size - contents.good
        if torn:
            contents.problems.append(f"The last line of {self.path} was incomplete and was cut off ({torn} bytes).")
        if contents.migrated is not None:
            data = _joined(contents.migrated)
            handle = self._placed(data, self._target, _replace_for_good)
            _close(self._handle)
            self._handle = handle
        elif torn:
            os.ftruncate(self._handle, contents.good)
            self._size = contents.good
            self._tail = os.pread(self._handle, _TAIL, max(self._size - _TAIL, 0))
        elif contents.unended:
            self._add(self._handle, b"")  # the end of its line


def _replace_for_good(source: Path, target: Path) -> None:
    """Put a new file in the place of an old one that is not needed any more, once it is sure to survive a power cut."""
    handle = os.open(source, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    source.replace(target)


def _begins(entry: Entry) -> bool:
    """Whether a session is worth a file from this entry on: somebody said something, or queued it, or ran a command."""
    if isinstance(entry, CustomEntry):
        return entry.custom_type == WAITING
    return isinstance(entry, CustomMessageEntry) or role_of(entry) in ("user", "assistant", "bashExecution")


def _is_worth_keeping(entry: Entry) -> bool:
    """Whether an entry is more than a choice of model or level, or the state of an extension in which nothing was said."""
    if isinstance(entry, CustomEntry):
        return entry.custom_type.startswith("fairlead.")
    return not isinstance(entry, ModelChangeEntry | ThinkingLevelChangeEntry)


def _joined(lines: list[bytes]) -> bytes:
    return b"\n".join([*lines, b""])


def _real(path: Path) -> Path:
    """Where a link leads; the path itself if it is none."""
    return Path(os.path.realpath(path))


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)
