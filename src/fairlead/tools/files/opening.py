"""Opening files by descriptor: a path is resolved once, and from then on no link is followed.

What was judged (by a person, by a rule, by a guard) is therefore what is opened. A link that somebody puts into the path in
between makes the call fail; it never leads anywhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.lenient import scrub_text
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.tool import ApprovedFile

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
#: For folders that are only passed through; where there is no O_PATH, they have to be readable.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | _CLOEXEC
#: For folders that are listed.
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | _CLOEXEC
#: For files that are read. O_NONBLOCK: some files of /proc would block the reader, and so would a named pipe.
READ = os.O_RDONLY | os.O_NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | _CLOEXEC
#: What opening a link reports, with or without O_DIRECTORY.
_LINK = (errno.ELOOP, errno.ENOTDIR)


class Target(Struct, frozen=True):
    """The file that a call is about: `real` is where it is, with all links resolved, and `named` how messages call it.

    `approved` is what somebody, or a rule, approved; None: nobody was asked.
    """

    named: Path
    real: Path
    approved: ApprovedFile | None = None


def open_below(folder: int, names: Sequence[str], flags: int) -> int:
    """Open what `names` lead to from an open folder, step by step; no names lead to the folder itself.

    Returns a file descriptor. Raises OSError, also if one of the names is a link.
    """
    inner = folder
    try:
        for name in names[:-1]:
            passed, inner = inner, os.open(name, _PASS, dir_fd=inner)
            if passed != folder:
                os.close(passed)
        return os.open(names[-1] if names else ".", flags, dir_fd=inner)
    finally:
        if inner != folder:
            os.close(inner)


def open_real(path: Path, flags: int) -> int:
    """Open an absolute path in which all links are resolved. Raises OSError, also if a part of it is a link by now."""
    root = os.open("/", _PASS)
    try:
        return open_below(root, path.parts[1:], flags)
    finally:
        os.close(root)


@contextmanager
def opened_folder(path: Path, flags: int = _PASS) -> Generator[int]:
    """A descriptor of the folder at a real path: what is done with it is done in that folder, whatever is at the path by then."""
    folder = open_real(path, flags)
    try:
        yield folder
    finally:
        os.close(folder)


def make_folders(path: Path, before: Callable[[], None]) -> None:
    """Make the folder at a real path, and those that it is in, as far as they are missing.

    `before` is called before the first one is made, and may refuse by raising. Raises OSError, also if a part of the path is a
    link or becomes one meanwhile.
    """
    folder = os.open("/", _PASS)
    asked = False
    try:
        for name in path.parts[1:]:
            try:
                inner = os.open(name, _PASS, dir_fd=folder)
            except FileNotFoundError:
                if not asked:
                    before()
                    asked = True
                # Somebody else may make it meanwhile; if that is not a folder, opening it fails.
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                inner = os.open(name, _PASS, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def stat_at(folder: int, name: str) -> os.stat_result:
    """What is in an open folder under a name. Raises OSError, also if it is a link."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def found_at(target: Target) -> os.stat_result | None:
    """What is at the target now; None if nothing is. Raises ToolError if that cannot be told."""
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

    A file with one name only can be another one: whoever saved it meanwhile may have replaced it.
    """
    approved = target.approved
    if approved is not None and found.st_nlink > 1 and (found.st_dev, found.st_ino) != approved.identity:
        raise ToolError(
            f"{target.named} was left alone: a file that has further names (hard links) took its place after the call was"
            " checked. Call the tool again."
        )


def failure(error: OSError, action: str, target: Target) -> ToolError:
    """What an error of the operating system means for a call that acts on `target`."""
    if became_link(error, target):
        return ToolError(
            f"{target.named} was left alone: a part of its path became a link after the call was checked. Call the tool again."
        )
    # In the words that hosts of this family know: `ENOENT: no such file or directory, access '/x'`.
    number = error.errno or 0
    name = errno.errorcode.get(number, "EIO")
    return ToolError(scrub_text(f"{name}: {os.strerror(number).lower()}, {action} '{target.named}'"))


def became_link(error: OSError, target: Target) -> bool:
    """Whether an error means that a part of the target's path has become a link since it was resolved."""
    return error.errno in _LINK and os.path.realpath(target.real) != str(target.real)
