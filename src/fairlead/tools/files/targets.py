"""What the path in a tool call refers to: a file (`Target`), or a document behind a URI (`Uris`).

The path of a file is resolved once and then opened by descriptor, without following links. What the user, a rule or a guard
judged is therefore what is opened. If a part of the path becomes a link in between, the call fails; it never opens another file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from fairlead.core.lenient import scrub_text
from fairlead.core.messages import ImageContent, TextContent, UserBlock
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile
from fairlead.errors import ToolError
from fairlead.platform.open_files import READ, kind_of, opened_folder, stat_at

#: What opening a link reports, with or without O_DIRECTORY.
_LINK = (errno.ELOOP, errno.ENOTDIR)


class Target(Struct, frozen=True):
    """The file that a call is about: `real` is where it is, with all links resolved, and `named` how messages call it.

    `approved` is the file that the user or a rule approved; None if no approval was needed.
    """

    named: Path
    real: Path
    approved: ApprovedFile | None = None


class Guard(Protocol):
    """Refuses files by raising ToolError, with a text for the model.

    It judges the file that was opened, not the path that led there: `path` is the real path of that file, and `found` its status.
    """

    def check_reading(self, path: Path, found: os.stat_result) -> None: ...

    def readable(self, files: Sequence[tuple[str, os.stat_result]]) -> list[bool]:
        """Return which of many files may be read: what `check_reading` says of each, for less."""
        ...

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        """Refuse a file for writing. `found` is None for a file that does not exist yet."""
        ...


def stat_target(target: Target) -> os.stat_result | None:
    """Return the status of what is at the target now; None if nothing is. Raises ToolError if that cannot be found out."""
    try:
        with opened_folder(target.real.parent) as folder:
            return stat_at(folder, target.real.name or ".")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise failure(error, "access", target) from error


def require_approved(target: Target, found: os.stat_result) -> None:
    """Raise ToolError if what is `found` at the target has further names (hard links) and is not the file that was approved.

    A file with a single name may be another one: programs replace a file when they save it.
    """
    approved = target.approved
    if approved is not None and found.st_nlink > 1 and (found.st_dev, found.st_ino) != approved.identity:
        raise ToolError(
            f"{target.named} was left alone: a file that has further names (hard links) took its place after the call was"
            " checked. Call the tool again."
        )


def open_regular(target: Target, guard: Guard | None) -> int:
    """Open a regular file for reading.

    Returns a file descriptor. Raises ToolError for anything else, which might block or never end, and for what `guard` forbids.
    """
    try:
        with opened_folder(target.real.parent) as folder:
            name = target.real.name or "."
            _require_regular(target.named, stat_at(folder, name).st_mode)
            file = os.open(name, READ, dir_fd=folder)
    except OSError as error:
        raise failure(error, "access", target) from error
    try:
        found = os.fstat(file)
        _require_regular(target.named, found.st_mode)
        require_approved(target, found)
        if guard is not None:
            guard.check_reading(target.real, found)
    except ToolError:
        os.close(file)
        raise
    return file


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ToolError(f"EISDIR: {path} is a directory. List it with ls or bash.")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{path} is {kind_of(mode)}, not a regular file.")


def failure(error: OSError, action: str, target: Target) -> ToolError:
    """Turn an error of the operating system into one for a call that acts on `target`."""
    if became_link(error, target):
        return ToolError(
            f"{target.named} was left alone: a part of its path became a link after the call was checked. Call the tool again."
        )
    # In the words that hosts of this family know: `ENOENT: no such file or directory, access '/x'`.
    number = error.errno or 0
    name = errno.errorcode.get(number, "EIO")
    return ToolError(scrub_text(f"{name}: {os.strerror(number).lower()}, {action} '{target.named}'"))


def became_link(error: OSError, target: Target) -> bool:
    """Return whether an error means that a part of the target's path has become a link since it was resolved."""
    return error.errno in _LINK and os.path.realpath(target.real) != str(target.real)


class Document(Struct):
    """The content of a URI. The model sees `text`, then `images` and `notes`; `details` go to the host with the result."""

    text: str
    notes: list[str]
    details: dict[str, Any]
    images: list[ImageContent] = []


class Uris(Protocol):
    """Reads and writes documents by the URIs of some schemes. A failure raises ToolError, also if `cancel` fired."""

    def has(self, path: str) -> bool:
        """Return whether `path` is such a URI, not a file."""
        ...

    async def read(self, uri: str, cancel: CancelToken) -> Document: ...

    async def write(self, uri: str, content: str, cancel: CancelToken) -> list[str]:
        """Replace all of what is at `uri`. Returns notes for the model."""
        ...


def beside(first: Uris, other: Uris | None) -> Uris:
    """Combine two providers of documents. `first` wins where both know a scheme."""
    return first if other is None else _Both(first, other)


class _Both(Struct, frozen=True):
    first: Uris
    other: Uris

    def has(self, path: str) -> bool:
        return self.first.has(path) or self.other.has(path)

    async def read(self, uri: str, cancel: CancelToken) -> Document:
        return await self._choose(uri).read(uri, cancel)

    async def write(self, uri: str, content: str, cancel: CancelToken) -> list[str]:
        return await self._choose(uri).write(uri, content, cancel)

    def _choose(self, uri: str) -> Uris:
        return self.first if self.first.has(uri) else self.other


def as_content(notes: Sequence[str]) -> list[UserBlock]:
    """Return notes in the form that the model sees."""
    return [TextContent("\n".join(f"[{note}]" for note in notes))] if notes else []


def scheme_of(path: str) -> str:
    """Return what stands before `://`, in lower case; empty for a path that has none."""
    scheme, separator, _ = path.partition("://")
    plain = scheme.replace("+", "").replace("-", "").replace(".", "")
    return scheme.lower() if separator and scheme[:1].isalpha() and plain.isalnum() and plain.isascii() else ""
