"""The adapter for Anthropic's Messages API: its requests, and the reader of its stream."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    ModelMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserBlock,
    read_count,
)
from fairlead.core.model import ModelRequest, ThinkingLevel
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.adapter import Adapter
from fairlead.models.apis.request_building import EncodedMessages, PrefixCache, build_parameters, encode_json, provider_level
from fairlead.models.apis.response_reading import decode_event, new_call_id, record, string
from fairlead.models.apis.sendable_history import sendable_messages
from fairlead.models.http.http_client import HttpRequest

#: Thinking tokens by level, for models that take a number.
BUDGETS: Mapping[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 65536}
#: The API accepts no smaller budget. At least as many tokens are left for the answer itself.
_LEAST_BUDGET = 1024

#: Sent if neither the request nor the model has a limit, since the API requires one.
_UNKNOWN_MAX_TOKENS = 4096

#: Efforts by level, for models that decide themselves how much to think.
_EFFORTS: Mapping[str, str | None] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}

_INTERLEAVED_THINKING = "interleaved-thinking-2025-05-14"
_OAUTH = "oauth-2025-04-20"
_OAUTH_KEY_PREFIX = "sk-ant-oat"

_EPHEMERAL = {"type": "ephemeral"}


class AnthropicMessages(Adapter):
    """Asks a model over POST /v1/messages.

    Servers that imitate the API may differ, and `model.compat` says how: `thinking` ("adaptive" if the model takes an effort,
    "budget" if it takes a number of tokens), `forceAdaptiveThinking` (pi's name for "adaptive"),
    `supportsEagerToolInputStreaming` (false to send tools without that field) and `supportsStrictTools` (true if the server keeps
    calls to the schemas of tools that ask for it).
    """

    def _set_up(self) -> None:
        self._budgets = {**BUDGETS, **self._budgets}
        self._compat = self._model.compat or {}
        self._encoded: EncodedMessages[ModelMessage] = EncodedMessages()
        self._sent: PrefixCache[bytes] = PrefixCache()

    def _reader(self, partial: PartialMessage, request: ModelRequest) -> "AnthropicReader":
        return AnthropicReader(partial)

    def _request(self, request: ModelRequest) -> HttpRequest:
        base = self._model.base_url.rstrip("/").removesuffix("/v1")
        messages = sendable_messages(request.messages, self._model, self._history)
        settings = self._settings(request, messages)
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("anthropic-version", "2023-06-01"),
        ]
        betas: list[str] = []
        key = self._auth.api_key
        if key is not None and key.startswith(_OAUTH_KEY_PREFIX):
            headers.append(("authorization", f"Bearer {key}"))
            betas.append(_OAUTH)
        elif key is not None:
            headers.append(("x-api-key", key))
        if settings.get("thinking", {}).get("type") == "enabled":
            # Models with adaptive thinking do this without being asked.
            betas.append(_INTERLEAVED_THINKING)
        if betas:
            headers.append(("anthropic-beta", ",".join(betas)))
        body = encode_json(settings)[:-1] + b',"messages":[' + b",".join(self._turns(messages)) + b"]}"
        return HttpRequest("POST", f"{base}/v1/messages", self._auth.apply_to(headers), body)

    # everything but the messages

    def _settings(self, request: ModelRequest, messages: list[ModelMessage]) -> dict[str, Any]:
        max_tokens = self._longest_answer(request) or _UNKNOWN_MAX_TOKENS
        settings: dict[str, Any] = {"model": self._model.id, "max_tokens": max_tokens, "stream": True}
        if request.system_prompt.strip():
            settings["system"] = [{"type": "text", "text": request.system_prompt, "cache_control": _EPHEMERAL}]
        if request.tools:
            settings["tools"] = list(self._tools(request))
        if self._model.reasoning:
            if self._thinks_adaptively():
                settings.update(self._effort(request.thinking))
            elif request.thinking != "off" and max_tokens > _LEAST_BUDGET and _may_start_thinking(messages):
                wanted = self._budgets_for(request)[request.thinking]
                budget = max(_LEAST_BUDGET, min(wanted, max_tokens - _LEAST_BUDGET))
                settings["thinking"] = {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
        return settings

    def _tools(self, request: ModelRequest) -> Iterator[dict[str, Any]]:
        eager = self._compat.get("supportsEagerToolInputStreaming", True)
        for position, tool in enumerate(request.tools):
            supported = self._compat.get("supportsStrictTools") is True
            schema, is_strict = build_parameters(tool, self._model.api, supports_strict=supported)
            sent: dict[str, Any] = {"name": tool.name, "description": tool.description, "input_schema": schema}
            if is_strict:
                sent["strict"] = True
            if eager:
                # Makes arguments arrive as they are written, not all at once at the end.
                sent["eager_input_streaming"] = True
            if position == len(request.tools) - 1:
                sent["cache_control"] = _EPHEMERAL
            yield sent

    def _thinks_adaptively(self) -> bool:
        """Tell whether the model takes an effort: its compat says so, or its thinking levels have names."""
        if "thinking" in self._compat:
            return self._compat["thinking"] == "adaptive"
        if self._compat.get("forceAdaptiveThinking") is True:
            return True
        names = self._model.thinking_level_map or {}
        return any(name is not None for level, name in names.items() if level != "off")

    def _effort(self, level: ThinkingLevel) -> dict[str, Any]:
        if level != "off":
            effort = provider_level(self._model, level, _EFFORTS)
            # Newer models hide their thinking unless asked.
            return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
        names = self._model.thinking_level_map or {}
        # A model whose map has null for "off" refuses to be switched off.
        return {} if names.get("off", "off") is None else {"thinking": {"type": "disabled"}}

    # the messages

    def _turns(self, messages: list[ModelMessage]) -> list[bytes]:
        """Encode the messages: the results of one turn go together, and the last block is marked for the cache."""
        parts = self._encoded.parts(messages, _encode_blocks)
        last = len(messages) - 1
        index, turns = self._sent.resume(messages)
        start = index
        while index <= last:
            start = index
            while (
                isinstance(messages[index], ToolResultMessage)
                and index < last
                and isinstance(messages[index + 1], ToolResultMessage)
            ):
                index += 1
            blocks = b",".join(parts[start : index + 1])
            if isinstance(messages[index], AssistantMessage):
                turns.append(b'{"role":"assistant","content":[' + blocks + b"]}")
            else:
                if index == last:
                    blocks = blocks[:-1] + b',"cache_control":{"type":"ephemeral"}}'
                turns.append(b'{"role":"user","content":[' + blocks + b"]}")
            index += 1
        self._sent.keep(messages[:start], turns[:-1])  # without the last one: it is marked, and more results may join it
        return turns


def _may_start_thinking(messages: list[ModelMessage]) -> bool:
    """Tell whether the API allows thinking with a budget. It does not in the middle of a turn that began without thinking."""
    if not messages or not isinstance(messages[-1], ToolResultMessage):
        return True
    answer = next(message for message in reversed(messages) if isinstance(message, AssistantMessage))
    return isinstance(answer.content[0], ThinkingContent)


def _encode_blocks(message: ModelMessage) -> bytes:
    """Encode the content blocks of a message, joined by commas."""
    if isinstance(message, AssistantMessage):
        blocks = [_assistant_block(block) for block in message.content]
    elif isinstance(message, ToolResultMessage):
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            # The API refuses an error without content.
            "content": [_user_block(block) for block in message.content or [TextContent("(no output)")]],
            "is_error": message.is_error,
        }
        blocks = [result]
    elif isinstance(message.content, str):
        blocks = [{"type": "text", "text": message.content}]
    else:
        blocks = [_user_block(block) for block in message.content]
    return encode_json(blocks)[1:-1]


def _assistant_block(block: AssistantBlock) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    if isinstance(block, ThinkingContent):
        if block.redacted:
            return {"type": "redacted_thinking", "data": block.thinking_signature}
        return {"type": "thinking", "thinking": block.thinking, "signature": block.thinking_signature}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}


def _user_block(block: UserBlock) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}


_STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_TRANSIENT_ERRORS = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})


# One loose struct serves all events, and one all blocks and deltas. So each event needs a single typed decode, and unknown
# kinds of events are not errors.


class _BlockPiece(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    partial_json: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    stop_reason: str | None = None
    stop_details: Any = None


class _CacheCreation(Struct):
    ephemeral_1h_input_tokens: int | None = None


class _TokenCounts(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None


class _MessageHead(Struct):
    id: str | None = None
    usage: _TokenCounts | None = None


class _StreamEvent(Struct):
    type: str = ""
    index: int = 0
    delta: _BlockPiece | None = None
    content_block: _BlockPiece | None = None
    message: _MessageHead | None = None
    usage: _TokenCounts | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_StreamEvent)


class AnthropicReader:
    """Builds a message from the events of one response."""

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._stop_reason: str | None = None
        self._stop_details: Any = None
        self._call_ids: set[str] = set()
        #: Blocks that take no more pieces: the provider ended them, or they are of an unknown kind.
        self._closed: set[int] = set()
        #: Complete arguments that came with the start of a tool call. They are used if no pieces follow before the call ends.
        self._whole_arguments: dict[int, str] = {}

    def read(self, name: bytes, data: bytes) -> None:
        """Read one event. Raises ValueError or a msgspec error if it cannot be read."""
        try:
            event = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError):
            event = self._decode_leniently(name, data)
        kind = event.type or name.decode("latin1")
        if kind == "content_block_delta":
            if event.delta is not None:
                self._delta(event.index, event.delta)
        elif kind == "content_block_start":
            if event.content_block is not None:
                self._start(event.index, event.content_block)
        elif kind == "content_block_stop":
            self._stop(event.index)
        elif kind == "message_start":
            if event.message is not None:
                self._partial.response_id = event.message.id
                self._count(event.message.usage)
            self._partial.open()
        elif kind == "message_delta":
            self._count(event.usage)
            if event.delta is not None:
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                self._stop_details = event.delta.stop_details or self._stop_details
        elif kind == "message_stop":
            self._finish()
        elif kind == "error" or name == b"error":
            self._fail(event.error, data)

    def on_close(self) -> None:
        """Finish the message if a stop reason has arrived: it is complete, although `message_stop` is missing."""
        if self._stop_reason is not None:
            self._finish()

    def _decode_leniently(self, name: bytes, data: bytes) -> _StreamEvent:
        try:
            return msgspec.convert(decode_event(data), _StreamEvent)
        except (ValueError, msgspec.ValidationError):
            if name == b"error":
                return _StreamEvent("error")
            raise

    def _start(self, index: int, block: _BlockPiece) -> None:
        partial = self._partial
        # Imitators forget to end a block before they start the next.
        partial.end_open_blocks()
        self._closed.discard(index)
        if block.type == "text":
            partial.start_text(index)
            partial.add(index, block.text or "")
        elif block.type == "thinking":
            partial.start_thinking(index)
            partial.add(index, block.thinking or "")
            if block.signature:
                partial.sign(index, block.signature)
        elif block.type == "redacted_thinking":
            partial.start_thinking(index, redacted=True)
            partial.sign(index, block.data or "")
        elif block.type == "tool_use":
            id = block.id if block.id and block.id not in self._call_ids else new_call_id()
            self._call_ids.add(id)
            partial.start_tool_call(index, id, block.name or "")
            if block.input:
                self._whole_arguments[index] = encode_json(block.input).decode()
        else:
            self._closed.add(index)

    def _delta(self, index: int, delta: _BlockPiece) -> None:
        partial = self._partial
        if delta.type == "signature_delta":
            if partial.has(index):
                partial.sign(index, delta.signature or "")
        elif index in self._closed:
            return
        elif delta.type == "text_delta":
            self._add(index, "text", delta.text)
        elif delta.type == "thinking_delta":
            self._add(index, "thinking", delta.thinking)
        elif delta.type == "input_json_delta" and delta.partial_json and partial.has(index):
            self._whole_arguments.pop(index, None)
            partial.add(index, delta.partial_json)

    def _add(self, index: int, kind: str, piece: str | None) -> None:
        if not piece:
            return
        if not self._partial.is_open(index):
            # Its start is missing, or another block started before it ended.
            self._start(index, _BlockPiece(kind))
        self._partial.add(index, piece)

    def _stop(self, index: int) -> None:
        self._closed.add(index)
        arguments = self._whole_arguments.pop(index, None)
        if arguments is not None:
            self._partial.add(index, arguments)
        self._partial.end(index)

    def _count(self, counted: _TokenCounts | None) -> None:
        """Update the usage. Counts are totals so far; an absent count has not changed."""
        if counted is None:
            return
        usage = self._partial.usage
        if counted.input_tokens is not None:
            usage.input = counted.input_tokens
        if counted.output_tokens is not None:
            usage.output = counted.output_tokens
        if counted.cache_read_input_tokens is not None:
            usage.cache_read = counted.cache_read_input_tokens
        if counted.cache_creation_input_tokens is not None:
            usage.cache_write = counted.cache_creation_input_tokens
        if counted.cache_creation is not None:
            usage.cache_write_1h = read_count(counted.cache_creation.ephemeral_1h_input_tokens or 0)
        elif usage.cache_write_1h is UNSET:
            usage.cache_write_1h = 0

    def _finish(self) -> None:
        if self._stop_reason == "refusal":
            explanation = string(record(self._stop_details).get("explanation"))
            self._partial.fail("The model refused to complete the request" + (f": {explanation}" if explanation else ""))
            return
        for index in list(self._whole_arguments):
            self._stop(index)
        reason = _STOP_REASONS.get(self._stop_reason or "", "stop")
        if reason == "stop" and self._call_ids:
            reason = "toolUse"
        self._partial.finish(reason, self._stop_reason)

    def _fail(self, error: Any, data: bytes) -> None:
        transient = string(record(error).get("type")) in _TRANSIENT_ERRORS
        self._partial.fail(data.decode("utf-8", "replace"), transient=transient)
