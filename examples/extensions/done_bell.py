"""Notifies the user when the agent is done, and how long it took."""

from __future__ import annotations

import time

from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    began: list[float] = []

    @fl.on("agent_start")
    def start() -> None:
        began.append(time.monotonic())

    @fl.on("agent_settled")
    def done(event: object, context: Context) -> None:
        seconds = time.monotonic() - began[0]
        began.clear()  # a run may start several times, for example after a retry
        context.ui.notify(f"Done after {seconds:.0f} s", "info")
