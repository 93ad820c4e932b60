"""Model calls for extensions that run in the Node process, and models that such an extension calls itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from fairlead.core.messages import ThinkingContent, ToolCall, Usage
from fairlead.core.model import Model, ModelMessage, ModelRequest, StreamEnd, ToolSpec
from fairlead.core.runtime import CancelToken
from fairlead.errors import FairleadError, ProviderError
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context
from fairlead.extend.extensions.values import converted
from fairlead.models.added_logins import prepare_key

if TYPE_CHECKING:
    from fairlead.core.messages import AssistantMessage
    from fairlead.extend.extensions.providers import Piece, ProviderStream
    from fairlead.extend.node.remote import RemoteExtensions
    from fairlead.session.session import Session


async def complete(session: Session, model: Model, context: Mapping[str, Any], options: Mapping[str, Any]) -> AssistantMessage:
    """Ask a model and return its answer. `context` has pi's `systemPrompt`, `messages` and `tools`."""
    messages = [message for message in context.get("messages") or () if message.get("role") != "system"]
    system = [message for message in context.get("messages") or () if message.get("role") == "system"]
    prompt = context.get("systemPrompt") or "\n\n".join(str(message.get("content") or "") for message in system)
    request = ModelRequest(
        system_prompt=prompt,
        messages=converted(list[ModelMessage], messages, "messages"),
        tools=[ToolSpec(tool["name"], tool.get("description", ""), tool["parameters"]) for tool in context.get("tools") or ()],
        thinking=model.clamp(options.get("reasoning") or "off"),
        max_tokens=options.get("maxTokens"),
    )
    cancel = CancelToken()
    stream = await session.models.stream(model)
    try:
        async for batch in stream(request, cancel):
            for event in batch:
                if isinstance(event, StreamEnd):
                    return event.message
    except asyncio.CancelledError:
        cancel.fire()
        raise
    raise ProviderError("The model gave no answer.")


class StreamContext(Context):
    """The context of a call in which an extension asks its model. `events` gets what the model's answer consists of."""

    def __init__(self, remote: RemoteExtensions) -> None:
        super().__init__(remote.engine, Deadline(None))
        #: pi's stream events; None ends them.
        self.events: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()


def remote_stream(remote: RemoteExtensions, number: int) -> ProviderStream:
    """Return a stream that has an extension call its model."""

    async def stream(model: Model, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[Piece]:
        context = StreamContext(remote)
        system = {"role": "system", "content": request.system_prompt, "tools": request.tools, "timestamp": 0}
        transcript = {"systemPrompt": request.system_prompt, "messages": [system, *request.messages], "tools": request.tools}
        await prepare_key(remote.engine.host.registry, model.provider)
        options = {"reasoning": request.thinking, "maxTokens": request.max_tokens, **_auth(remote, model)}
        with remote.signals.of_call(cancel) as signal:
            given = {"number": number, "model": model, "context": transcript, "signal": signal, "options": options}
            answering = asyncio.ensure_future(remote.call("stream", given, context))
            answering.add_done_callback(lambda _: context.events.put_nowait(None))
            try:
                while (event := await context.events.get()) is not None:
                    for piece in _pieces(event):
                        yield piece
                answer = await answering
            finally:
                answering.cancel()
        if answer.get("stopReason") in ("error", "aborted"):
            raise ProviderError(str(answer.get("errorMessage") or "The extension's model failed."))
        yield converted(Usage, answer.get("usage") or {}, "usage")

    return stream


def _auth(remote: RemoteExtensions, model: Model) -> dict[str, Any]:
    """Return the key and headers for a model that an extension asks; nothing if there is no key, as in pi."""
    try:
        auth = remote.engine.host.registry.auth(model)
    except FairleadError:
        return {}
    return {"apiKey": auth.api_key, "headers": auth.headers}


def _pieces(event: Mapping[str, Any]) -> list[Piece]:
    """Return what an event of pi's streams adds to the answer."""
    match event.get("type"):
        case "text_delta":
            return [str(event.get("delta", ""))]
        case "thinking_delta":
            return [ThinkingContent(str(event.get("delta", "")))]
        case "thinking_end" if event.get("signature"):
            return [ThinkingContent("", str(event["signature"]))]
        case "toolcall_end":
            return [converted(ToolCall, event.get("toolCall"), "toolCall")]
        case _:
            return []
