"""Notifies the user when the model breaks a stream rule, stops too early, or has nothing left to do."""

from __future__ import annotations

from fairlead.events import StreamRuleTriggered, TodoReminder
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("ttsr_triggered")
    def on_broken_rule(event: StreamRuleTriggered, context: Context) -> None:
        names = ", ".join(rule.name for rule in event.rules)
        context.ui.notify(f"The model broke: {names}", "warning")

    @fl.on("todo_reminder")
    def on_reminder(event: TodoReminder, context: Context) -> None:
        context.ui.notify(f"{len(event.todos)} left to do (reminder {event.attempt} of {event.max_attempts})")

    @fl.on("todo_auto_clear")
    def on_clear(event: object, context: Context) -> None:
        context.ui.notify("Done todos were removed from the list.")
