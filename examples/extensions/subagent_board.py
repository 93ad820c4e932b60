"""Shows a widget with a line per sub-agent: its status, its usage and the tool it runs."""

from __future__ import annotations

from fairlead.events import SubagentEvent, SubagentLifecycle, SubagentProgress, ToolStart
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    board: dict[str, str] = {}

    def show(context: Context, id: str, line: str) -> None:
        board[id] = line
        context.ui.set_widget("subagents", [f"{name}: {line}" for name, line in board.items()])

    @fl.on("subagent_lifecycle")
    def lives(event: SubagentLifecycle, context: Context) -> None:
        show(context, event.payload.id, event.payload.status)

    @fl.on("subagent_progress")
    def gets_on(event: SubagentProgress, context: Context) -> None:
        progress = event.payload.progress
        show(context, progress.id, f"{progress.status}, {progress.tool_count} tools, {progress.tokens} tokens")

    @fl.on("subagent_event")
    def does(event: SubagentEvent, context: Context) -> None:
        if isinstance(event.event, ToolStart):
            show(context, event.id, f"runs {event.event.tool_name}")
