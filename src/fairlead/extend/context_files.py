"""Instructions that users leave for the model: AGENTS.md or CLAUDE.md, SYSTEM.md and APPEND_SYSTEM.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.home import project_folder
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.config.files import Check

#: Names of the file of a folder; the first one there counts.
CONTEXT_NAMES = ("AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")

_INTRODUCTION = "Instructions of the user's and the project's. Where two of them differ, the later one holds."


class ContextFile(Struct, frozen=True):
    path: Path
    text: str


def context_files(home: Path, cwd: Path, problems: list[str], check: Check | None = None) -> list[ContextFile]:
    """The instructions for work in `cwd`: those of the home, then one file of each folder from the top down to `cwd`."""
    folders = dict.fromkeys([home, *reversed(cwd.parents), cwd])
    found = (_context_file(folder, problems, check) for folder in folders)
    return [file for file in found if file is not None and file.text]


def told(files: Sequence[ContextFile]) -> str:
    """What the model is told of these files."""
    if not files:
        return ""
    parts = [f'<instructions path="{scrub_text(str(file.path))}">\n{file.text}\n</instructions>' for file in files]
    return "\n\n".join([_INTRODUCTION, *parts])


def prompt_file(name: str, home: Path, cwd: Path, problems: list[str], check: Check | None = None) -> str | None:
    """The text of the project's file of that name, else of the home's; None if there is none."""
    for folder in (project_folder(cwd), home):
        text = _text(folder / name, problems, check)
        if text is not None:
            return text
    return None


def _context_file(folder: Path, problems: list[str], check: Check | None) -> ContextFile | None:
    for name in CONTEXT_NAMES:
        path = folder / name
        text = _text(path, problems, check)
        if text is not None:
            return ContextFile(path, text)
    return None


def _text(path: Path, problems: list[str], check: Check | None) -> str | None:
    if not os.path.lexists(path):  # in most places; much cheaper than to fail
        return None
    from fairlead.config.files import read_bytes

    try:
        data = read_bytes(path, check)
    except ConfigError as error:
        problems.append(str(error))
        return None
    return None if data is None else data.decode("utf-8", "replace").strip()
