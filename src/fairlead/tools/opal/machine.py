"""Lists Opal's tools that work on the machine."""

from __future__ import annotations

from pathlib import Path

from fairlead.core.tool import Tool
from fairlead.tools.opal.access import FileAccess
from fairlead.tools.opal.edit_file import edit_file_tool
from fairlead.tools.opal.grep import grep_tool
from fairlead.tools.opal.read_file import read_file_tool
from fairlead.tools.opal.shell import shell_tool
from fairlead.tools.opal.write_file import write_file_tool
from fairlead.tools.workspace import Workspace

_MAKERS = (read_file_tool, write_file_tool, edit_file_tool, grep_tool, shell_tool)


def machine_tools(workspace: Workspace, data_dir: Path | None = None) -> list[Tool]:
    """Make the tools for one session. All except edit_file may also use `data_dir`."""
    files = FileAccess(workspace, data_dir)
    return [make(files) for make in _MAKERS]
