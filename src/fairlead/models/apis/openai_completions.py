"""The adapter for OpenAI's Chat Completions API and the many servers that imitate it, and the reader of its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from fairlead.core.messages import StopReason
from fairlead.core.model import ModelRequest
from fairlead.core.partial_message import MOST_BLOCKS, PartialMessage, parse_arguments, too_many
from fairlead.models.apis.adapter import Adapter
from fairlead.models.apis.openai_completions_body import THINKING_FIELDS, ChatBody
from fairlead.models.apis.openai_completions_compat import completions_compat
from fairlead.models.apis.request_building import encode_json
from fairlead.models.apis.response_reading import (
    BlockWriter,
    count,
    decode_event,
    fail_with,
    new_call_id,
    record,
    records,
    string,
)
from fairlead.models.apis.text_calls import TextCallReader
from fairlead.models.http.http_client import HttpRequest

_WITH_THINKING = frozenset({*THINKING_FIELDS, "reasoning_details"})
_LENGTH = frozenset({"length", "max_tokens", "model_length"})
#: Finish reasons that are failures: the error text, and whether the same request may succeed later.
_FAILURES: Mapping[str, tuple[str, bool]] = {
    "content_filter": ("The provider's content filter stopped the answer. Rephrase the request, or ask another model.", False),
    "sensitive": ("The provider's content filter stopped the answer. Rephrase the request, or ask another model.", False),
    "error": ("The provider stopped the answer because of an error that it does not explain.", True),
    "abort": ("The provider aborted the answer.", True),
    "network_error": ("The provider lost the connection to its model.", True),
    "insufficient_system_resource": ("The provider ran out of capacity during the answer.", True),
}


class OpenAICompletions(Adapter):
    """Asks a model over `POST {base_url}/chat/completions`."""

    def _set_up(self) -> None:
        self._compat = completions_compat(self._model)
        self._body = ChatBody(self._model, self._compat, self._budgets)

    def _reader(self, partial: PartialMessage, request: ModelRequest) -> ChatReader:
        as_text = [tool.name for tool in request.tools] if self._compat.tool_calls_as_text else ()
        return ChatReader(partial, as_text)

    def _request(self, request: ModelRequest) -> HttpRequest:
        headers = [("content-type", "application/json"), ("accept", "text/event-stream")]
        if self._auth.api_key is not None:
            headers.append(("authorization", f"Bearer {self._auth.api_key}"))
        url = f"{self._model.base_url.rstrip('/')}/chat/completions"
        return HttpRequest("POST", url, self._auth.apply_to(headers), self._body.encode(request))


class _CompletionChunk(Struct):
    """An event. No types are assumed, since imitators differ in every field."""

    id: Any = None
    choices: Any = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None
    x_groq: Any = None


_decoder = msgspec.json.Decoder(_CompletionChunk)


#: How often it is checked whether the arguments of a call are complete, each time from their start.
_MOST_CHECKS = 64


class _Call:
    """A tool call that is still arriving. Its block starts when its name is known."""

    __slots__ = ("arguments", "checks", "id", "key", "name")

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.key: int | None = None
        self.arguments: list[str] = []
        #: How often it was checked whether its arguments are complete.
        self.checks = 0


class ChatReader:
    """Builds a message from the events of one response."""

    def __init__(self, partial: PartialMessage, tools_in_text: Sequence[str] = ()) -> None:
        """Read into `partial`. Calls of `tools_in_text` may come as text."""
        self._partial = partial
        self._blocks = BlockWriter(partial)
        self._text_calls: TextCallReader | None = None
        if tools_in_text:
            self._text_calls = TextCallReader(partial, self._blocks, tools_in_text)
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        #: The field that each thinking block came in, by the block's key.
        self._thinking: dict[int, str] = {}
        self._details = _ReasoningDetails()
        self._finish_reason = ""

    def read(self, event: bytes, data: bytes) -> None:
        """Read one event. Raises ValueError if it is not JSON."""
        if data.strip() == b"[DONE]":
            self._finish()
            return
        try:
            chunk = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError):
            chunk = msgspec.convert(record(decode_event(data)), _CompletionChunk)
        if chunk.error or chunk.object == "error" or event == b"error":
            error = chunk.error or {"message": chunk.message, "code": chunk.code}
            fail_with(self._partial, error, "The provider reported an error without a text.")
            return
        if self._partial.response_id is None and isinstance(chunk.id, str):
            self._partial.response_id = chunk.id or None
        self._partial.open()
        self._read_usage(chunk.usage or record(chunk.x_groq).get("usage"))
        for choice in records(chunk.choices):
            if count(choice.get("index")) == 0:
                self._read_choice(choice)

    def on_close(self) -> None:
        """Finish the message if a finish reason has arrived. Otherwise the stream broke off, which `stream_message` reports."""
        if self._finish_reason:
            self._finish()

    # the parts of a chunk

    def _read_usage(self, value: Any) -> None:
        if not value:
            return
        usage = record(value)
        prompt, output = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
        if not prompt and not output:
            return
        details = record(usage.get("prompt_tokens_details"))
        # DeepSeek and Moonshot use other names.
        cached = (
            count(details.get("cached_tokens"))
            or count(usage.get("prompt_cache_hit_tokens"))
            or count(usage.get("cached_tokens"))
        )
        written = count(details.get("cache_write_tokens"))
        reasoning = count(record(usage.get("completion_tokens_details")).get("reasoning_tokens"))
        if reasoning and count(usage.get("total_tokens")) == prompt + output + reasoning:
            output += reasoning  # xAI does not count it in completion_tokens
        ours = self._partial.usage
        ours.input, ours.output = max(0, prompt - cached - written), output
        ours.cache_read, ours.cache_write = cached, written

    def _read_choice(self, choice: dict[str, Any]) -> None:
        self._read_usage(choice.get("usage"))
        # Servers that cannot stream send the whole `message` in one chunk.
        delta = record(choice.get("delta")) or record(choice.get("message"))
        self._read_thinking(delta)
        self._read_content(delta.get("content"))
        if refusal := string(delta.get("refusal")):
            self._blocks.text(refusal)
        if legacy := record(delta.get("function_call")):
            self._read_call({"index": 0, "function": legacy})
        for call in records(delta.get("tool_calls")):
            self._read_call(call)
        self._finish_reason = string(choice.get("finish_reason")) or self._finish_reason

    def _read_thinking(self, delta: dict[str, Any]) -> None:
        if _WITH_THINKING.isdisjoint(delta):
            return
        # Some send the same text in two fields.
        field = next((field for field in THINKING_FIELDS if string(delta.get(field))), None)
        if field is not None:
            self._think(delta[field], field)
        for detail in records(delta.get("reasoning_details")):
            self._details.add(detail)
            if field is None:
                self._think(string(detail.get("text")) or string(detail.get("summary")), "")

    def _think(self, piece: str, field: str) -> None:
        if piece or not self._thinking:  # a signature alone belongs to the thinking that came before
            self._thinking.setdefault(self._blocks.thinking(piece), field)

    def _read_content(self, content: Any) -> None:
        if isinstance(content, str):
            if content:
                self._write(content)
            return
        for part in records(content):
            thinking = part.get("thinking")
            if thinking is not None:
                pieces = [string(piece.get("text")) for piece in records(thinking)]
                if piece := string(thinking) or "".join(pieces):
                    self._think(piece, "thinking")
            elif text := string(part.get("text")):
                self._write(text)

    def _write(self, text: str) -> None:
        if self._text_calls is None:
            self._blocks.text(text)
        else:
            self._text_calls.feed(text)

    def _read_call(self, delta: dict[str, Any]) -> None:
        function = record(delta.get("function"))
        name, arguments = string(function.get("name")), function.get("arguments")
        piece = arguments if isinstance(arguments, str) else encode_json(arguments).decode() if arguments else ""
        call = self._call_of(delta, name, piece)
        if not call.name and name:
            call.name = name
            call.key = self._blocks.call(call.id, name)
            for earlier in call.arguments:
                self._partial.add(call.key, earlier)
        if piece:
            call.arguments.append(piece)
        if call.key is not None:
            self._partial.add(call.key, piece)

    def _call_of(self, delta: dict[str, Any], name: str, piece: str) -> _Call:
        """Find the call that a piece belongs to, by index, by id or, without both, by order."""
        index, id = delta.get("index"), string(delta.get("id"))
        known = self._by_index.get(index) if isinstance(index, int) else None
        if known is None and not isinstance(index, int):
            known = self._by_id.get(id) or (self._calls[-1] if self._calls and not id else None)
            if known is not None and not id and name and _is_another(known, name, piece):
                known = None
        elif known is not None and id and name and known.name and id != known.id:
            known = None  # this server gives every call the index 0
        if known is None:
            if len(self._calls) >= MOST_BLOCKS:
                raise too_many("tool calls")
            known = _Call(id if id and id not in self._by_id else new_call_id())
            self._calls.append(known)
            self._by_id[known.id] = known
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    # the end

    def _finish(self) -> None:
        failure = _FAILURES.get(self._finish_reason)
        if failure is not None:
            self._partial.fail(failure[0], transient=failure[1])
            return
        self._sign_thinking()
        called = any(call.key is not None for call in self._calls)
        if self._text_calls is not None:
            self._text_calls.end()
            called = called or self._text_calls.found_calls
        reason: StopReason = "length" if self._finish_reason in _LENGTH else "toolUse" if called else "stop"
        self._partial.finish(reason, self._finish_reason or None)

    def _sign_thinking(self) -> None:
        """Record how to send each block back. Only at the end, as OpenRouter's details come before, with or after their text."""
        if self._details:
            self._partial.sign(max(self._thinking), self._details.encode())
            return
        for key, field in self._thinking.items():
            self._partial.sign(key, field)


def _is_another(call: _Call, name: str, piece: str) -> bool:
    """Tell whether a piece with neither index nor id begins another call. Some servers repeat the name in every piece."""
    if name != call.name:
        return bool(call.name)
    if not piece.lstrip().startswith("{") or not any(call.arguments) or call.checks >= _MOST_CHECKS:
        return False
    call.checks += 1
    return parse_arguments("".join(call.arguments)) is not None


class _ReasoningDetails:
    """Joins the pieces of OpenRouter's `reasoning_details`, which it wants back in full."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._details)

    def add(self, piece: dict[str, Any]) -> None:
        last = self._details[-1] if self._details else None
        if len(self._details) >= MOST_BLOCKS:
            raise too_many("pieces of reasoning")
        if last is None or (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
            self._details.append({**piece, **{field: [string(piece[field])] for field in _GROWING if field in piece}})
            return
        for field, value in piece.items():
            if field in _GROWING:
                last.setdefault(field, []).append(string(value))
            elif value is not None:
                last[field] = value

    def encode(self) -> str:
        whole = [
            {field: "".join(value) if field in _GROWING else value for field, value in detail.items()} for detail in self._details
        ]
        return encode_json(whole).decode()


_GROWING: tuple[Literal["text", "summary"], ...] = ("text", "summary")
