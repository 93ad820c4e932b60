"""Scripts, and how each provider API streams a turn of a script as server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import count
from typing import Any, NamedTuple, TypeAlias

#: One turn of a script. The docstring of `fairlead.testing.provider` lists its keys.
ScriptTurn: TypeAlias = Mapping[str, Any]

_numbers = count(1)


class ServerSentEvent(NamedTuple):
    """A server-sent event. `is_piece` marks pieces of text, thinking or arguments, which `dropAfter` and the like count."""

    is_piece: bool
    name: str | None
    data: Any


class Format(NamedTuple):
    """A provider API: the events of a turn, given the body of the request, and the body of an error response."""

    events: Callable[[ScriptTurn, Mapping[str, Any]], Iterator[ServerSentEvent]]
    error_body: Callable[[int, str], Any]


def pieces(turn: ScriptTurn, text: str) -> Iterable[str]:
    size = turn.get("chunk", 8)
    return (text[start : start + size] for start in range(0, len(text), size))


def full_text(turn: ScriptTurn) -> str:
    return turn.get("text", "") * turn.get("repeat", 1)


#: The keys of a turn. The docstring of `fairlead.testing.provider` explains them.
TURN_KEYS = frozenset(
    "thinking text chunk repeat toolCalls usage stopReason delayMs firstDelayMs dropAfter hangAfter holdAfter garbageAfter"
    " status error headers raw match".split()
)


def _check_keys(turn: ScriptTurn, number: int) -> None:
    """Raise ValueError if a turn has a key that means nothing: a test would not test what it says."""
    for key in turn:
        if key not in TURN_KEYS:
            near = get_close_matches(key, TURN_KEYS, 1)
            advice = f"Did you mean {near[0]}?" if near else f"The keys are: {', '.join(sorted(TURN_KEYS))}."
            raise ValueError(f"Turn {number} of the script has an unknown key: {key}. {advice}")


class Script:
    """Chooses the turn that answers a request: one whose `match` is in it, else the next one without a `match`.

    After the last turn, that turn is repeated; with `loop` the list starts again.
    """

    def __init__(self, turns: Sequence[ScriptTurn], *, loop: bool = False) -> None:
        for number, turn in enumerate(turns, 1):
            _check_keys(turn, number)
        self._turns = [turn for turn in turns if "match" not in turn]
        self._matching = [turn for turn in turns if "match" in turn]
        self._loop = loop
        self._next = 0

    def turn_for(self, body: Any) -> ScriptTurn:
        """Return the turn that answers a request with this body."""
        text = last_user_text(body)
        for turn in self._matching:
            if turn["match"] in text:
                return turn
        if not self._turns:
            return {"text": "ok"}
        last = len(self._turns) - 1
        index = self._next % len(self._turns) if self._loop else min(self._next, last)
        self._next += 1
        return self._turns[index]


def last_user_text(body: Any) -> str:
    """Return the text of the last user message in a request body of any of the formats."""
    items: Any = body.get("messages") or body.get("input") or body.get("contents") or ()
    if isinstance(items, str):
        return items
    for item in reversed(items):
        if item.get("role") == "user":
            content: Any = item.get("content", item.get("parts", ()))
            return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return ""


class _ScriptUsage(NamedTuple):
    """The tokens of a turn. `input` excludes the tokens that the cache read or wrote, in every API."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int

    @classmethod
    def of(cls, turn: ScriptTurn) -> _ScriptUsage:
        usage = turn.get("usage", {})
        names = (("input", 100), ("output", 50), ("cacheRead", 0), ("cacheWrite", 0), ("reasoning", 0))
        return cls(*(usage.get(name, default) for name, default in names))

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write


# Anthropic Messages


def anthropic_events(turn: ScriptTurn, body: Mapping[str, Any]) -> Iterator[ServerSentEvent]:
    usage = _ScriptUsage.of(turn)
    number = next(_numbers)
    started = {
        "input_tokens": usage.input,
        "output_tokens": 1,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }
    message: dict[str, Any] = {
        "id": f"msg_{number:06}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "fake"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": started,
    }
    yield _make_event("message_start", message=message)
    for index, (block, deltas, closing) in enumerate(_anthropic_blocks(turn, number)):
        yield _make_event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _make_event("content_block_delta", True, index=index, delta=delta)
        if closing is not None:
            yield _make_event("content_block_delta", index=index, delta=closing)
        yield _make_event("content_block_stop", index=index)
    reason = turn.get("stopReason") or ("tool_use" if turn.get("toolCalls") else "end_turn")
    yield _make_event(
        "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": usage.output}
    )
    yield _make_event("message_stop")


def _anthropic_blocks(turn: ScriptTurn, number: int) -> Iterator[tuple[Any, Iterable[Any], Any]]:
    """Yield each block in its first form, its deltas, and a last delta that is not a piece."""
    if thinking := turn.get("thinking"):
        deltas = ({"type": "thinking_delta", "thinking": piece} for piece in pieces(turn, thinking))
        signature = {"type": "signature_delta", "signature": f"sig{number}"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas, signature
    if text := full_text(turn):
        yield {"type": "text", "text": ""}, ({"type": "text_delta", "text": piece} for piece in pieces(turn, text)), None
    for position, call in enumerate(turn.get("toolCalls", ())):
        call_id = call.get("id", f"toolu_{number:06}_{position}")
        block: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": call["name"], "input": {}}
        arguments = pieces(turn, arguments_text(call))
        yield block, ({"type": "input_json_delta", "partial_json": piece} for piece in arguments), None


def anthropic_error(status: int, text: str) -> Any:
    kinds = {429: "rate_limit_error", 529: "overloaded_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": text}}


# OpenAI Chat Completions


def chat_events(turn: ScriptTurn, body: Mapping[str, Any]) -> Iterator[ServerSentEvent]:
    usage = _ScriptUsage.of(turn)
    number = next(_numbers)
    base = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": body.get("model", "fake"),
    }

    def chunk(delta: Any, is_piece: bool = False, finish: str | None = None) -> ServerSentEvent:
        return ServerSentEvent(is_piece, None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(turn, turn.get("thinking", "")):
        yield chunk({"reasoning_content": piece}, True)
    for piece in pieces(turn, full_text(turn)):
        yield chunk({"content": piece}, True)
    for index, call in enumerate(turn.get("toolCalls", ())):
        call_id = call.get("id", f"call_{number:06}_{index}")
        function = {"name": call["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})
        for piece in pieces(turn, arguments_text(call)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, True)
    yield chunk({}, finish=turn.get("stopReason") or ("tool_calls" if turn.get("toolCalls") else "stop"))
    totals = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    yield ServerSentEvent(False, None, {**base, "choices": [], "usage": totals})
    yield ServerSentEvent(False, None, "[DONE]")


def openai_error(status: int, text: str) -> Any:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    return {"error": {"message": text, "type": kinds.get(status, "server_error"), "param": None, "code": None}}


# OpenAI Responses


def responses_events(turn: ScriptTurn, body: Mapping[str, Any]) -> Iterator[ServerSentEvent]:
    number = next(_numbers)
    sequence = count()

    def number_events(events: Iterable[ServerSentEvent]) -> Iterator[ServerSentEvent]:
        for event in events:
            event.data["sequence_number"] = next(sequence)
            yield event

    base: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "model": body.get("model", "fake"),
        "status": "in_progress",
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
    }
    yield from number_events([_make_event("response.created", response=base), _make_event("response.in_progress", response=base)])
    output: list[Any] = []
    for item_events in _response_items(turn, body, number):
        index = len(output)
        for event in item_events:
            event.data["output_index"] = index
            yield from number_events([event])
            if event.name == "response.output_item.done":
                output.append(event.data["item"])
    yield from number_events([_response_end(turn, {**base, "output": output})])


def _response_items(turn: ScriptTurn, body: Mapping[str, Any], number: int) -> Iterator[Iterator[ServerSentEvent]]:
    if thinking := turn.get("thinking"):
        yield _reasoning_item(turn, thinking, f"rs_{number}", "reasoning.encrypted_content" in (body.get("include") or ()))
    if text := full_text(turn):
        yield _message_item(turn, text, f"msg_{number}")
    for position, call in enumerate(turn.get("toolCalls", ())):
        yield _call_item(turn, call, f"fc_{number}_{position}", call.get("id", f"call_{number:06}_{position}"))


def _reasoning_item(turn: ScriptTurn, thinking: str, item_id: str, encrypted: bool) -> Iterator[ServerSentEvent]:
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": []}
    yield _make_event("response.output_item.added", item=item)
    where: dict[str, Any] = {"item_id": item_id, "summary_index": 0}
    part = {"type": "summary_text", "text": thinking}
    yield _make_event("response.reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""})
    for piece in pieces(turn, thinking):
        yield _make_event("response.reasoning_summary_text.delta", True, **where, delta=piece)
    yield _make_event("response.reasoning_summary_text.done", **where, text=thinking)
    yield _make_event("response.reasoning_summary_part.done", **where, part=part)
    done = {**item, "summary": [part]}
    if encrypted:
        done["encrypted_content"] = f"encrypted-{item_id}"
    yield _make_event("response.output_item.done", item=done)


def _message_item(turn: ScriptTurn, text: str, item_id: str) -> Iterator[ServerSentEvent]:
    item: dict[str, Any] = {"id": item_id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    yield _make_event("response.output_item.added", item=item)
    where: dict[str, Any] = {"item_id": item_id, "content_index": 0}
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    yield _make_event("response.content_part.added", **where, part={**part, "text": ""})
    for piece in pieces(turn, text):
        yield _make_event("response.output_text.delta", True, **where, delta=piece, logprobs=[])
    yield _make_event("response.output_text.done", **where, text=text, logprobs=[])
    yield _make_event("response.content_part.done", **where, part=part)
    yield _make_event("response.output_item.done", item={**item, "status": "completed", "content": [part]})


def _call_item(turn: ScriptTurn, call: Any, item_id: str, call_id: str) -> Iterator[ServerSentEvent]:
    name = call["name"]
    item = {"id": item_id, "type": "function_call", "call_id": call_id, "name": name, "arguments": "", "status": "in_progress"}
    yield _make_event("response.output_item.added", item=item)
    arguments = arguments_text(call)
    for piece in pieces(turn, arguments):
        yield _make_event("response.function_call_arguments.delta", True, item_id=item_id, delta=piece)
    yield _make_event("response.function_call_arguments.done", item_id=item_id, name=name, arguments=arguments)
    yield _make_event("response.output_item.done", item={**item, "arguments": arguments, "status": "completed"})


def _response_end(turn: ScriptTurn, response: dict[str, Any]) -> ServerSentEvent:
    usage = _ScriptUsage.of(turn)
    response["usage"] = {
        "input_tokens": usage.prompt,
        "output_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    reason = turn.get("stopReason") or "completed"
    if reason == "completed":
        return _make_event("response.completed", response={**response, "status": "completed"})
    if reason == "failed":
        error = {"code": "server_error", "message": turn.get("error", "scripted")}
        return _make_event("response.failed", response={**response, "status": "failed", "error": error})
    return _make_event(
        "response.incomplete", response={**response, "status": "incomplete", "incomplete_details": {"reason": reason}}
    )


# Google streamGenerateContent?alt=sse


def google_events(turn: ScriptTurn, body: Mapping[str, Any]) -> Iterator[ServerSentEvent]:
    usage = _ScriptUsage.of(turn)
    number = next(_numbers)
    totals = {
        "promptTokenCount": usage.prompt,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cache_read,
        "totalTokenCount": usage.prompt + usage.output,
    }

    def chunk(part: Any, is_piece: bool = False, **candidate: Any) -> ServerSentEvent:
        content = {"role": "model", "parts": [part]}
        data = {
            "candidates": [{"content": content, "index": 0, **candidate}],
            "usageMetadata": {**totals, "candidatesTokenCount": 0},
            "modelVersion": body.get("model", "fake"),
            "responseId": f"google-{number}",
        }
        return ServerSentEvent(is_piece, None, data)

    for piece in pieces(turn, turn.get("thinking", "")):
        yield chunk({"text": piece, "thought": True}, True)
    for piece in pieces(turn, full_text(turn)):
        yield chunk({"text": piece}, True)
    for position, call in enumerate(turn.get("toolCalls", ())):
        # Gemini sends calls in one piece and without ids, and signs the first one after thinking.
        function = {"name": call["name"], "args": call["arguments"]}
        part: dict[str, Any] = {"functionCall": {**function, "id": call["id"]} if "id" in call else function}
        if turn.get("thinking") and position == 0:
            part["thoughtSignature"] = "c2lnbmF0dXJl"
        yield chunk(part, True)
    end = chunk({"text": ""}, finishReason=turn.get("stopReason") or "STOP")
    end.data["usageMetadata"] = totals
    yield end


def google_error(status: int, text: str) -> Any:
    kinds = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
    return {"error": {"code": status, "message": text, "status": kinds.get(status, "INTERNAL")}}


def arguments_text(call: Any) -> str:
    """Return the arguments as JSON. A string is returned unchanged, to script arguments that are not JSON."""
    arguments = call["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _make_event(kind: str, is_piece: bool = False, **fields: Any) -> ServerSentEvent:
    return ServerSentEvent(is_piece, kind, {"type": kind, **fields})


#: The formats, by the end of the request's path.
FORMATS: Mapping[str, Format] = {
    "/messages": Format(anthropic_events, anthropic_error),
    "/chat/completions": Format(chat_events, openai_error),
    "/responses": Format(responses_events, openai_error),
    ":streamGenerateContent": Format(google_events, google_error),
}
