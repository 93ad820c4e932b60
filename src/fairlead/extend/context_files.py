"""Instructions for the model that users write in files: AGENTS.md or CLAUDE.md, SYSTEM.md and APPEND_SYSTEM.md."""

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

#: The names of context files. The first one that a directory has is used.
CONTEXT_NAMES = ("AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")

#: The largest total size of all context files, in bytes.
MAX_CONTEXT_BYTES = 4 * 1024 * 1024

_INTRODUCTION = "Instructions from the user and the project. Where two of them differ, the later one applies."


class ContextFile(Struct, frozen=True):
    """A context file and its text."""

    path: Path
    text: str


class ContextReader:
    """Reads the instructions for work in one directory. A sentence for each file that cannot be read is added to `problems`."""

    def __init__(self, search_paths: SearchPaths, problems: list[str]) -> None:
        self._search_paths = search_paths
        self._problems = problems
        #: The limit for all context files together.
        self._budget = Budget(size=MAX_CONTEXT_BYTES)

    def context_files(self, home: Path, cwd: Path) -> list[ContextFile]:
        """Read the context file of the home, then those of all directories from the root to `cwd`."""
        folders = dict.fromkeys([home, *reversed(cwd.parents), cwd])
        found = (self._context_file(folder, is_home=folder == home) for folder in folders)
        return [file for file in found if file is not None and file.text]

    def prompt_file(self, name: str, home: Path, cwd: Path) -> str | None:
        """Return the text of the project's file `name`, or else of the home's, or None if neither exists."""
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
        """Return the text of a file, or None if there is none.

        `project` is the directory that the file belongs to, or None for a file of the user.
        """
        if not os.path.lexists(path):  # usually there is none, and this is much cheaper than a failing read
            return None
        within = None if project is None else self._search_paths.boundary(project)
        try:
            data = self._budget.read(path, self._search_paths.check, within=within)
        except ConfigError as error:
            self._problems.append(str(error))
            return None
        return None if data is None else data.decode("utf-8", "replace").strip()


def context_prompt(files: Sequence[ContextFile]) -> str:
    """Return the part of the system prompt that holds these files."""
    if not files:
        return ""
    parts = [f'<instructions path="{scrub_text(str(file.path))}">\n{file.text}\n</instructions>' for file in files]
    return "\n\n".join([_INTRODUCTION, *parts])
