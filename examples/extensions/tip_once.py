"""Shows a tip after the first failed tool call, and never again: the function that `on` returns removes the handler."""

from __future__ import annotations

from fairlead.events import ToolEnd
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    def tip(event: ToolEnd, context: Context) -> None:
        if event.is_error:
            context.ui.notify("Tools may fail. The model is told why, and tries something else.")
            stop()

    stop = fl.on("tool_execution_end", tip, timeout=1)
