"""The write tool, and the way every tool replaces a file: all of it or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, change_in_order
from fairlead.tools.guard import Guard, opened_path
from fairlead.tools.read import kind_of
from fairlead.tools.uris import as_content
from fairlead.tools.workspace import Workspace, describe_failure

#: A folder that takes no new files although the file itself may be written.
_NO_NEIGHBOUR = (errno.EACCES, errno.EPERM, errno.EROFS)
#: A file that cannot be replaced by another: the target of a bind mount.
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV)
#: Bytes written between two looks at whether to stop.
_BLOCK = 4 * 1024 * 1024


async def run_write(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    content = scrub_text(arguments["content"])
    data = content.encode()
    done = ToolResult.text(f"Successfully wrote {len(data)} bytes to {arguments['path']}")
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        notes = await workspace.uris.write(arguments["path"], content, context.cancel)
        return ToolResult([*done.content, *as_content(notes)])
    path = workspace.resolve(arguments["path"])

    def write(stop: Stop) -> None:
        make_parents(path, workspace.cwd, workspace.guard)
        replace_file(path, data, workspace.guard, stop)

    await change_in_order(path, context.cancel, write)
    return done


def make_parents(path: Path, cwd: Path, guard: Guard | None) -> None:
    """Make the folders that lead to `path`. A working directory that was deleted is not brought back.

    Raises ToolError, also if `guard` forbids the file that is to be in them.
    """
    if not cwd.is_dir() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(cwd)):
        raise ToolError(f"The working directory {cwd} does not exist, so nothing can be written in it.")
    missing: list[str] = []
    folder = path.parent
    try:
        while not folder.is_dir():
            if os.path.lexists(folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            missing.append(folder.name)
            folder = folder.parent
        if missing:
            with opened_folder(folder) as opened:
                if guard is not None:
                    guard.check_writing(opened_path(opened, folder).joinpath(*reversed(missing), path.name), None)
                _make_folders(opened, missing[::-1])
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ELOOP):  # something that is no folder
            error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        raise ToolError(describe_failure(error, "mkdir", path.parent)) from error


def _make_folders(folder: int, names: Sequence[str]) -> None:
    """Make folders inside one another. Each is reached from the last, so that a link put there meanwhile leads nowhere else."""
    with contextlib.ExitStack() as stack:
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            folder = stack.enter_context(opened_folder(name, inside=folder))


@contextlib.contextmanager
def opened_folder(path: str | Path, *, inside: int | None = None) -> Generator[int]:
    """A descriptor of a folder: what is done with it is done in that folder, whatever its path leads to by then."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)
    folder = os.open(path, flags if inside is None else flags | os.O_NOFOLLOW, dir_fd=inside)
    try:
        yield folder
    finally:
        os.close(folder)


def replace_file(
    path: Path, data: bytes, guard: Guard | None, stop: Stop, *, before_replacing: Callable[[], None] | None = None
) -> None:
    """Give the file at `path` new content. A failure raises ToolError and leaves the old content in place.

    Links are followed and the file's mode is kept. What `guard` forbids is not written. `before_replacing` is the last chance to
    refuse, by raising; then `stop` is committed. Work that stops before leaves nothing behind.
    A file with several hard links, or whose folder takes no new files, is overwritten instead of
    replaced; only there a failure in the middle can leave a part.
    """
    try:
        target = Path(os.path.realpath(path))
        with opened_folder(target.parent) as folder:
            change = _Change(folder, opened_path(folder, target.parent) / target.name, data, guard, stop, before_replacing)
            change.make()
    except OSError as error:
        raise ToolError(describe_failure(error, "write", path)) from error


class _Change:
    """New content for a file in an open folder. `target` is where the file really is."""

    def __init__(
        self,
        folder: int,
        target: Path,
        data: bytes,
        guard: Guard | None,
        stop: Stop,
        before_replacing: Callable[[], None] | None,
    ) -> None:
        self._folder = folder
        self._target = target
        self._data = data
        self._guard = guard
        self._stop = stop
        self._before_replacing = before_replacing

    def make(self) -> None:
        old = self._stat_regular()
        self._check(old)
        if old is None or old.st_nlink == 1:
            try:
                return self._swap_in(old)
            except OSError as error:
                if old is None or error.errno not in (*_NO_NEIGHBOUR, *_NOT_REPLACEABLE):
                    raise
        self._overwrite()

    def _check(self, found: os.stat_result | None) -> None:
        if self._guard is not None:
            self._guard.check_writing(self._target, found)

    def _stat_regular(self) -> os.stat_result | None:
        name = self._target.name
        try:
            found = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{self._target} is {kind_of(found.st_mode)}, not a regular file. Write to it in the shell.")
        # A new file could take its name all the same: not what a read-only file is for.
        if not os.access(name, os.W_OK, dir_fd=self._folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return found

    def _swap_in(self, old: os.stat_result | None) -> None:
        """Write a new file beside the target, then let it take the name."""
        temporary = f".fairlead-{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        file = os.open(temporary, flags, 0o666 if old is None else 0o600, dir_fd=self._folder)
        try:
            try:
                _write_all(file, self._data, self._stop)
                if old is not None:
                    with contextlib.suppress(PermissionError):
                        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                            os.fchown(file, old.st_uid, old.st_gid)
                    os.fchmod(file, stat.S_IMODE(old.st_mode))
            finally:
                os.close(file)
            self._commit()
            os.replace(temporary, self._target.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._folder)
            raise

    def _overwrite(self) -> None:
        file = os.open(self._target.name, os.O_WRONLY | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0), dir_fd=self._folder)
        try:
            self._check(os.fstat(file))  # it may be another file than a moment ago
            self._commit()
            _write_all(file, self._data, self._stop)
            os.ftruncate(file, len(self._data))
        finally:
            os.close(file)

    def _commit(self) -> None:
        if self._before_replacing is not None:
            self._before_replacing()
        self._stop.commit()


def _write_all(file: int, data: bytes, stop: Stop) -> None:
    view = memoryview(data)
    while view:  # near a full disk a write is short first, and fails when repeated
        stop.check()
        view = view[os.write(file, view[:_BLOCK]) :]
