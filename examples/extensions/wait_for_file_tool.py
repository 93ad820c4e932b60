"""A slow tool: it reports progress, and ends when the run is aborted."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.extension import Fairlead, TextContent, ToolError, ToolResult, ToolRunContext

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The file to wait for"}},
    "required": ["path"],
}


def setup(fl: Fairlead) -> None:
    @fl.register_tool(
        description="Wait until a file exists, for a minute at most.",
        label="Wait for a file",
        parameters=PARAMETERS,  # with its own schema, the function gets all arguments as one dict
        snippet="Wait for a file that another program makes",
        guidelines=["Use wait_for_file instead of sleeping in bash."],
        timeout=60,
    )
    async def wait_for_file(arguments: dict[str, Any], context: ToolRunContext) -> ToolResult:
        path = context.cwd / arguments["path"]
        waited = 0.0
        while not path.exists():
            if context.cancel.fired:
                raise ToolError("Called off.")
            context.update(f"{context.call_id}: waited {waited:.1f} s")
            await asyncio.sleep(0.05)
            waited += 0.05
        return ToolResult([TextContent(f"{arguments['path']} is there.")], details={"waited": waited})
