"""What the results and updates of Opal's tools hold besides text, and the form of a result on Opal's wire.

The `details` of a result may have
    meta      an object for the host only, the wire's `result.meta`: `{"diff": {...}}` from write_file and edit_file
    output    an object that replaces the text as the wire's `result.output`: from tasks

An update with text is a new piece of output, the wire's `tool_output`. An update without text reports something else in its
`details`
    skill       `{"name", "description"}`: use_skill has found that skill
    sub_agent   `{"id", "label", "model", "tools"}`: sub_agent is about to start a sub-agent with that id
"""

from __future__ import annotations

from typing import Any

from fairlead.core.messages import TextContent
from fairlead.core.tool import ToolResult

META, OUTPUT, SKILL, SUB_AGENT = "meta", "output", "skill", "sub_agent"


def outcome(result: ToolResult, is_error: bool) -> dict[str, Any]:
    """A result in its form on the wire: `{ok: true, output, meta?}` or `{ok: false, error}`."""
    if is_error:
        return {"ok": False, "error": text_of(result)}
    details = result.details or {}
    told: dict[str, Any] = {"ok": True, "output": details.get(OUTPUT, text_of(result))}
    return {**told, "meta": details[META]} if META in details else told


def text_of(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
