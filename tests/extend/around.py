"""A home directory, a fairlead home and a project with files, and the additions that are found in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.config.home import Home
from fairlead.extend.additions import UserAdditions
from fairlead.extend.search_paths import SearchPaths


@dataclass
class Around:
    """`root/user/.fairlead` is the home, `root/repo/app` the working directory, `root/repo` a repository."""

    root: Path
    problems: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        (self.root / "repo" / ".git").mkdir(parents=True)
        self.cwd.mkdir()
        self.home.mkdir(parents=True)

    @property
    def user(self) -> Path:
        return self.root / "user"

    @property
    def home(self) -> Path:
        return self.user / ".fairlead"

    @property
    def cwd(self) -> Path:
        return self.root / "repo" / "app"

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def additions(self, *, skill_commands: bool = True, isolated: bool = False, **changes: Any) -> UserAdditions:
        search_paths = SearchPaths(home=None if isolated else Home(self.home, user=self.user), user=self.user, **changes)
        return UserAdditions(lambda: search_paths, skill_commands=skill_commands, warn=self.problems.extend)


def a_skill(description: str = "Does things.", body: str = "Do it.", **fields: str) -> str:
    lines = [f"description: {description}", *(f"{key.replace('_', '-')}: {value}" for key, value in fields.items())]
    return "\n".join(["---", *lines, "---", body, ""])
