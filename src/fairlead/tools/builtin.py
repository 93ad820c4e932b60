"""Lists the built-in tools."""

from __future__ import annotations

from fairlead.core.tool import Tool
from fairlead.tools.files.edit import edit_tool
from fairlead.tools.files.read import read_tool
from fairlead.tools.files.write import write_tool
from fairlead.tools.search.search_tools import find_tool, grep_tool, ls_tool
from fairlead.tools.shell.bash import bash_tool
from fairlead.tools.workspace import Workspace

_MAKERS = (read_tool, bash_tool, edit_tool, write_tool, grep_tool, find_tool, ls_tool)


def builtin_tools(workspace: Workspace) -> dict[str, Tool]:
    """Return all built-in tools by name, working in `workspace`."""
    return {tool.name: tool for tool in (make(workspace) for make in _MAKERS)}
