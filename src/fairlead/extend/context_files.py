"""Instructions that users leave for the model: AGENTS.md or CLAUDE.md, SYSTEM.md and APPEND_SYSTEM.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.files import Budget
from fairlead.config.home import project_folder
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.extend.search_paths import SearchPaths

#: Names of the file of a folder; the first one there counts.
CONTEXT_NAMES = ("AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")

#: The largest size of all of them together.
MAX_CONTEXT_BYTES = 4 * 1024 * 1024

_INTRODUCTION = "Instructions of the user's and the project's. Where two of them differ, the later one holds."


class ContextFile(Struct, frozen=True):
    path: Path
    text: str


class ContextReader:
    """Reads the instructions of one user for work in one directory. `problems` gets a sentence for what cannot be read."""

    def __init__(self, search_paths: SearchPaths, problems: list[str]) -> None:
        self._search_paths = search_paths
        self._problems = problems
        #: For the files of all directories together.
        self._budget = Budget(size=MAX_CONTEXT_BYTES)

    def context_files(self, home: Path, cwd: Path) -> list[ContextFile]:
        """One file of the home, then one of each directory from the top down to `cwd`."""
        folders = dict.fromkeys([home, *reversed(cwd.parents), cwd])
        found = (self._context_file(folder, is_home=folder == home) for folder in folders)
        return [file for file in found if file is not None and file.text]

    def prompt_file(self, name: str, home: Path, cwd: Path) -> str | None:
        """The text of the project's file of that name, else of the home's; None if there is none."""
        text = self._text(project_folder(cwd) / name, cwd)
        return self._text(home / name, None) if text is None else text

    def _context_file(self, folder: Path, *, is_home: bool) -> ContextFile | None:
        for name in CONTEXT_NAMES:
            path = folder / name
            text = self._text(path, None if is_home else folder)
            if text is not None:
                return ContextFile(path, text)
        return None

    def _text(self, path: Path, project: Path | None) -> str | None:
        """The text of a file; None if there is none. `project` is the directory that it comes with, if it is not the user's."""
        if not os.path.lexists(path):  # in most places; much cheaper than to fail
            return None
        within = None if project is None else self._search_paths.boundary(project)
        try:
            data = self._budget.read(path, self._search_paths.check, within=within)
        except ConfigError as error:
            self._problems.append(str(error))
            return None
        return None if data is None else data.decode("utf-8", "replace").strip()


def context_prompt(files: Sequence[ContextFile]) -> str:
    """What the model is told of these files."""
    if not files:
        return ""
    parts = [f'<instructions path="{scrub_text(str(file.path))}">\n{file.text}\n</instructions>' for file in files]
    return "\n\n".join([_INTRODUCTION, *parts])
