"""A provider of models that runs in the extension itself: `--model echo/parrot` says what it is told. `/no-echo` removes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fairlead import Cancel, Model, Request
from fairlead.extension import Fairlead, TextContent, ThinkingContent, ToolCall, Usage

MODEL = {"id": "parrot", "name": "Parrot", "reasoning": True, "contextWindow": 8000, "cost": {"input": 1, "output": 1}}


async def stream(model: Model, request: Request, cancel: Cancel) -> AsyncIterator[str | ThinkingContent | ToolCall | Usage]:
    """Ask the model. What is yielded becomes its answer; a `cancel` that fires ends it."""
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

    @fl.register_command("no-echo", description="Take the provider away")
    def remove() -> None:
        fl.unregister_provider("echo")
