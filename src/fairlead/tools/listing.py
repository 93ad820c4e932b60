"""The shape that find, grep and ls share: a list of lines, and notices on what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import ToolResult
from fairlead.tools.truncate import MAX_BYTES, format_size, head


def listing(lines: Sequence[str], details: dict[str, Any], notices: Sequence[str] = ()) -> ToolResult:
    """The lines as a result, cut to what a result may hold. File names that are not Unicode become readable text."""
    shown = head(scrub_text("\n".join(lines)))
    details = dict(details)
    notices = list(notices)
    if shown.truncated:
        details["truncation"] = shown.as_details()
        notices.append(f"{format_size(MAX_BYTES)} limit reached")
    text = shown.content
    if notices:
        text += f"\n\n[{'. '.join(notices)}]"
    return ToolResult.text(text, details or None)
