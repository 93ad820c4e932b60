"""Session files: their locks, new ones that get their name only when they are complete, and appending lines to one.

    handle, path = temporary(folder)      # locked, with a name that is never mistaken for a session
    ...                                   # write the whole file
    put_in_place(path, target)            # it appears complete; an existing file is never overwritten

A process that is killed meanwhile leaves a temporary file without a lock, which `fairlead.stores.deleting` deletes.

A `LinesFile` appends with one `write` per call. A failed write leaves no partial line: the file then ends with the last complete
line. A crash during a write leaves a torn last line, which the next writer cuts off. Changes by another program are noticed
before the next line is written: see `_restore`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from fairlead.errors import SessionError, SessionLost
from fairlead.platform.open_files import lock_holder, make_private_folders, sync_folder, try_lock
from fairlead.stores.headers import BINARY, is_blank, refuse_endless
from fairlead.stores.notes_files import delete_notes
from fairlead.stores.paths import Durability

#: Flags to follow no symbolic link, and not to block on a pipe.
NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_PREFIX, _SUFFIX = ".fairlead-", ".tmp"
#: The errors of `link` on file systems without hard links.
_LINKS_UNKNOWN = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})


# Temporary files


def temporary(folder: Path) -> tuple[int, Path]:
    """Create a file that only this user can read and that this process has locked. No listing mistakes its name for a session.

    Returns its handle and its path. Raises OSError.
    """
    while True:
        path = folder / f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        with suppress(FileNotFoundError):
            if try_lock(handle) is not False and os.path.samestat(os.fstat(handle), path.stat()):
                return handle, path
        # Another process took it for a leftover before it was locked, and deletes it.
        os.close(handle)


def put_in_place(source: Path, target: Path) -> None:
    """Rename a complete file to `target`, which must not be a symbolic link. A blank file there is replaced.

    Raises SessionError if anything else is there, and OSError. `source` still exists then.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        _replace_blank(source, target)
    except OSError as error:
        if error.errno not in _LINKS_UNKNOWN:
            raise
        with suppress(FileExistsError):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # no other process gets the name now
        _replace_blank(source, target)
    else:
        with suppress(OSError):  # if it stays, it is a leftover like any other
            source.unlink()


def _replace_blank(source: Path, target: Path) -> None:
    if not stat.S_ISREG(target.lstat().st_mode):
        raise SessionError(f"Session file {target} cannot be created: something that is not a file has this name.")
    handle = open_locked(target, os.O_RDWR | BINARY)
    try:
        if not is_blank(handle):
            raise SessionError(f"Session file {target} exists already.")
        source.replace(target)
    finally:
        os.close(handle)


def set_aside(path: Path) -> Path:
    """Keep the contents of a file under another name beside it, which no listing mistakes for a session. Return that path.

    Where the file system has hard links, the file itself stays too. Raises OSError.
    """
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.changed-{number}")
        try:
            os.link(path, aside)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in _LINKS_UNKNOWN:
                raise
            if aside.exists():
                continue
            path.rename(aside)
        return aside
    raise OSError(errno.EEXIST, f"There are too many copies of {path.name} already")


def is_temporary(name: str) -> bool:
    """Whether a name is one that `temporary` makes."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


# Locking


def open_locked(path: Path, flags: int) -> int:
    """Open and lock a file. Return its handle. Raises SessionError if another process has locked it, and OSError."""
    while True:
        handle = os.open(path, flags)
        try:
            lock(handle, path)
            # The process that held the lock before may have replaced the file that is open here.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass  # it was deleted
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def lock(handle: int, path: Path) -> None:
    """Lock a session file for as long as `handle` is open. Raises SessionError if another process has locked it."""
    if try_lock(handle) is not False:
        return
    pid = lock_holder(handle)
    if pid == os.getpid():
        raise SessionError(f"Session file {path} is in use by another session of this process.")
    known = f" (pid {pid})" if pid else ""
    raise SessionError(f"Session file {path} is in use by another process{known}.")


def cannot(what: str, path: Path, error: OSError) -> SessionError:
    """Return the SessionError for an OSError of an action on a session file: "open", "read" or "write"."""
    if isinstance(error, FileNotFoundError) and what != "write":
        return SessionError(f"Session file {path} does not exist.")
    return SessionError(f"Cannot {what} session file {path}: {error.strerror or error}.")


# Writing

#: The number of bytes at the end of a file that are compared before a write, to notice changes by other programs.
_TAIL = 64


def open_to_append(path: Path) -> tuple[int, bytes]:
    """Open, lock and read a file. Returns its handle and its contents.

    Raises SessionError if it is not a regular file or another process uses it, and OSError.
    """
    refuse_endless(path, whole=True)
    handle = open_locked(path, os.O_RDWR | os.O_APPEND | BINARY)
    try:
        with open(handle, "rb", buffering=0, closefd=False) as stream:
            return handle, stream.readall()
    except BaseException:
        os.close(handle)
        raise


class LinesFile:
    """The file at `path`. `lines` returns all lines that it should have, with the pending ones, to write it again."""

    def __init__(self, path: Path, lines: Callable[[], list[bytes]], durability: Durability = "flush") -> None:
        self.path = path
        #: Lines that are not on disk yet, in order: from before the file existed, or after a failed write.
        self.pending: list[bytes] = []
        #: Whether the file exists, or the next write creates it.
        self.begun = False
        #: Called with a sentence for the user when another program has changed the file.
        self.on_change: Callable[[str], None] = lambda text: None
        self._lines = lines
        self._durability: Durability = durability
        #: The path behind symbolic links, so that a link to the file stays a link.
        self._target = path
        self._handle: int | None = None
        self._made_here = False
        #: The size to cut the file to before the next write, after a failed one.
        self._cut_to: int | None = None
        #: The file's size and last bytes after our last write.
        self._size = 0
        self._tail: bytes = b""

    def continue_after(self, data: bytes, handle: int) -> None:
        """Append to the file that is open and locked as `handle` and contains `data`."""
        self._target, self._handle = real_path(self.path), handle
        self._size, self._tail = len(data), data[-_TAIL:]

    def begin(self) -> None:
        """Create the file now with all lines so far. Raises SessionError if that fails; the next write tries again."""
        self.begun = True
        self.flush_pending()

    def hold(self, line: bytes) -> None:
        """Remember a line that could not be written, and write it before the next one."""
        self.pending.append(line)
        self.begun = True

    def flush_pending(self) -> None:
        """Try again to write the pending lines. Raises SessionError and keeps them if it still fails."""
        if self.begun and self.pending:
            self._write_out([])

    def release(self, *, deletes: Callable[[], bool]) -> None:
        """Close the file and release its lock. Pending lines are not written.

        A file that this object created is deleted if `deletes` says so and no other program has changed it.
        """
        if self._handle is None:
            return
        if self._made_here and deletes():
            with suppress(OSError):
                if self._external_change() == "none":
                    delete_notes(self._target)
                    self._target.unlink()
        close(self._handle)
        self._handle = self._cut_to = None

    # Adding

    def _write_out(self, new: list[bytes]) -> None:
        """Write the pending lines, then `new` lines that are not part of the log yet."""
        try:
            if self._handle is None:
                self._create(join_lines([*self.pending, *new]))
            else:
                self._cut(self._handle)
                change = self._external_change()
                if change == "added to":
                    self._skip_addition(self._handle)
                if change in ("none", "added to"):
                    self._append(self._handle, join_lines([*self.pending, *new]))
                else:
                    self._restore(change, new)
        except OSError as error:
            raise cannot("write", self.path, error) from error
        self.pending = []

    def _create(self, data: bytes) -> None:
        target = real_path(self.path)
        make_private_folders(target.parent)
        self._size, self._tail = 0, b""
        self._handle, self._target = self._place(data, target, put_in_place), target
        self._made_here = True

    def _place(self, data: bytes, target: Path, place: Callable[[Path, Path], None]) -> int:
        """Write a whole file under a temporary name and move it to `target`. Returns its handle, which holds the lock."""
        size, tail = self._size, self._tail
        handle, name = temporary(target.parent)
        remove_on_failure: Path | None = name
        try:
            self._size, self._tail = 0, b""
            self._append(handle, data)
            place(name, target)
            remove_on_failure = target if self._handle is None else None  # a file that replaced another one has to stay
            if self._durability == "fsync":
                sync_folder(target.parent)
        except BaseException:
            self._size, self._tail, self._cut_to = size, tail, None
            if remove_on_failure is not None:
                with suppress(OSError):
                    remove_on_failure.unlink()
            os.close(handle)
            raise
        return handle

    def _append(self, handle: int, data: bytes) -> None:
        """Append all of `data` or nothing."""
        if self._size and not self._tail.endswith(b"\n"):
            data = b"\n" + data  # end the last line first, so that ours does not become part of it
        if not data:
            return
        written = 0
        try:
            # One call, unless the disk is full (then the second one says so) or there are gigabytes to write.
            while written < len(data):
                written += os.write(handle, data[written:] if written else data)
            if self._durability == "fsync":
                os.fsync(handle)
        except OSError:
            # A program that ignores the lock may have added something since, which must not be cut off.
            if written and os.fstat(handle).st_size == self._size + written:
                self._cut_to = self._size
                with suppress(OSError):
                    self._cut(handle)
            raise
        self._size += len(data)
        self._tail = data[-_TAIL:] if len(data) >= _TAIL else (self._tail + data)[-_TAIL:]

    def _cut(self, handle: int) -> None:
        """Remove what a failed write has left."""
        if self._cut_to is not None:
            os.ftruncate(handle, self._cut_to)
            self._cut_to = None

    # Changes by other programs

    def _external_change(self) -> Literal["none", "added to", "cut short", "changed", "deleted", "replaced"]:
        """Return what another program has done to the file since our last write."""
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
        return "none" if ours.st_size == self._size else "added to"

    def _skip_addition(self, handle: int) -> None:
        """Continue after the bytes that another program has added."""
        size = os.fstat(handle).st_size
        self.on_change(
            f"Another program has added {size - self._size} bytes to the session file {self.path}. They stay there, but are "
            "not part of this conversation; what follows is written after them."
        )
        self._size = size
        self._tail = os.pread(handle, _TAIL, max(size - _TAIL, 0))

    def _restore(self, change: Literal["cut short", "changed", "deleted", "replaced"], new: list[bytes]) -> None:
        """Write the whole conversation again, because the file no longer has it. Its present contents are kept beside it.

        Raises SessionLost if another process uses the file, and if it was deleted: the user may have wanted that.
        """
        if change == "deleted":
            raise SessionLost(f"Session file {self.path} was deleted or replaced while in use. A clone gets its own file.")
        data = join_lines([*self._lines(), *new])
        aside: Path | None = None

        def replace(source: Path, target: Path) -> None:
            nonlocal aside
            if not stat.S_ISREG(target.lstat().st_mode):
                raise SessionLost(f"Session file {self.path} was replaced by something that is not a file while it was in use.")
            other = _take_back(target) if change == "replaced" else None
            try:
                present = target.read_bytes()
                if present and not data.startswith(present):
                    aside = set_aside(target)
                source.replace(target)
            finally:
                close(other)

        handle = self._place(data, self._target, replace)
        close(self._handle)
        self._handle = handle
        kept = "" if aside is None else f" What was there instead is kept as {aside}."
        self.on_change(
            f"Session file {self.path} was {change} by another program while it was in use. "
            f"It was written again, with the whole conversation.{kept}"
        )

    # Repairing

    def rewrite(self, lines: list[bytes]) -> None:
        """Replace the file by one with other lines. Raises OSError."""
        handle = self._place(join_lines(lines), self._target, _replace_for_good)
        close(self._handle)
        self._handle = handle

    def cut_torn_line(self, complete: int) -> None:
        """Cut the file off after so many bytes. Raises OSError."""
        assert self._handle is not None
        os.ftruncate(self._handle, complete)
        self._size = complete
        self._tail = os.pread(self._handle, _TAIL, max(self._size - _TAIL, 0))

    def end_last_line(self) -> None:
        """Add the line end that is missing. Raises OSError."""
        assert self._handle is not None
        self._append(self._handle, b"")


def _replace_for_good(source: Path, target: Path) -> None:
    """Replace an old file by a new one, after the new one is on the disk: no copy of the old one remains."""
    handle = os.open(source, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    source.replace(target)


def _take_back(path: Path) -> int:
    """Open and lock a file that has replaced ours. Raises SessionLost if another process has locked it."""
    try:
        return open_locked(path, os.O_RDWR | BINARY)
    except SessionError as error:
        raise SessionLost(f"{error} It has replaced the file of this session.") from error


def join_lines(lines: list[bytes]) -> bytes:
    return b"\n".join([*lines, b""])


def real_path(path: Path) -> Path:
    """Return the path behind symbolic links."""
    return Path(os.path.realpath(path))


def close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)
