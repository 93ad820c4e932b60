"""The write tool, and how every tool changes a file: as a whole or not at all, and only if it is still what was read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fairlead.core.approval import LONGEST_TEXT, FileChange, file_changes
from fairlead.core.lenient import scrub_text
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.platform.open_files import kind_of, make_folders, opened_folder, stat_at
from fairlead.tools import CONTENT, PATH, file_locations, object_schema, string, write_title
from fairlead.tools.background import Stop, change_in_order, in_thread
from fairlead.tools.files.read import read_all
from fairlead.tools.files.targets import (
    Guard,
    Target,
    as_content,
    became_link,
    failure,
    open_regular,
    require_approved,
    stat_target,
)
from fairlead.tools.truncate import format_size
from fairlead.tools.workspace import Workspace

#: A folder that takes no new files although the file itself may be written.
_NO_NEIGHBOUR = (errno.EACCES, errno.EPERM, errno.EROFS)
#: A file that cannot be replaced by another: the target of a bind mount.
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV)
#: Bytes written between two looks at whether to stop.
_BLOCK = 4 * 1024 * 1024

_PARAMETERS = object_schema(
    {
        "path": string("The file, absolute or relative to the working directory"),
        "content": string("The whole new content"),
    },
    "path",
    "content",
)


def write_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="write",
        label="write",
        description="Write a file: makes it, with its folders, or replaces all of its content.",
        parameters=_PARAMETERS,
        run=partial(_run_write, workspace),
        kind="edit",
        title=write_title,
        locations=partial(file_locations, workspace),
        preview=partial(_preview_write, workspace),
        subject=PATH,
        file_texts=CONTENT,
        snippet="Make or overwrite files",
        guidelines=("Use write for new files and complete rewrites; change existing files with edit.",),
        exclusive=True,
        timeout=workspace.default_timeout,
    )


async def _run_write(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    content = scrub_text(arguments["content"])
    data = content.encode()
    size = f"{len(data)} bytes " if workspace.counts_written_bytes else ""
    done = ToolResult.text(f"Successfully wrote {size}to {arguments['path']}")
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        notes = await workspace.uris.write(arguments["path"], content, context.cancel)
        return ToolResult([*done.content, *as_content(notes)])
    target = workspace.locate(arguments["path"], context.target)

    def write(stop: Stop) -> None:
        make_parents(target, workspace.cwd, workspace.guard)
        done.changes = changes_of_write(target, content, workspace.guard, stop)
        replace_file(target, data, workspace.guard, stop)

    await change_in_order(target, context.cancel, write)
    return done


async def _preview_write(
    workspace: Workspace, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    """Return what a write would change. Raises ToolError if the file cannot be looked at."""
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        return []
    target = workspace.locate(arguments["path"], approved)
    content = scrub_text(arguments["content"])
    return await in_thread(cancel, lambda stop: changes_of_write(target, content, workspace.guard, stop))


def changes_of_write(target: Target, content: str, guard: Guard | None, stop: Stop) -> list[FileChange]:
    """Return the change that `content` makes to a file. It is empty if the present content is not text, or too long.

    Raises ToolError if the guard does not allow the write.
    """
    found = stat_target(target)
    if guard is not None:
        guard.check_writing(target.real, found)
    if found is None:
        return file_changes(scrub_text(str(target.real)), None, content)
    if len(content) > LONGEST_TEXT or found.st_size > 4 * LONGEST_TEXT:  # 4 bytes for a character at most
        return []
    try:
        return TextFile(target, str(target.named), guard, stop).changes(content)
    except ToolError:
        stop.check()
        return []


def make_parents(target: Target, cwd: Path, guard: Guard | None) -> None:
    """Make the folders that the target is in. A deleted working directory is not made again.

    Raises ToolError, also if `guard` forbids the file that they are made for.
    """
    if not os.path.isdir(cwd) and target.real.is_relative_to(os.path.realpath(cwd)):
        raise ToolError(f"The working directory {cwd} does not exist, so nothing can be written in it.")

    def check() -> None:
        if guard is not None:
            guard.check_writing(target.real, None)

    try:
        make_folders(target.real.parent, check)
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link in a circle is not a folder
            error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        raise failure(error, "mkdir", Target(target.named.parent, target.real.parent)) from error


def replace_file(
    target: Target, data: bytes, guard: Guard | None, stop: Stop, *, before_replacing: Callable[[], None] | None = None
) -> None:
    """Give a file new content. A failure raises ToolError and leaves the old content in place.

    The file's mode is kept. What `guard` forbids is not written. `before_replacing` is the last chance to refuse, by raising;
    then `stop` is committed. Work that stops before leaves nothing behind. A file with several hard links, or whose folder takes
    no new files, is overwritten instead of replaced; only there a failure in the middle can leave a part.
    """
    try:
        with opened_folder(target.real.parent) as folder:
            _Change(folder, target, data, guard, stop, before_replacing).make()
    except OSError as error:
        raise failure(error, "write", target) from error


class _Change:
    """New content for a file in an open folder."""

    def __init__(
        self,
        folder: int,
        target: Target,
        data: bytes,
        guard: Guard | None,
        stop: Stop,
        before_replacing: Callable[[], None] | None,
    ) -> None:
        self._folder = folder
        self._approved = target
        self._target = target.real
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
        if found is not None:
            require_approved(self._approved, found)
        if self._guard is not None:
            self._guard.check_writing(self._target, found)

    def _stat_regular(self) -> os.stat_result | None:
        name = self._target.name or "."
        try:
            found = stat_at(self._folder, name)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{self._target} is {kind_of(found.st_mode)}, not a regular file. Write to it in the shell.")
        # A new file could still replace it, which would defeat the purpose of a read-only file.
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


BOM = "\ufeff"
#: A larger file is not loaded.
_MAX_FILE = 256 * 1024 * 1024


class TextFile:
    """The UTF-8 text in the file `target`, without its byte order mark. `name` is what the model calls the file.

    Raises ToolError if there is no such text.
    """

    def __init__(self, target: Target, name: str, guard: Guard | None, stop: Stop) -> None:
        self._target = target
        self._name = name
        self._guard = guard
        self._data, self._state = _load(target, name, guard, stop)
        try:
            text = self._data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{name} is not UTF-8 text and was left unchanged. Use a shell command to change it.") from None
        if "\0" in text:
            raise ToolError(f"{name} is a binary file and was left unchanged. Use a shell command to change it.")
        self._bom = BOM if text.startswith(BOM) else ""
        self.text = text.removeprefix(BOM)

    def save(self, text: str, stop: Stop) -> None:
        """Replace all of the text. Raises ToolError, and leaves the file as it is, if it is not what was found any more."""
        data = (self._bom + text).encode()
        replace_file(self._target, data, self._guard, stop, before_replacing=lambda: self._refuse_if_changed(stop))

    def changes(self, text: str) -> list[FileChange]:
        """Return the change that another text makes to the file. It is empty if one of them is too long."""
        return file_changes(scrub_text(str(self._target.real)), self.text, text)

    def _refuse_if_changed(self, stop: Stop) -> None:
        if _state(self._target) != self._state and _load(self._target, self._name, self._guard, stop)[0] != self._data:
            raise ToolError(f"{self._name} was changed by someone else during the edit and was left as it is. Read it again.")


def with_line_ends_of(text: str, start: int, end: int, new: str) -> str:
    """`new` with the line ends of the place it goes to; if that is within one line, of the file's first line."""
    new = new.replace("\r\n", "\n")
    newline = text.find("\n", start, end)
    if newline < 0:
        newline = text.find("\n")
    return new.replace("\n", "\r\n") if newline > 0 and text[newline - 1] == "\r" else new


def _load(target: Target, name: str, guard: Guard | None, stop: Stop) -> tuple[bytes, tuple[int, ...]]:
    try:
        file = open_regular(target, guard)
    except ToolError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and not became_link(cause, target):
            raise _cannot_edit(name, cause) from error
        raise
    try:
        found = os.fstat(file)
        if found.st_size > _MAX_FILE:
            size = format_size(found.st_size)
            raise ToolError(
                f"{name} is too large to edit ({size}; the limit is {format_size(_MAX_FILE)}). Use a shell command to change it."
            )
        return read_all(file, stop), _fields(found)
    except OSError as error:
        raise _cannot_edit(name, error) from error
    finally:
        os.close(file)


def _cannot_edit(name: str, error: OSError) -> ToolError:
    return ToolError(f"Could not edit file: {name}. Error code: {errno.errorcode.get(error.errno or 0, 'EIO')}.")


def _state(target: Target) -> tuple[int, ...] | None:
    try:
        return _fields(os.lstat(target.real))
    except OSError:
        return None


def _fields(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns
