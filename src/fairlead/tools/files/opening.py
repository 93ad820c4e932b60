"""The file that a tool call is about. Its path is resolved once and then opened by descriptor, without following links.

What a person, a rule or a guard judged is therefore what is opened. If a part of the path becomes a link in between, the call
fails; it never leads anywhere else.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.files import opened_folder, stat_at
from fairlead.core.lenient import scrub_text
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.tool import ApprovedFile


#: What opening a link reports, with or without O_DIRECTORY.
_LINK = (errno.ELOOP, errno.ENOTDIR)


class Target(Struct, frozen=True):
    """The file that a call is about: `real` is where it is, with all links resolved, and `named` how messages call it.

    `approved` is the file that the user or a rule approved; None if no approval was needed.
    """

    named: Path
    real: Path
    approved: ApprovedFile | None = None


def found_at(target: Target) -> os.stat_result | None:
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
