"""Adds the skills and prompt templates of a team from a shared folder: `--team-folder ~/team`."""

from __future__ import annotations

from pathlib import Path

from fairlead.extension import Fairlead, Resources, ResourcesDiscover


def setup(fl: Fairlead) -> None:
    folder = fl.register_flag("team-folder", "string", description="A folder with skills/ and prompts/")

    @fl.on("resources_discover")
    def discover(event: ResourcesDiscover) -> Resources | None:
        if not folder:
            return None
        team = event.cwd / Path(str(folder)).expanduser()
        return Resources(skills=[team / "skills"], prompts=[team / "prompts"])
