"""Shows the end of the answer in a widget above the editor while it is written."""

from __future__ import annotations

from fairlead.events import MessageEnd, MessageStart, MessageUpdate, TextDelta
from fairlead.extension import Context, Fairlead
from fairlead.messages import AssistantMessage


def setup(fl: Fairlead) -> None:
    # The deltas are enough. `event.partial.snapshot()` copies the whole answer.
    tail = ""

    @fl.on("message_start")
    def start(event: MessageStart) -> None:
        nonlocal tail
        tail = ""

    @fl.on("message_update")
    def grow(event: MessageUpdate, context: Context) -> None:
        nonlocal tail
        if isinstance(event, TextDelta):
            tail = (tail + event.text)[-60:]
            context.ui.set_widget("preview", [tail], "aboveEditor")

    @fl.on("message_end")
    def end(event: MessageEnd, context: Context) -> None:
        if isinstance(event.message, AssistantMessage):
            context.ui.set_widget("preview", None)
