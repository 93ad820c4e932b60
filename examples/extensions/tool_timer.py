"""Shows which tools are running, for how long, and how much output they have."""

from __future__ import annotations

import time

from fairlead.events import ToolEnd, ToolStart, ToolUpdate
from fairlead.extension import Context, Fairlead, TextContent


def setup(fl: Fairlead) -> None:
    running: dict[str, tuple[str, float]] = {}

    def show(context: Context, *more: str) -> None:
        lines = [f"{name} runs" for name, _ in running.values()]
        context.ui.set_widget("tools", [*lines, *more] or None, "belowEditor")

    @fl.on("tool_execution_start")
    def start(event: ToolStart, context: Context) -> None:
        running[event.call_id] = event.tool_name, time.monotonic()
        show(context)

    @fl.on("tool_execution_update")
    def update(event: ToolUpdate, context: Context) -> None:
        said = sum(len(block.text) for block in event.partial.content if isinstance(block, TextContent))
        show(context, f"{event.tool_name} has said {said} characters")

    @fl.on("tool_execution_end")
    def end(event: ToolEnd, context: Context) -> None:
        name, began = running.pop(event.call_id)
        outcome = "failed" if event.is_error else "done"
        show(context, f"{name} {outcome} after {time.monotonic() - began:.1f} s")
