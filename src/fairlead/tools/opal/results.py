"""What results of Opal's tools hold besides text, for the wire.

The `details` of a result may have
    meta      an object for the host only, the wire's `result.meta`: `{"diff": {...}}` from write_file and edit_file
    output    an object that replaces the text as the wire's `result.output`: from tasks

An update with text is a new piece of output, the wire's `tool_output`. An update without text reports something else in its
`details`
    skill       `{"name", "description"}`: use_skill has found that skill
    sub_agent   `{"id", "label", "model", "tools"}`: sub_agent is about to start a sub-agent with that id
"""

from __future__ import annotations

from fairlead.core.messages import TextContent
from fairlead.core.tool import ToolResult

META, OUTPUT, SKILL, SUB_AGENT = "meta", "output", "skill", "sub_agent"


def text_of(result: ToolResult) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
