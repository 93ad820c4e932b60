"""Notifies the user when a provider fails, when fairlead retries, and how that ends."""

from __future__ import annotations

from fairlead.events import RetryEnd, RetryStart, SummaryRetryEnd, SummaryRetryScheduled, SummaryRetryStart
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("auto_retry_start")
    def start(event: RetryStart, context: Context) -> None:
        seconds = event.delay_ms / 1000
        context.ui.notify(f"Attempt {event.attempt} of {event.max_attempts} in {seconds:g} s: {event.error}", "warning")

    @fl.on("auto_retry_end")
    def end(event: RetryEnd, context: Context) -> None:
        if event.success:
            context.ui.notify("The provider answers again.")
        else:
            context.ui.notify(f"Given up: {event.error}", "error")

    @fl.on("summarization_retry_scheduled")
    def failed_summary(event: SummaryRetryScheduled, context: Context) -> None:
        context.ui.notify(f"The summary failed: {event.error}", "warning")

    @fl.on("summarization_retry_attempt_start")
    def next_summary(event: SummaryRetryStart, context: Context) -> None:
        context.ui.set_status("summary", f"asking again for a summary ({event.source}) ...")

    @fl.on("summarization_retry_finished")
    def last_summary(event: SummaryRetryEnd, context: Context) -> None:
        context.ui.set_status("summary", None)
