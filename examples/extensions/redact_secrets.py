"""Removes secrets from tool results before the model sees them, and from what the model writes."""

from __future__ import annotations

import re

from fairlead.events import MessageEnd
from fairlead.extension import Amend, Fairlead, Revise, TextContent, ToolResultEvent
from fairlead.messages import AssistantMessage

SECRET = re.compile(r"\b(sk-[\w-]{8,}|ghp_\w{20,}|AKIA[0-9A-Z]{16})\b")


def setup(fl: Fairlead) -> None:
    @fl.on("tool_result")
    def redact(event: ToolResultEvent) -> Amend | None:
        found = 0
        content = list(event.content)
        for place, block in enumerate(content):
            if isinstance(block, TextContent):
                text, times = SECRET.subn("[secret]", block.text)
                content[place] = TextContent(text)
                found += times
        return Amend(content, details={**(event.details or {}), "redacted": found}) if found else None

    @fl.on("message_end")
    def redact_answer(event: MessageEnd) -> Revise | None:
        message = event.message
        if not isinstance(message, AssistantMessage):
            return None
        for block in message.content:
            if isinstance(block, TextContent):
                block.text = SECRET.sub("[secret]", block.text)
        return Revise(message)
