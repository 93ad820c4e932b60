"""The adapter for OpenAI's Responses API, used without state on the server, and the reader of its events.

A tool call's id is the provider's `call_id`. The id of the item that carried the call is dropped: the server needs it only for
what it stores, and a plain id survives a change of provider.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from fairlead.core.model import ModelRequest, ToolSpec
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.adapter import Adapter
from fairlead.models.apis.request_building import EncodedMessages, build_parameters, encode_json, openai_efforts, provider_level
from fairlead.models.apis.response_reading import (
    BlockWriter,
    count,
    decode_event,
    decode_json,
    fail_with,
    new_call_id,
    record,
    records,
    string,
)
from fairlead.models.apis.sendable_history import sendable_messages
from fairlead.models.http.http_client import HttpRequest

#: The smallest limit that the API accepts.
_SHORTEST_ANSWER = 16
_LONGEST_KEY = 64


class OpenAIResponses(Adapter):
    """Asks a model over `POST {base_url}/responses`.

    This API takes efforts only, so thinking budgets are ignored.
    """

    def _set_up(self) -> None:
        self._messages = EncodedMessages[ModelMessage]()

    def _reader(self, partial: PartialMessage, request: ModelRequest) -> "ResponsesReader":
        return ResponsesReader(partial)

    def _request(self, request: ModelRequest) -> HttpRequest:
        headers = [("content-type", "application/json"), ("accept", "text/event-stream")]
        if self._auth.api_key is not None:
            headers.append(("authorization", f"Bearer {self._auth.api_key}"))
        url = f"{self._model.base_url.rstrip('/')}/responses"
        return HttpRequest("POST", url, self._auth.apply_to(headers), self._encode(request))

    def _encode(self, request: ModelRequest) -> bytes:
        items = self._messages.parts(sendable_messages(request.messages, self._model, self._history), _items)
        head = encode_json(self._parameters(request))
        return b"".join((head[:-1], b',"input":[', b",".join(filter(None, items)), b"]}"))

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model.id, "stream": True, "store": False}
        if request.system_prompt:
            body["instructions"] = request.system_prompt
        if limit := self._longest_answer(request):
            body["max_output_tokens"] = max(limit, _SHORTEST_ANSWER)
        if request.session_id:
            body["prompt_cache_key"] = request.session_id[:_LONGEST_KEY]
        if request.tools:
            body["tools"] = [self._tool(tool) for tool in request.tools]
        if self._model.reasoning:
            body["include"] = ["reasoning.encrypted_content"]
            effort = provider_level(self._model, request.thinking, openai_efforts(self._model))
            if effort is not None:
                body["reasoning"] = {"effort": effort, "summary": "auto"}
        return body

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        supported = (self._model.compat or {}).get("supportsStrictMode") is not False
        parameters, is_strict = build_parameters(tool, self._model.api, supports_strict=supported)
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
            # Strict tools are the default of this API, and cannot have optional parameters.
            "strict": is_strict,
        }


def _items(message: ModelMessage) -> bytes:
    """Encode the input items of a message, joined by commas; empty if there is nothing to send."""
    if isinstance(message, AssistantMessage):
        items = _assistant_items(message)
    elif isinstance(message, UserMessage):
        blocks = [TextContent(message.content)] if isinstance(message.content, str) else message.content
        items = [{"role": "user", "content": [_part(block) for block in blocks]}]
    else:
        items = [{"type": "function_call_output", "call_id": _call_id(message.tool_call_id), "output": _output(message)}]
    return b",".join(encode_json(item) for item in items)


def _assistant_items(message: AssistantMessage) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    reasoning: list[dict[str, Any]] = []
    thoughts = [_reasoning_item(block) for block in message.content if isinstance(block, ThinkingContent)]
    # The server refuses a message with an id if the reasoning that led to it is missing.
    with_ids = all(thoughts)
    for block in message.content:
        if isinstance(block, ThinkingContent):
            if item := _reasoning_item(block):
                reasoning.append(item)
            continue
        if isinstance(block, TextContent):
            if not block.text:
                continue
            item = _message_item(block, with_ids)
        else:
            arguments = encode_json(block.arguments).decode()
            item = {"type": "function_call", "call_id": _call_id(block.id), "name": block.name, "arguments": arguments}
        # It also refuses reasoning that led to nothing, so reasoning waits for the next item.
        items += [*reasoning, item]
        reasoning = []
    return items


def _reasoning_item(block: ThinkingContent) -> dict[str, Any] | None:
    """Return the item as the server sent it; None if the server could not use it."""
    item = record(decode_json(block.thinking_signature or ""))
    if item.get("type") != "reasoning" or not (item.get("encrypted_content") or item.get("content")):
        return None
    return _sendable(item)


def _sendable(item: dict[str, Any]) -> dict[str, Any]:
    """Return a reasoning item without the fields that only the server may set."""
    kept = ("type", "id", "summary", "content", "encrypted_content")
    return {"summary": [], **{field: item[field] for field in kept if item.get(field) is not None}}


def _message_item(block: TextContent, with_id: bool) -> dict[str, Any]:
    """Build a message item. `text_signature` is the item's id or, as pi writes it, an object with id and phase."""
    signature = block.text_signature or ""
    signed = record(decode_json(signature)) if signature.startswith("{") else {"id": signature}
    id, phase = string(signed.get("id")), string(signed.get("phase"))
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": block.text}
    if with_id and id.startswith("msg") and len(id) <= _LONGEST_KEY:
        item.update(id=id, status="completed", content=[{"type": "output_text", "text": block.text, "annotations": []}])
    if phase:
        item["phase"] = phase
    return item


def _part(block: TextContent | ImageContent) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{block.mime_type};base64,{block.data}"}


def _output(message: ToolResultMessage) -> str | list[dict[str, Any]]:
    if any(isinstance(block, ImageContent) for block in message.content):
        return [_part(block) for block in message.content]
    return "\n".join(block.text for block in message.content if isinstance(block, TextContent)) or "(no output)"


def _call_id(id: str) -> str:
    """Return the id of the call. In pi's sessions the item's id follows it."""
    return id.partition("|")[0]


# reading the response

_Kind: TypeAlias = Literal["message", "reasoning", "function_call"]

_DELTAS: Mapping[str, _Kind] = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}


class _ResponsesEvent(Struct):
    """The fields of all events that fairlead uses. Their types are checked where they are used."""

    type: Any = None
    output_index: Any = None
    item_id: Any = None
    delta: Any = None
    item: Any = None
    summary_index: Any = None
    response: Any = None
    error: Any = None
    code: Any = None
    message: Any = None


_decoder = msgspec.json.Decoder(_ResponsesEvent)


class _Item(Struct):
    kind: _Kind
    key: int
    #: Whether pieces of it arrived before it was done.
    streamed: bool = False
    #: The complete item, once it is done.
    whole: dict[str, Any] | None = None


class ResponsesReader:
    """Builds a message from the events of one response."""

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._blocks = BlockWriter(partial)
        self._items: dict[int | str, _Item] = {}
        self._call_ids: set[str] = set()
        self._handlers: Mapping[str, Callable[[_ResponsesEvent], None]] = {
            "response.created": self._on_created,
            "response.output_item.added": self._item_added,
            "response.reasoning_summary_part.added": self._summary_part_added,
            "response.output_item.done": self._item_done,
            "response.completed": self._on_completed,
            "response.incomplete": self._on_completed,
            "response.failed": self._on_failed,
            "response.cancelled": self._on_failed,
            "error": self._error,
        }

    def read(self, event: bytes, data: bytes) -> None:
        """Read one event. Raises ValueError if it is not JSON."""
        if data.strip() == b"[DONE]":
            if self._items:  # some imitators end a response in this way only
                self._partial.finish("toolUse" if self._call_ids else "stop")
            return
        try:
            fields = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError):
            fields = msgspec.convert(record(decode_event(data)), _ResponsesEvent)
        kind = string(fields.type) or event.decode("utf-8", "replace")
        if kind in _DELTAS:
            self._delta(_DELTAS[kind], fields)
        elif kind in self._handlers:
            self._handlers[kind](fields)
        elif fields.error:
            self._error(fields)

    def on_close(self) -> None:
        """Do nothing: this API has a final event, so a response that just ends is incomplete."""

    def _on_created(self, event: _ResponsesEvent) -> None:
        self._partial.response_id = string(record(event.response).get("id")) or None
        self._partial.open()

    def _item_added(self, event: _ResponsesEvent) -> None:
        self._start(self._place(event), record(event.item))

    def _start(self, place: int | str, item: dict[str, Any]) -> _Item | None:
        """Start the block of an item; None for items of other kinds, such as searches on the server."""
        self._blocks.end()
        kind = item.get("type")
        if kind == "message":
            started = _Item("message", self._blocks.text(""))
        elif kind == "reasoning":
            started = _Item("reasoning", self._blocks.thinking(""))
        elif kind == "function_call":
            id = string(item.get("call_id")) or string(item.get("id"))
            id = id if id and id not in self._call_ids else new_call_id()
            self._call_ids.add(id)
            started = _Item("function_call", self._blocks.call(id, string(item.get("name"))))
        else:
            return None
        self._items[place] = started
        return started

    def _delta(self, kind: _Kind, event: _ResponsesEvent) -> None:
        place = self._place(event)
        item = self._items.get(place)
        if item is None or item.kind != kind:
            if kind == "function_call":
                return  # its name comes with the item's end, and so do its arguments
            item = self._start(place, {"type": kind})
        if item is not None and item.whole is None and (piece := string(event.delta)):
            item = self._reopen(place, item)
            item.streamed = True
            self._partial.add(item.key, piece)

    def _reopen(self, place: int | str, item: _Item) -> _Item:
        """Return the item, or a new one that continues it if its block had to end because another item started."""
        if item.kind == "function_call" or self._partial.is_open(item.key):
            return item
        return self._start(place, {"type": item.kind}) or item

    def _summary_part_added(self, event: _ResponsesEvent) -> None:
        item = self._items.get(self._place(event))
        if item is not None and item.streamed and item.kind == "reasoning":
            self._partial.add(item.key, "\n\n")

    def _item_done(self, event: _ResponsesEvent) -> None:
        self._end(self._place(event), record(event.item))

    def _end(self, place: int | str, whole: dict[str, Any]) -> None:
        item = self._items.get(place)
        if item is not None and item.whole == whole:
            return
        if item is None or item.whole is not None or item.kind != whole.get("type"):
            item = self._start(place, whole)
        if item is None:
            return
        if not item.streamed and (content := _content(whole)):
            item = self._reopen(place, item)
            self._partial.add(item.key, content)
        item.whole = whole
        if signature := _signature(whole):
            self._partial.sign(item.key, signature)
        self._blocks.end(item.key)

    def _on_completed(self, event: _ResponsesEvent) -> None:
        response = record(event.response)
        if not self._items:
            for index, item in enumerate(records(response.get("output"))):
                self._end(index, item)
        self._read_usage(record(response.get("usage")))
        reason = record(response.get("incomplete_details")).get("reason")
        if response.get("status") in ("failed", "cancelled"):
            self._on_failed(event)
        elif reason == "content_filter":
            self._partial.fail("The provider's content filter stopped the answer. Rephrase the request, or ask another model.")
        elif response.get("status") == "incomplete" or event.type == "response.incomplete":
            self._partial.finish("length", "incomplete")
        else:
            self._partial.finish("toolUse" if self._call_ids else "stop", "completed")

    def _on_failed(self, event: _ResponsesEvent) -> None:
        response = record(event.response)
        self._read_usage(record(response.get("usage")))
        fail_with(self._partial, response.get("error"), "The provider ended the response without giving a reason.")

    def _error(self, event: _ResponsesEvent) -> None:
        error = event.error or {"message": event.message, "code": event.code}
        fail_with(self._partial, error, "The provider reported an error without a text.")

    def _read_usage(self, usage: dict[str, Any]) -> None:
        details = record(usage.get("input_tokens_details"))
        cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
        ours = self._partial.usage
        ours.input = max(0, count(usage.get("input_tokens")) - cached - written)
        ours.output = count(usage.get("output_tokens"))
        ours.cache_read, ours.cache_write = cached, written

    def _place(self, event: _ResponsesEvent) -> int | str:
        """Return what identifies the item of an event. Its index is preferred, since some servers change the id."""
        if isinstance(event.output_index, int):
            return event.output_index
        return string(event.item_id) or string(record(event.item).get("id"))


def _content(item: dict[str, Any]) -> str:
    """Return the full text of a finished item."""
    if item.get("type") == "function_call":
        return string(item.get("arguments"))
    if item.get("type") == "message":
        return "".join(string(part.get("text")) or string(part.get("refusal")) for part in records(item.get("content")))
    parts = list(records(item.get("summary"))) or list(records(item.get("content")))
    return "\n\n".join(string(part.get("text")) for part in parts)


def _signature(item: dict[str, Any]) -> str:
    """Return what the server needs to recognize an item."""
    if item.get("type") == "reasoning":
        return encode_json(_sendable(item)).decode()
    if item.get("type") != "message":
        return ""
    id, phase = string(item.get("id")), string(item.get("phase"))
    return encode_json({"v": 1, "id": id, "phase": phase}).decode() if phase else id
