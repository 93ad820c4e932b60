"""Pieces of a streamed answer of OpenAI's chat completions."""

from __future__ import annotations

from typing import Any

from tests.models.asking import sse

API = "openai-completions"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": choices}
    return known | extra


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{"type": "function", "function": function, **fields}]}


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 20},
}

FULL = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Let me "}),
    chunk({"reasoning_content": "see."}),
    chunk({"content": "Running "}),
    chunk({"content": "it: é🙂"}),
    chunk(call("bash", "", index=0, id="call_a")),
    chunk(call(None, '{"command":', index=0)),
    chunk(call(None, ' "ls"}', index=0)),
    chunk(call("bash", '{"command": "pwd"}', index=1, id="call_b")),
    chunk({}, "tool_calls"),
    chunk(usage=USAGE),
    "[DONE]",
)


def finished(*deltas: dict[str, Any], finish: str | None = "stop", **last: Any) -> str:
    return sse(*(chunk(delta) for delta in deltas), chunk({}, finish, **last), "[DONE]")
