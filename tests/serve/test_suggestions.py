"""What the server suggests while a user writes: files, slash commands, and nothing outside the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve.scene import USER, Scene, scene

from fairlead.protocol.http import http_objects as o


async def suggestions(s: Scene, before: str) -> o.Completions:
    session = await s.hub.create(USER, o.NewSession())
    return await session.complete(before)


def add_files(project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "main.py").write_text("x = 1\n")
    (project / "my notes.md").write_text("Notes.\n")


async def test_files_after_an_at_sign_are_suggested_with_quotes_where_needed(tmp_path: Path) -> None:
    async with scene(tmp_path, []) as s:
        add_files(s.project)
        found = await suggestions(s, "look at @ma")
        assert (found.kind, found.replaces) == ("file", 3)
        assert [item.text for item in found.items] == ["@src/main.py "]
        assert [item.text for item in (await suggestions(s, "@notes")).items] == ['@"my notes.md" ']
        assert "@src/" in [item.text for item in (await suggestions(s, "@sr")).items], "a directory stays open"


@pytest.mark.parametrize("before", ["@/etc/pass", "@~/", "@../", "@./../", "@src/../../", "@~root/", '@"/etc/'])
async def test_nothing_outside_the_working_directory_is_listed(tmp_path: Path, before: str) -> None:
    async with scene(tmp_path, []) as s:
        add_files(s.project)
        assert (await suggestions(s, before)).items == []


async def test_slash_commands_are_suggested_at_the_beginning_only(tmp_path: Path) -> None:
    async with scene(tmp_path, []) as s:
        prompts = next(tmp_path.rglob("models.json")).parent / "prompts"
        prompts.mkdir()
        (prompts / "review.md").write_text("---\ndescription: Review the last commit\n---\nReview it.\n")
        found = await suggestions(s, "/rev")
        assert [(item.text, item.detail) for item in found.items] == [("/review ", "Review the last commit")]
        assert (found.kind, found.replaces) == ("command", 4)
        assert await suggestions(s, "see /rev") == o.Completions()
        assert await suggestions(s, "plain words") == o.Completions()
