"""The write tool, and the way every tool replaces a file: all of it or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, change_in_order
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
        make_parents(path, workspace.cwd)
        replace_file(path, data, stop)

    await change_in_order(path, context.cancel, write)
    return done


def make_parents(path: Path, cwd: Path) -> None:
    """Make the folders that lead to `path`. A working directory that was deleted is not brought back."""
    if not cwd.is_dir() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(cwd)):
        raise ToolError(f"The working directory {cwd} does not exist, so nothing can be written in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno == errno.EEXIST:  # something that is no folder
            error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        raise ToolError(describe_failure(error, "mkdir", path.parent)) from error


def replace_file(path: Path, data: bytes, stop: Stop, *, before_replacing: Callable[[], None] | None = None) -> None:
    """Give the file at `path` new content. A failure raises ToolError and leaves the old content in place.

    Links are followed and the file's mode is kept. `before_replacing` is the last chance to refuse, by raising;
    then `stop` is committed. Work that stops before leaves nothing behind.
    A file with several hard links, or whose folder takes no new files, is overwritten instead of
    replaced; only there a failure in the middle can leave a part.
    """
    try:
        target = Path(os.path.realpath(path))
        old = _stat_regular(target)
        if old is None or old.st_nlink == 1:
            try:
                return _swap_in(target, data, old, stop, before_replacing)
            except OSError as error:
                if old is None or error.errno not in (*_NO_NEIGHBOUR, *_NOT_REPLACEABLE):
                    raise
        if before_replacing is not None:
            before_replacing()
        stop.commit()
        _overwrite(target, data, stop)
    except OSError as error:
        raise ToolError(describe_failure(error, "write", path)) from error


def _stat_regular(target: Path) -> os.stat_result | None:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{target} is {kind_of(found.st_mode)}, not a regular file. Use bash to write to it.")
    if not os.access(target, os.W_OK):  # a new file could take its name all the same: not what a read-only file is for
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return found


def _swap_in(
    target: Path, data: bytes, old: os.stat_result | None, stop: Stop, before_replacing: Callable[[], None] | None
) -> None:
    """Write a new file beside `target`, then let it take the name."""
    temporary = target.with_name(f".fairlead-{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    file = os.open(temporary, flags, 0o666 if old is None else 0o600)
    try:
        try:
            _write_all(file, data, stop)
            if old is not None:
                with contextlib.suppress(PermissionError):
                    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(file, old.st_uid, old.st_gid)
                os.fchmod(file, stat.S_IMODE(old.st_mode))
        finally:
            os.close(file)
        if before_replacing is not None:
            before_replacing()
        stop.commit()
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _overwrite(target: Path, data: bytes, stop: Stop) -> None:
    file = os.open(target, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        _write_all(file, data, stop)
        os.ftruncate(file, len(data))
    finally:
        os.close(file)


def _write_all(file: int, data: bytes, stop: Stop) -> None:
    view = memoryview(data)
    while view:  # near a full disk a write is short first, and fails when repeated
        stop.check()
        view = view[os.write(file, view[:_BLOCK]) :]
