"""Shortens the results of tools for a model with a small context window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead.core.messages import TextContent
from fairlead.core.tool import Tool, ToolContext, ToolResult

#: The part of a result that is kept from its beginning. The rest is its end, where errors and hints are.
_FROM_BEGINNING = 0.6


def with_short_results(tools: Mapping[str, Tool], longest: int) -> dict[str, Tool]:
    """Return the tools with results of at most `longest` characters of text. The middle of a longer one is left out."""
    return {name: _shortening(tool, longest) for name, tool in tools.items()}


def _shortening(tool: Tool, longest: int) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        result = await tool.run(arguments, context)
        room = longest
        content = list(result.content)
        for index, block in enumerate(content):
            if isinstance(block, TextContent):
                if len(block.text) > room:
                    content[index] = TextContent(shortened(block.text, room))
                room = max(room - len(block.text), 0)
        return replace(result, content=content) if content != result.content else result

    return replace(tool, run=run)


def shortened(text: str, longest: int) -> str:
    """Return the beginning and the end of a text, with a remark about what is left out between them."""
    beginning = int(longest * _FROM_BEGINNING)
    end = longest - beginning
    left_out = len(text) - longest
    remark = f"[{left_out} characters left out: the model's context is small. Ask for a smaller part of this.]"
    return f"{text[:beginning]}\n\n{remark}\n\n{text[len(text) - end :] if end else ''}"
