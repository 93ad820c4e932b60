"""Shows the queued messages."""

from __future__ import annotations

from fairlead.events import QueueUpdate
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("queue_update")
    def show(event: QueueUpdate, context: Context) -> None:
        lines = [f"soon: {text}" for text in event.steering] + [f"later: {text}" for text in event.follow_up]
        context.ui.set_widget("queue", lines or None)
