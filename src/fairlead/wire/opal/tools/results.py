"""What the results and updates of Opal's tools hold beside text, and how a result looks on Opal's wire.

The `details` of a result may have
    meta      an object for the host alone, the wire's `result.meta`: `{"diff": {...}}` from write_file and edit_file
    output    an object that is the wire's `result.output` in the place of the text: from tasks

An update that has text is a piece of output that was not told before: the wire's `tool_output`. One without text tells of
something else, by its `details`
    skill       `{"name", "description"}`: use_skill has found that skill
    sub_agent   `{"id", "label", "model", "tools"}`: sub_agent is about to start one of that id; nothing was heard from it yet
"""

from __future__ import annotations

from typing import Any

from fairlead.core.messages import TextContent
from fairlead.core.tool import ToolResult

META, OUTPUT, SKILL, SUB_AGENT = "meta", "output", "skill", "sub_agent"


def outcome(result: ToolResult, is_error: bool) -> dict[str, Any]:
    """A result as the wire has it: `{ok: true, output, meta?}` or `{ok: false, error}`."""
    if is_error:
        return {"ok": False, "error": text_of(result)}
    details = result.details or {}
    told: dict[str, Any] = {"ok": True, "output": details.get(OUTPUT, text_of(result))}
    return {**told, "meta": details[META]} if META in details else told


def text_of(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
