"""Reads the events of Anthropic's Messages API into a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.core.messages import StopReason
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.request_building import encode_json
from fairlead.models.apis.response_reading import decode_event, new_call_id

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


class _Piece(Struct):
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


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(Struct):
    id: str | None = None
    usage: _Usage | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    delta: _Piece | None = None
    content_block: _Piece | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


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

    def closed(self) -> None:
        """Finish the message if a stop reason has arrived: it is complete, although `message_stop` is missing."""
        if self._stop_reason is not None:
            self._finish()

    def _decode_leniently(self, name: bytes, data: bytes) -> _Event:
        try:
            return msgspec.convert(decode_event(data), _Event)
        except (ValueError, msgspec.ValidationError):
            if name == b"error":
                return _Event("error")
            raise

    def _start(self, index: int, block: _Piece) -> None:
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

    def _delta(self, index: int, delta: _Piece) -> None:
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
            self._start(index, _Piece(kind))
        self._partial.add(index, piece)

    def _stop(self, index: int) -> None:
        self._closed.add(index)
        arguments = self._whole_arguments.pop(index, None)
        if arguments is not None:
            self._partial.add(index, arguments)
        self._partial.end(index)

    def _count(self, counted: _Usage | None) -> None:
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

    def _finish(self) -> None:
        if self._stop_reason == "refusal":
            explanation = _text_in(self._stop_details, "explanation")
            self._partial.fail("The model refused to complete the request" + (f": {explanation}" if explanation else ""))
            return
        for index in list(self._whole_arguments):
            self._stop(index)
        reason = _STOP_REASONS.get(self._stop_reason or "", "stop")
        if reason == "stop" and self._call_ids:
            reason = "toolUse"
        self._partial.finish(reason)

    def _fail(self, error: Any, data: bytes) -> None:
        transient = _text_in(error, "type") in _TRANSIENT_ERRORS
        self._partial.fail(data.decode("utf-8", "replace"), transient=transient)


def _text_in(value: Any, key: str) -> str | None:
    if not isinstance(value, dict):
        return None
    text: Any = value.get(key)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return text if isinstance(text, str) else None
