"""A text file that an edit changes in some places. It is saved only if no other program has changed it since it was read."""

from __future__ import annotations

import errno
import os

from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.files.opening import Target, became_link
from fairlead.tools.files.read import open_regular, read_all
from fairlead.tools.files.write import replace_file
from fairlead.tools.guard import Guard
from fairlead.tools.truncate import format_size

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
