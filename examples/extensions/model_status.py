"""Shows the model and its thinking level in the status line."""

from __future__ import annotations

from fairlead.events import ModelSelected, ThinkingLevelChanged
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("model_select")
    def model(event: ModelSelected, context: Context) -> None:
        before = event.previous.id if event.previous else "none"
        context.ui.set_status("model", f"{event.model.id} ({event.source}, before: {before})")

    @fl.on("thinking_level_select")
    def level(event: ThinkingLevelChanged, context: Context) -> None:
        context.ui.set_status("thinking", f"{event.previous} -> {event.level}")
