"""Shows when the session is being compacted. Every event here has two names, from pi and from omp; one is enough."""

from __future__ import annotations

from fairlead.events import CompactionEnd, CompactionStart
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("compaction_start")
    def start(event: CompactionStart, context: Context) -> None:
        context.ui.set_status("compaction", f"compacting ({event.reason}) ...")

    @fl.on("compaction_end")
    def end(event: CompactionEnd, context: Context) -> None:
        context.ui.set_status("compaction", None)

    @fl.on("auto_compaction_start")
    def ask_for_patience(event: CompactionStart, context: Context) -> None:
        context.ui.notify("The conversation is long. Older messages are being summed up.")

    @fl.on("auto_compaction_end")
    def notify_user(event: CompactionEnd, context: Context) -> None:
        if event.result is not None:
            context.ui.notify(f"It was {event.result.tokens_before} tokens long.")
