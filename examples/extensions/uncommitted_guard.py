"""Asks before the user leaves or forks the session while there are uncommitted changes."""

from __future__ import annotations

from fairlead.extension import Cancel, Context, Fairlead, SessionBeforeFork, SessionBeforeSwitch


def setup(fl: Fairlead) -> None:
    async def guard(context: Context, what: str) -> Cancel | None:
        changes = await fl.exec("git", ["status", "--porcelain"], timeout=5)
        if changes.code != 0 or not changes.stdout.strip():
            return None
        if await context.ui.confirm(f"{what} with uncommitted changes?", changes.stdout):
            return None
        return Cancel("There are uncommitted changes.")

    @fl.on("session_before_switch")
    async def before_switch(event: SessionBeforeSwitch, context: Context) -> Cancel | None:
        return await guard(context, "Start a new session" if event.reason == "new" else f"Switch to {event.target}")

    @fl.on("session_before_fork")
    async def before_fork(event: SessionBeforeFork, context: Context) -> Cancel | None:
        return await guard(context, "Fork the session")
