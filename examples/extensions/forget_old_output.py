"""Sends each long tool result to the model only once more. Older ones are cut in the request, not in the session."""

from __future__ import annotations

from fairlead.extension import Fairlead, ModelContext, Replace, TextContent
from fairlead.messages import ToolResultMessage

FRESH = 4
LONGEST = 500


def setup(fl: Fairlead) -> None:
    @fl.on("context")
    def shorten(event: ModelContext) -> Replace:
        for message in event.messages[:-FRESH]:
            if isinstance(message, ToolResultMessage):
                for block in message.content:
                    if isinstance(block, TextContent) and len(block.text) > LONGEST:
                        block.text = f"{block.text[:LONGEST]}\n[The rest was cut. Call the tool again if you need it.]"
        return Replace(event.messages)
