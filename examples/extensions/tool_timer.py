"""Shows which tools are waiting or running, for how long, and how much output they have."""

from __future__ import annotations

import time

from fairlead.events import ToolEnd, ToolRunning, ToolStart, ToolUpdate
from fairlead.extension import Context, Fairlead, TextContent


def setup(fl: Fairlead) -> None:
    began: dict[str, float] = {}
    calls: dict[str, str] = {}

    def show(context: Context, *more: str) -> None:
        lines = [f"{name} {'runs' if call in began else 'waits'}" for call, name in calls.items()]
        context.ui.set_widget("tools", [*lines, *more] or None, "belowEditor")

    @fl.on("tool_execution_start")
    def start(event: ToolStart, context: Context) -> None:
        calls[event.call_id] = event.tool_name
        show(context)

    @fl.on("tool_execution_running")
    def run(event: ToolRunning, context: Context) -> None:
        began[event.call_id] = time.monotonic()
        show(context)

    @fl.on("tool_execution_update")
    def update(event: ToolUpdate, context: Context) -> None:
        said = sum(len(block.text) for block in event.partial.content if isinstance(block, TextContent))
        show(context, f"{event.tool_name} has said {said} characters")

    @fl.on("tool_execution_end")
    def end(event: ToolEnd, context: Context) -> None:
        name, since = calls.pop(event.call_id), began.pop(event.call_id, None)
        outcome = "failed" if event.is_error else "done"
        show(context, f"{name} did not run" if since is None else f"{name} {outcome} after {time.monotonic() - since:.1f} s")
