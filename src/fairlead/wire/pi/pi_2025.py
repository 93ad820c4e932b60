"""The protocol that pi had in 2025: three commands, fewer events, and errors instead of responses."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from fairlead.core import events
from fairlead.core.messages import Message as ChatMessage
from fairlead.core.messages import TextContent, UserMessage, user_text
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.commands import Abort
from fairlead.protocol.pi.session_commands import EVENTS_2025, Compact, Compaction, Error, Prompt2025
from fairlead.wire.pi import session_handlers
from fairlead.wire.pi.basic_handlers import BASIC_ROUTES, submit
from fairlead.wire.pi.pi_codec import PiCodec
from fairlead.wire.pi.pi_encoding import EventFrames, encode
from fairlead.wire.pi.pi_schema import lines_2025
from fairlead.wire.pi.pi_server import PiServer, command_name
from fairlead.wire.pi.pi_stdio import schema_of, serve, types_of
from fairlead.wire.routing import Id, Message, Request, RequestRoute, RouteTable

if TYPE_CHECKING:
    from fairlead.protocol.schema.family import Lines


class Codec2025(PiCodec):
    """Sends no responses. A failure is an `error` frame without an id. The host never answers questions."""

    def message(self, name: str, ident: Id, line: bytes) -> Message:
        return Request(name, ident, line)

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        return ()

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        return [encode(Error(self.error_text(error)))]


class EventFrames2025(EventFrames):
    """Sends texts where later versions of the protocol have lists and objects."""

    def send_event(self, event: events.Event) -> None:
        match event:
            case events.AgentStart() if self._held is not None:
                pass  # a further attempt of the same run, which has one start and one end
            case events.CompactionEnd(result=None):
                if (
                    event.error is not None and event.reason != "manual"
                ):  # a host that requested the compaction already gets an `error`
                    self.send(Error(event.error))
            case events.CompactionEnd(result=result):
                assert result is not None
                auto = {} if event.reason == "manual" else {"auto": True}
                self.send(Compaction(summary=result.summary, tokens_before=result.tokens_before, **auto))
            case events.ToolEnd(is_error=True):
                text = "\n".join(block.text for block in event.result.content if isinstance(block, TextContent))
                self.send(frames.ToolExecutionEnd(event.call_id, event.tool_name, text, is_error=True))
            case events.ExtensionError(extension_path="session"):
                self.send(Error(event.error))
            case _:
                super().send_event(event)

    def _convert_message(self, message: ChatMessage) -> ChatMessage:
        if not isinstance(message, UserMessage) or isinstance(message.content, str):
            return message
        if not all(isinstance(block, TextContent) for block in message.content):
            return message
        return replace(message, content=user_text(message))

    def wants(self, name: str) -> bool:
        return name in EVENTS_2025


class Server2025(PiServer):
    """Serves one host that speaks pi-2025."""

    codec_type = Codec2025
    events_type = EventFrames2025

    def make_routes(self) -> RouteTable:
        return routes_2025()


def _prompt(server: PiServer, command: Prompt2025) -> Coroutine[Any, Any, Any]:
    attached = to_builtins(command.attachments)
    return submit(
        server,
        command,
        lambda held: server.session.prompt(command.message, attachments=attached, source="rpc", held=held),
        server.session.queue.hold_prompt(command.message, None, attached),
    )


def routes_2025() -> RouteTable:
    """Return the routes of pi-2025."""
    kept = [route for route in (*BASIC_ROUTES, *session_handlers.ROUTES) if route.declaration in (Abort, Compact)]
    return RouteTable(command_name, [RequestRoute(Prompt2025, _prompt, needs_extensions=False), *kept])


# The dialect, for `fairlead.wire.dialects`

SERVER = Server2025
__all__ = ["SERVER", "lines", "schema", "serve", "types"]


def lines(dialect: str) -> Lines:
    return lines_2025()


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    return schema_of(dialect, lines(dialect), closed=closed)


def types(dialect: str, title: str) -> str:
    return types_of(title, lines(dialect))
