"""The ls tool: the entries of one folder."""

from __future__ import annotations

import os
from typing import Any

from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, in_thread
from fairlead.tools.files.opening import LIST, became_link, failure, opened_folder
from fairlead.tools.listing import listing
from fairlead.tools.workspace import Workspace

_LIMIT = 500


async def run_ls(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = workspace.locate(arguments.get("path") or ".", context.target)
    limit = int(arguments.get("limit") or _LIMIT)

    def ls(stop: Stop) -> ToolResult:
        try:
            with opened_folder(target.real, LIST) as folder, os.scandir(folder) as found:
                names = [entry.name + ("/" if _is_folder(entry) else "") for entry in stop.each(found)]
        except FileNotFoundError:
            raise ToolError(f"Path not found: {target.named}") from None
        except OSError as error:
            if isinstance(error, NotADirectoryError) and not became_link(error, target):
                raise ToolError(f"Not a directory: {target.named}") from None
            raise failure(error, "scandir", target) from error
        names.sort(key=lambda name: (name.lower(), name))
        if len(names) > limit:
            notice = f"{limit} entries limit reached. Use limit={limit * 2} for more"
            return listing(names[:limit], {"entryLimitReached": limit}, [notice])
        return listing(names or ["(empty directory)"], {})

    return await in_thread(context.cancel, ls)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """A link to a folder is listed as one; a link that leads nowhere, or in circles, is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False
