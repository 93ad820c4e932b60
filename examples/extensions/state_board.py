"""Shows in the status line how many todos are open and when calls need approval, and notifies the user of new commands."""

from __future__ import annotations

from fairlead.events import ApprovalModeChanged, TodosChanged
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("todos_changed")
    def todos(event: TodosChanged, context: Context) -> None:
        tasks = [task for phase in event.todos for task in phase.tasks]
        left = sum(task.status in ("pending", "in_progress") for task in tasks)
        context.ui.set_status("todos", f"{left} of {len(tasks)} todos left" if tasks else None)

    @fl.on("approval_mode_changed")
    def mode(event: ApprovalModeChanged, context: Context) -> None:
        context.ui.set_status("approvals", f"approvals: {event.mode}")

    @fl.on("commands_changed")
    def commands(event: object, context: Context) -> None:
        context.ui.notify(f"There are {len(fl.get_commands())} commands.")
