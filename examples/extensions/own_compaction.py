"""Compacts without a model: the summary lists what the user asked for. The instruction `never` cancels it."""

from __future__ import annotations

from typing import Any

from fairlead.extension import (
    Cancel,
    Context,
    Fairlead,
    SessionBeforeCompact,
    SessionCompact,
    SessionCompactFailed,
    Summary,
)


def setup(fl: Fairlead) -> None:
    @fl.on("session_before_compact")
    def summarise(event: SessionBeforeCompact) -> Summary | Cancel:
        if event.instructions == "never":
            return Cancel("You said never.")
        asked = [text for entry in event.to_summarise for text in _prompts(entry)]
        return Summary("The user asked for:\n" + "\n".join(f"- {text}" for text in asked), {"prompts": len(asked)})

    @fl.on("session_compact")
    def notify_user(event: SessionCompact, context: Context) -> None:
        whose = "mine" if event.from_extension else "the model's"
        context.ui.notify(f"Compacted ({event.reason}); the summary is {whose}.")

    @fl.on("session_compact_failed")
    def complain(event: SessionCompactFailed, context: Context) -> None:
        context.ui.notify(f"Not compacted: {event.error}", "warning")


def _prompts(entry: dict[str, Any]) -> list[str]:
    """Return the text of a user message. Entries are as in the session file."""
    message = entry.get("message", {})
    if message.get("role") != "user":
        return []
    return [block["text"] for block in message["content"] if block["type"] == "text"]
