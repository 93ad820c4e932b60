"""Trusts all projects below one of the user's folders, such as `--trust-below ~/work`, without asking."""

from __future__ import annotations

from pathlib import Path

from fairlead.extension import Fairlead, ProjectTrust, Trust


def setup(fl: Fairlead) -> None:
    folder = fl.register_flag("trust-below", "string", description="A folder of projects whose extensions may run")

    @fl.on("project_trust")
    def decide(event: ProjectTrust) -> Trust | None:
        if not folder:
            return None
        below = event.cwd.resolve().is_relative_to(Path(str(folder)).expanduser().resolve())
        return Trust(True, remember=False) if below else None
