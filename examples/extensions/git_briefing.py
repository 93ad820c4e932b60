"""Tells the model the git status of the project with every prompt, and how to write commits."""

from __future__ import annotations

from fairlead.extension import BeforeAgentStart, Fairlead, Note, Open

RULE = "Write commit messages in the imperative, with a first line of at most 60 characters."


def setup(fl: Fairlead) -> None:
    @fl.on("before_agent_start")
    async def brief(event: BeforeAgentStart) -> Open | None:
        status = await fl.exec("git", ["status", "--short", "--branch"], timeout=5)
        if status.code != 0:
            return None
        return Open([Note("git-status", status.stdout, display=False)], f"{event.system_prompt}\n\n{RULE}")
