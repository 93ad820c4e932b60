"""A tool that calls another one: it reads several files, and approvals and rules apply to each of them."""

from __future__ import annotations

from fairlead.extension import Fairlead, TextContent, ToolError, ToolRunContext


def setup(fl: Fairlead) -> None:
    @fl.register_tool
    async def read_many(paths: list[str], context: ToolRunContext) -> str:
        """Read several files at once."""
        parts: list[str] = []
        for path in paths:
            try:
                result = await context.call_tool("read", {"path": path})
            except ToolError as error:
                parts.append(f"{path}: {error}")
            else:
                text = "".join(block.text for block in result.content if isinstance(block, TextContent))
                parts.append(f"{path}:\n{text}")
        return "\n".join(parts)
