"""Asks before a shell command that is hard to undo. Without a user to ask, the command does not run."""

from __future__ import annotations

import re

from fairlead.extension import Allow, ApprovalRequest, Block, Context, Fairlead, ToolCallEvent

RISKY = re.compile(r"\brm\s+-\w*[rf]|\bgit\s+(push|reset\s+--hard)|\bsudo\b")


def setup(fl: Fairlead) -> None:
    approved: set[str] = set()

    @fl.on("tool_call")
    async def gate(event: ToolCallEvent, context: Context) -> Block | None:
        command = event.arguments.get("command", "") if event.tool_name == "bash" else ""
        if command in approved or not RISKY.search(command):
            return None
        if not context.has_ui:
            return Block(f"There is no user to approve {command!r}.")
        request = ApprovalRequest(event.tool_name, event.call_id, event.arguments, "Run this command?", command)
        answer = await context.ui.approve(request, cancel=context.cancel)
        if not isinstance(answer, Allow):
            return Block(f"The user does not want {command!r} to run.")
        if answer.for_session:
            approved.add(command)
        return None
