"""Ends a command in the sandbox when a protected file appears where it is not hidden.

The sandbox hides a file by a mount over it. If a program outside replaces the file, the kernel removes the mount, and the command
would see the new file; a file that did not exist had no mount at all. So the folders on the way to protected files are watched
with inotify while a command runs. Commands cannot replace hidden files themselves.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from fairlead.platform.open_files import Identity, identity_of

#: Whether a folder and a name in it are those of a protected file.
Fits: TypeAlias = Callable[[str, str], bool]

_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLY_FOLDERS, _IS_FOLDER = 0x4000, 0x8000, 0x0100_0000, 0x4000_0000
_EVENTS = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_HEAD = struct.Struct("iIII")


class Watched(Struct, frozen=True):
    """What is protected, as far as it can be said in advance."""

    #: Paths that are protected whether they exist or not.
    paths: Sequence[Path] = ()
    #: Folders below which names are protected.
    trees: Sequence[tuple[Path, Fits]] = ()


class Exposure:
    """Watches over one command: it ends when a protected file is no longer hidden, or was made.

    Args:
        cwd: the working directory.
        hidden: the files and folders that the sandbox hides.
        watched: what is protected.

    Raises:
        OSError: the folders cannot be watched.
    """

    def __init__(self, cwd: Path, hidden: Iterable[Path], watched: Watched) -> None:
        self._cwd = cwd
        self._watched = watched
        self._names = {name for path in watched.paths for name in path.parts}
        self._hidden: set[Identity] = set()
        #: Descriptors of what is hidden. While they are open, the number of a deleted file is not given to another one.
        self._held: list[int] = []
        self._kill: Callable[[], None] | None = None
        self._changing = threading.RLock()
        #: The file that a command could see.
        self.exposed: Path | None = None
        #: Why the folder `exposed` cannot be watched any more, if that is what ended the command.
        self.failure: str | None = None
        self._is_over = False
        self.is_closed = False
        try:
            for path in hidden:
                with suppress(FileNotFoundError):
                    self._held.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
                    self._hidden.add(identity_of(os.fstat(self._held[-1])))
            if (found := self._watch()) is not None:
                self._expose(found)
        except BaseException:
            self.close()
            raise

    def arm(self, kill: Callable[[], None]) -> None:
        """Set what ends the command. It is called at once if something is exposed already."""
        with self._changing:
            self._kill = kill
            if self.exposed is not None:
                kill()

    def disarm(self) -> None:
        """The command has ended: its number may belong to another process soon."""
        with self._changing:
            self._kill = None
            self._is_over = True

    def check(self) -> bool:
        """Return whether a protected file was exposed until now."""
        if self.exposed is None:
            _watcher.take_events()
        return self.exposed is not None

    def close(self) -> None:
        """Stop watching."""
        self.disarm()
        self.is_closed = True
        _watcher.remove(self)
        while self._held:
            os.close(self._held.pop())

    def look(self, folder: str | None, name: str, *, is_folder: bool) -> None:
        """Look at what has changed: at a name in a folder, or at everything if there is none. Called by the watcher's thread."""
        try:
            if folder is None or name in self._names:
                found = self._watch()
            elif self._fits(folder, name):
                found = Path(folder, name) if self._is_exposed(Path(folder, name)) else None
            else:
                found = self._watch_tree(f"{folder}/{name}") if is_folder else None
        except Exception as error:  # whatever it is, the command is not watched any more
            found = Path(folder or self._cwd)
            if self.exposed is None:
                self.failure = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if found is not None:
            self._expose(found)

    def watches_above(self, folder: str) -> bool:
        """Return whether a folder is in a tree, so that the folder above it is watched too."""
        return any(folder != str(root) and _is_below(folder, root) for root, _ in self._watched.trees)

    def _expose(self, path: Path) -> None:
        with self._changing:
            if self.exposed is None and not self._is_over:
                self.exposed = path
                if self._kill is not None:
                    self._kill()

    def _watch(self) -> Path | None:
        """Watch all folders that matter. Returns a file that is exposed. Raises OSError."""
        for folder in sorted({str(folder) for path in self._watched.paths for folder in path.parents}):
            _watcher.add(folder, self)
        found = [self._watch_tree(str(root)) for root in dict.fromkeys(root for root, _ in self._watched.trees)]
        return next(filter(self._is_exposed, self._watched.paths), None) or next(filter(None, found), None)

    def _watch_tree(self, root: str) -> Path | None:
        """Watch a folder and those below it, if names in it are protected. Returns what is exposed there. Raises OSError."""
        found: Path | None = None
        pending = [root] if any(_is_below(root, tree) for tree, _ in self._watched.trees) else []
        while pending:
            folder = pending.pop()
            _watcher.add(folder, self)
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if self._fits(folder, entry.name):
                        found = Path(entry.path) if self._is_exposed(Path(entry.path)) else found
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        return found

    def _fits(self, folder: str, name: str) -> bool:
        return any(fits(folder, name) for root, fits in self._watched.trees if _is_below(folder, root))

    def _is_exposed(self, path: Path) -> bool:
        """Return whether something is at a path, and neither it nor a folder that it is in is hidden."""
        for each in (path, *path.parents):
            if each == self._cwd:  # it is visible, even in a hidden folder
                return True
            try:
                if identity_of(os.stat(each)) in self._hidden:  # noqa: PTH116
                    return False
            except OSError:
                return False
        return True


class _Watcher:
    """The one inotify instance of this process, and the thread that reads it."""

    def __init__(self) -> None:
        self._file = -1
        self._changing = threading.Lock()
        self._reading = threading.Lock()
        #: The path of each folder that is watched, and for which commands.
        self._folders: dict[int, tuple[str, dict[Exposure, None]]] = {}

    def add(self, folder: str, exposure: Exposure) -> None:
        """Watch a folder, if it exists. Raises OSError if it cannot be watched."""
        with self._changing:
            if exposure.is_closed:
                return
            if self._file < 0:
                self._start()
            number = _call("inotify_add_watch", self._file, ctypes.c_char_p(os.fsencode(folder)), ctypes.c_uint32(_EVENTS))
            if number >= 0:
                _, exposures = self._folders.get(number, (folder, dict[Exposure, None]()))
                exposures[exposure] = None
                self._folders[number] = folder, exposures  # the folder may have been renamed

    def remove(self, exposure: Exposure) -> None:
        """Forget a command, and the folders that are watched for it alone."""
        with self._changing:
            for number, (_, exposures) in list(self._folders.items()):
                if exposures.pop(exposure, exposure) is None and not exposures:
                    del self._folders[number]
                    with suppress(OSError):
                        _call("inotify_rm_watch", self._file, number)

    def _start(self) -> None:
        self._file = _call("inotify_init1", os.O_CLOEXEC | os.O_NONBLOCK)
        threading.Thread(target=self._read, name="fairlead-watch", daemon=True).start()

    def _read(self) -> None:
        ready = select.poll()
        ready.register(self._file, select.POLLIN)
        while True:
            ready.poll()
            self.take_events()

    def take_events(self) -> None:
        """Look at what has changed until now. When this returns, `exposed` is up to date for each command."""
        with self._reading:
            left = self._count_queued() if self._file >= 0 else 0
            while left > 0:
                try:
                    data = os.read(self._file, 1 << 16)
                except BlockingIOError:
                    return
                left -= len(data)
                self._report_all(data)

    def _count_queued(self) -> int:
        """Return how many bytes of events there are now. While a command makes more, reading would never end."""
        import fcntl  # noqa: PLC0415  Windows, where nothing is watched, does not have these
        import termios  # noqa: PLC0415  POSIX only

        queued = bytearray(4)
        fcntl.ioctl(self._file, termios.FIONREAD, queued)
        return int.from_bytes(queued, sys.byteorder)

    def _report_all(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, start)
            name = data[start + _HEAD.size : start + _HEAD.size + length].rstrip(b"\0")
            start += _HEAD.size + length
            self._report(number, mask, os.fsdecode(name))

    def _report(self, number: int, mask: int, name: str) -> None:
        with self._changing:
            if mask & _OVERFLOW:  # events were lost
                lost = {each: None for _, exposures in self._folders.values() for each in exposures}
                folder, exposures = None, lost
            elif number not in self._folders:
                return
            else:
                folder, known = self._folders[number]
                exposures = dict(known)
                if mask & (_DELETE_SELF | _MOVE_SELF):
                    # Of a folder in a tree, the folder above tells. Looking at the whole tree for each takes minutes.
                    exposures = {each: None for each in exposures if not each.watches_above(folder)}
                    folder = None
                if mask & _IGNORED:
                    del self._folders[number]
        for each in exposures:
            each.look(folder, name, is_folder=bool(mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO)))


def _call(name: str, *arguments: object) -> int:
    """Call a function of the C library. Returns -1 if a folder is not there, or cannot be read. Raises OSError otherwise."""
    number = int(getattr(_library(), name)(*arguments))
    error = ctypes.get_errno()
    if number < 0 and error not in (2, 13, 20):  # ENOENT, EACCES, ENOTDIR
        raise OSError(error, os.strerror(error))
    return number


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        _loaded = ctypes.CDLL(None, use_errno=True)
    return _loaded


def _is_below(folder: str, root: Path) -> bool:
    return folder == str(root) or folder.startswith(f"{str(root).rstrip('/')}/")


_loaded: ctypes.CDLL | None = None
_watcher = _Watcher()
