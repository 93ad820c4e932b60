"""Saves the state of the files in git when a session starts. `/rewind` restores it, if the user agrees."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead, SessionStart


def setup(fl: Fairlead) -> None:
    async def git(*arguments: str) -> str:
        done = await fl.exec("git", arguments, timeout=10)
        return done.stdout.strip() if done.code == 0 else ""

    @fl.on("session_start")
    async def remember(event: SessionStart) -> None:
        # A commit of all uncommitted changes, on no branch. Empty if there are none.
        checkpoint = await git("stash", "create") or await git("rev-parse", "HEAD")
        if checkpoint and "checkpoint" not in fl.state:
            fl.state["checkpoint"] = checkpoint
            fl.append_entry("git-checkpoint", {"commit": checkpoint, "reason": event.reason})

    @fl.register_command("rewind", description="Restore the files to the start of the session")
    async def rewind(arguments: str, context: CommandContext) -> None:
        checkpoint = fl.state.get("checkpoint")
        if checkpoint is None:
            context.ui.notify("There is no checkpoint.", "warning")
        elif await context.ui.confirm("Rewind?", f"All changes since {checkpoint[:8]} will be lost."):
            await git("restore", f"--source={checkpoint}", "--worktree", "--", ":/")
            context.ui.notify(f"Back at {checkpoint[:8]}.")
