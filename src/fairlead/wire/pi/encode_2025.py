"""Session events as frames of pi's protocol of 2025."""

from __future__ import annotations

from msgspec.structs import replace

from fairlead.core import events
from fairlead.core.messages import Message, TextContent, UserMessage, user_text
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.protocol_2025 import EVENTS_2025, Compaction, Error
from fairlead.wire.pi.encode import EventFrames


class EventFrames2025(EventFrames):
    """What its hosts know: fewer events, texts where later versions have lists and objects, and errors instead of responses."""

    def tell(self, event: events.Event) -> None:
        match event:
            case events.CompactionEnd(result=None):
                if event.error is not None and event.reason != "manual":  # who asked for it is answered
                    self.send(Error(event.error))
            case events.CompactionEnd(result=result):
                assert result is not None
                auto = {} if event.reason == "manual" else {"auto": True}
                self.send(Compaction(summary=result.summary, tokens_before=result.tokens_before, **auto))
            case events.ToolEnd(is_error=True):
                text = "\n".join(block.text for block in event.result.content if isinstance(block, TextContent))
                self.send(frames.ToolExecutionEnd(event.call_id, event.tool_name, text, is_error=True))
            case _:
                super().tell(event)

    def respond(self, response: frames.Response) -> None:
        if not response.success:
            self.send(Error(response.error if isinstance(response.error, str) else "unknown error"))

    def _shown(self, message: Message) -> Message:
        if not isinstance(message, UserMessage) or isinstance(message.content, str):
            return message
        if not all(isinstance(block, TextContent) for block in message.content):
            return message
        return replace(message, content=user_text(message))

    def wants(self, name: str) -> bool:
        return name in EVENTS_2025
