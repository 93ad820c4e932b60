"""Logs when sessions start and end, in `work-log.txt` in the project."""

from __future__ import annotations

from datetime import datetime

from fairlead.extension import Context, Fairlead, SessionShutdown, SessionStart


def setup(fl: Fairlead) -> None:
    def write(context: Context, what: str) -> None:
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        with (context.cwd / "work-log.txt").open("a") as log:
            log.write(f"{now} {context.session.id} {what}\n")

    @fl.on("session_start")
    def begin(event: SessionStart, context: Context) -> None:
        write(context, f"began ({event.reason})")

    @fl.on("session_shutdown")
    def end(event: SessionShutdown, context: Context) -> None:
        write(context, f"ended ({event.reason})")
