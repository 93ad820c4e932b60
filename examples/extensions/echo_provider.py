"""A model provider that runs in the extension: `--model echo/parrot` repeats the prompt. `/no-echo` removes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fairlead import CancelToken, Model, ModelRequest
from fairlead.extension import Fairlead, TextContent, ThinkingContent, ToolCall, Usage

MODEL = {"id": "parrot", "name": "Parrot", "reasoning": True, "contextWindow": 8000, "cost": {"input": 1, "output": 1}}


async def stream(
    model: Model, request: ModelRequest, cancel: CancelToken
) -> AsyncIterator[str | ThinkingContent | ToolCall | Usage]:
    """Answer a request. What it yields becomes the answer; it stops when `cancel` fires."""
    last = request.messages[-1].content
    blocks = [TextContent(last)] if isinstance(last, str) else last
    words = " ".join(block.text for block in blocks if isinstance(block, TextContent)).split()
    yield ThinkingContent(f"{len(words)} words. ")
    if words[:1] == ["run"]:
        yield ToolCall("call_1", "bash", {"command": " ".join(words[1:])})
    else:
        for word in words:
            yield f"{word} "
    yield Usage(input=len(words), output=len(words))


def setup(fl: Fairlead) -> None:
    fl.register_provider("echo", {"models": [MODEL]}, stream=stream)

    @fl.register_command("no-echo", description="Remove the provider")
    def remove() -> None:
        fl.unregister_provider("echo")
