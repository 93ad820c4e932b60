"""The find tool: files and folders by a glob pattern."""

from __future__ import annotations

import stat
from typing import Any

from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, in_thread
from fairlead.tools.files.opening import found_at
from fairlead.tools.listing import listing
from fairlead.tools.search.globs import Glob
from fairlead.tools.search.walk import walk
from fairlead.tools.workspace import Workspace

_LIMIT = 1000


async def run_find(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    root = workspace.locate(arguments.get("path") or ".", context.target)
    glob = Glob(arguments["pattern"])
    limit = int(arguments.get("limit") or _LIMIT)

    def find(stop: Stop) -> ToolResult:
        there = found_at(root)
        if there is None:
            raise ToolError(f"Path not found: {root.named}")
        if not stat.S_ISDIR(there.st_mode):
            raise ToolError(f"Not a directory: {root.named}")
        found: list[str] = []
        for entry in walk(root.real, workspace.cwd, stop):
            if glob.matches(entry.parts):
                if len(found) == limit:
                    notice = f"{limit} results limit reached. Use limit={limit * 2} for more, or refine pattern"
                    return listing(found, {"resultLimitReached": limit}, [notice])
                found.append("/".join(entry.parts) + ("/" if entry.is_folder else ""))
        return listing(found or ["No files found matching pattern"], {})

    return await in_thread(context.cancel, find)
