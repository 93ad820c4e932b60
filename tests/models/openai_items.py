"""Items of an answer of OpenAI's responses API, and the events that bring them."""

from __future__ import annotations

from typing import Any

API = "openai-responses"

TURN = {
    "thinking": "Let me see.",
    "text": "Running it: é🙂",
    "toolCalls": [
        {"id": "call_a", "name": "bash", "arguments": {"command": "ls"}},
        {"id": "call_b", "name": "bash", "arguments": {"command": "pwd"}},
    ],
    "usage": {"input": 60, "output": 50, "cacheRead": 40, "reasoning": 20},
}

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "xyz"}


def done(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def ended(status: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, **response}}


def a_message(text: str, **fields: Any) -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **fields}
