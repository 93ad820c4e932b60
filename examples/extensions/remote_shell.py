"""Runs the user's shell commands on another machine: `--remote "ssh build-host"`. The agent's commands still run here."""

from __future__ import annotations

import shlex

from fairlead.extension import Fairlead, Ran, UserBash


def setup(fl: Fairlead) -> None:
    remote = fl.register_flag("remote", "string", description="What to run the user's commands with")

    @fl.on("user_bash", timeout=600)
    async def run(event: UserBash) -> Ran | None:
        if not remote:
            return None
        program, *arguments = shlex.split(str(remote))
        done = await fl.exec(program, [*arguments, event.command])
        return Ran(done.stdout + done.stderr, exit_code=done.code)
