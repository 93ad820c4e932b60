"""Confines Opal's file tools to the files of the session."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from fairlead.core.tool import ApprovedFile
from fairlead.errors import ToolError
from fairlead.tools.files.targets import Target
from fairlead.tools.workspace import Workspace


class FileAccess(Struct, frozen=True):
    """The files that tools may use: those in the workspace and in `data_dir`, the session's own folder, if it has one."""

    workspace: Workspace
    data_dir: Path | None = None

    def find(self, path: str, approved: ApprovedFile | None = None, *, data: bool = True) -> Target:
        """Find the file of a call (see `Workspace.locate`), in the working directory or, with `data`, in `data_dir`.

        Messages name it with links resolved. Raises ToolError if it is outside.
        """
        real = self.workspace.locate(path, approved).real
        bases = [self.workspace.cwd, self.data_dir] if data else [self.workspace.cwd]
        if any(base is not None and real.is_relative_to(os.path.realpath(base)) for base in bases):
            return Target(real, real, approved)
        raise ToolError(f"Path escapes working directory: {path}")

    def name_of(self, path: Path) -> str:
        """The name of a file from `find` for the model and the host: relative to the working directory if it is in there."""
        cwd = os.path.realpath(self.workspace.cwd)
        return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else path.as_posix()
