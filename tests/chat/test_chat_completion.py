"""What the editor offers to complete."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.chat.input.completion import FileIndex, Wanted, mention, ranked, wanted


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("look at @src/ma", Wanted("file", "src/ma", 7)),
        ("@", Wanted("file", "", 1)),
        ('see @"my fi', Wanted("file", "my fi", 7)),
        ("line one\n@x", Wanted("file", "x", 2)),
        ("/mo", Wanted("command", "mo", 3)),
        ("/", Wanted("command", "", 1)),
        ("/model gpt", Wanted("argument", "gpt", 3, "model")),
        ("me@example", None),
        ("a /mo", None),
        ("/usr/bin", None),
        ("plain words", None),
    ],
)
def test_what_the_text_before_the_cursor_asks_for(before: str, expected: Wanted | None) -> None:
    assert wanted(before) == expected


def test_better_matches_come_first() -> None:
    paths = ["docs/domain.md", "src/m/a/i/n.txt", "src/main.py", "main.py", "other"]
    assert ranked("main", paths) == ["main.py", "src/main.py", "docs/domain.md", "src/m/a/i/n.txt"]


def a_project(folder: Path) -> Path:
    for name in ("src/app.py", "src/deep/er.py", "build/out.o", "notes with space.md", ".hidden/x"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (folder / ".gitignore").write_text("build/\n")
    return folder


def test_files_that_git_ignores_are_left_out(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", a_project(tmp_path)], check=True)
    index = FileIndex(tmp_path, shutil.which)
    assert index.search("app") == ["src/app.py"]
    assert index.search("out.o") == []
    assert "src/" in index.search("src") and "src/deep/" in index.search("deep")


def test_outside_a_repository_gitignore_counts_too(tmp_path: Path) -> None:
    rg = shutil.which("rg", path=f"{Path(__file__).parents[2] / '.venv/bin'}")
    if rg is None:
        pytest.fail("ripgrep is missing: `python3 scripts/setup.py .venv dev,rg` installs it")
    index = FileIndex(a_project(tmp_path), lambda name: rg if name == "rg" else None)
    assert index.search("app") == ["src/app.py"]
    assert index.search("out.o") == []


def test_without_any_program_files_are_found_by_walking(tmp_path: Path) -> None:
    index = FileIndex(a_project(tmp_path), lambda name: None)
    assert index.search("er.py") == ["src/deep/er.py"]
    assert index.search("hidden") == []


def test_other_folders_are_listed_as_they_are_typed(tmp_path: Path) -> None:
    index = FileIndex(a_project(tmp_path) / "src", lambda name: None)
    assert index.search("../no") == ["../notes with space.md"]
    assert index.search("./") == ["./app.py", "./deep/"]
    assert index.search(f"{tmp_path}/src/a") == [f"{tmp_path}/src/app.py"]


def test_a_repository_cannot_run_a_program_while_files_are_listed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    subprocess.run(["git", "-C", tmp_path, "config", "core.fsmonitor", str(trap)], check=True)
    assert FileIndex(tmp_path, shutil.which).search("trap") == ["trap.sh"]
    assert not (tmp_path / "sprung").exists()


def test_a_name_with_spaces_is_quoted() -> None:
    assert mention("a b.md") == '@"a b.md"' and mention("a.md") == "@a.md"
