"""Where Opal's file tools may work: in the working directory, and some of them in a folder of the session's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fairlead.core.tool import ApprovedFile
from fairlead.errors import ToolError
from fairlead.tools.files.opening import Target
from fairlead.tools.workspace import Workspace


@dataclass(frozen=True, slots=True)
class FileAccess:
    """The workspace of a session, and the folder of its own that is open to it as well; None: there is none."""

    workspace: Workspace
    data_dir: Path | None = None

    def find(self, path: str, approved: ApprovedFile | None = None, *, data: bool = True) -> Target:
        """The file that a call is about (see `Workspace.locate`): in the working directory or, with `data`, in `data_dir`.

        Messages name it with links resolved. Raises ToolError if it is outside.
        """
        real = self.workspace.locate(path, approved).real
        bases = [self.workspace.cwd, self.data_dir] if data else [self.workspace.cwd]
        if any(base is not None and real.is_relative_to(os.path.realpath(base)) for base in bases):
            return Target(real, real, approved)
        raise ToolError(f"Path escapes working directory: {path}")

    def name_of(self, path: Path) -> str:
        """A file that `find` gave, as the model and the host are told of it: from the working directory if it is in there."""
        cwd = os.path.realpath(self.workspace.cwd)
        return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else path.as_posix()
