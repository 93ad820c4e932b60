"""AGENTS.md, CLAUDE.md, SYSTEM.md and APPEND_SYSTEM.md: which are read, and in which order."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.extend.around import Around


def paths(around: Around, **changes: Any) -> list[str]:
    """The context files in the system prompt, relative to the root."""
    told = around.additions(**changes).prompt_parts(around.cwd).context
    found = [path.removeprefix(f"{around.root}/") for path in re.findall(r'<instructions path="(.*)">', told)]
    return [path for path in found if not path.startswith("/")]


def test_instructions_of_the_home_come_first_then_those_of_every_folder_from_the_top_down(around: Around) -> None:
    around.write(
        {
            "user/.fairlead/AGENTS.md": "at home",
            "AGENTS.md": "above the repository",
            "repo/CLAUDE.md": "in the repository",
            "repo/app/AGENTS.md": "here",
        }
    )
    assert paths(around) == ["user/.fairlead/AGENTS.md", "AGENTS.md", "repo/CLAUDE.md", "repo/app/AGENTS.md"]
    told = around.additions().prompt_parts(around.cwd).context
    assert f'<instructions path="{around.cwd}/AGENTS.md">\nhere\n</instructions>' in told
    assert around.problems == []


def test_a_folder_has_one_file_and_agents_goes_before_claude(around: Around) -> None:
    around.write({"repo/AGENTS.md": "a", "repo/CLAUDE.md": "b", "repo/app/CLAUDE.MD": "c"})
    assert paths(around) == ["repo/AGENTS.md", "repo/app/CLAUDE.MD"]


def test_an_empty_context_file_is_not_announced(around: Around) -> None:
    around.write({"repo/AGENTS.md": " \n"})
    assert paths(around) == []


def test_work_in_the_home_reads_its_file_once(around: Around) -> None:
    around.write({"user/.fairlead/AGENTS.md": "at home"})
    assert around.additions().prompt_parts(around.home).context.count("at home") == 1


def test_files_can_be_left_alone(around: Around) -> None:
    around.write({"repo/AGENTS.md": "a", "repo/app/.fairlead/SYSTEM.md": "mine"})
    assert paths(around, context_files=False) == []
    assert around.additions(context_files=False).prompt_parts(around.cwd).instead == "mine"


def test_nothing_of_the_users_is_read_in_isolation(around: Around) -> None:
    around.write({"repo/AGENTS.md": "a", "repo/app/.fairlead/SYSTEM.md": "b", "user/.fairlead/APPEND_SYSTEM.md": "c"})
    parts = around.additions(isolated=True).prompt_parts(around.cwd)
    assert (parts.instead, list(parts.appended), parts.context, parts.skills) == (None, [], "", "")


@pytest.mark.parametrize("name", ["SYSTEM.md", "APPEND_SYSTEM.md"])
def test_a_projects_system_prompt_goes_before_the_users(around: Around, name: str) -> None:
    around.write({f"user/.fairlead/{name}": "the user's\n"})

    def text() -> str:
        parts = around.additions().prompt_parts(around.cwd)
        return parts.instead or "" if name == "SYSTEM.md" else "".join(parts.appended)

    assert text() == "the user's"
    around.write({f"repo/app/.fairlead/{name}": "the project's\n"})
    assert text() == "the project's"


def test_bytes_that_are_not_text_are_replaced(around: Around) -> None:
    (around.cwd / "AGENTS.md").write_bytes(b"\xef\xbb\xbfcaf\xe9")
    assert "\ncaf\ufffd\n" in around.additions().prompt_parts(around.cwd).context


def test_context_files_that_are_not_regular_are_reported_and_the_next_name_is_tried(around: Around) -> None:
    os.mkfifo(around.cwd / "AGENTS.md")
    around.write({"repo/app/CLAUDE.md": "instead"})
    assert paths(around) == ["repo/app/CLAUDE.md"]
    assert around.problems == [f"{around.cwd}/AGENTS.md: cannot be read: expected a regular file, found a named pipe."]


def test_files_are_read_once_and_again_after_a_reload(around: Around) -> None:
    around.write({"repo/AGENTS.md": "before"})
    additions = around.additions()
    assert "before" in additions.prompt_parts(around.cwd).context
    around.write({"repo/AGENTS.md": "after"})
    assert "before" in additions.prompt_parts(around.cwd).context
    additions.reload()
    assert "after" in additions.prompt_parts(around.cwd).context


async def test_a_read_that_failed_is_tried_again_the_next_time(around: Around) -> None:
    around.write({"repo/app/AGENTS.md": "here"})
    bugs = [ZeroDivisionError()]

    def check(file: int, path: Path) -> None:
        if bugs:
            raise bugs.pop()

    additions = around.additions(check=check)
    for _ in range(2):
        reading = additions.prepare(around.cwd)
        if reading is not None:
            with suppress(ZeroDivisionError):
                await reading
    assert additions.prepare(around.cwd) is None
    assert "here" in additions.prompt_parts(around.cwd).context
