"""What the editor offers to complete."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairlead.sessions.completion import FileIndex, Wanted, find_wanted, mention, rank
from fairlead.tools.workspace import Workspace


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
def test_text_before_the_cursor_selects_the_completions(before: str, expected: Wanted | None) -> None:
    assert find_wanted(before) == expected


def test_better_matches_come_first() -> None:
    paths = ["docs/domain.md", "src/m/a/i/n.txt", "src/main.py", "main.py", "other"]
    assert rank("main", paths) == ["main.py", "src/main.py", "docs/domain.md", "src/m/a/i/n.txt"]


def a_project(folder: Path) -> Path:
    for name in ("src/app.py", "src/deep/er.py", "build/out.o", "notes with space.md", ".hidden/x"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (folder / ".gitignore").write_text("build/\n")
    return folder


def index_of(folder: Path) -> FileIndex:
    return FileIndex(Workspace(folder, {}, lambda: folder, lambda _: None))


def test_ignored_files_are_left_out_of_a_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", a_project(tmp_path)], check=True)
    (tmp_path / ".git/info/exclude").write_text("notes*\n")
    (tmp_path / "src/.gitignore").write_text("*.log\n!kept.log\n/deep/**/gone\n")
    for name in ("src/a.log", "src/kept.log", "src/deep/x/y/gone", "src/gone", "node_modules/lib/index.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    index = index_of(tmp_path)
    assert index.search("app") == ["src/app.py"]
    assert index.search("out.o") == index.search("notes") == index.search("index.js") == []
    assert index.search("log") == ["src/kept.log"] and index.search("gone") == ["src/gone"]
    assert index.search("hidden") == [".hidden/", ".hidden/x"]
    assert "src/" in index.search("src") and "src/deep/" in index.search("deep")


def test_outside_a_repository_gitignore_counts_too_and_hidden_files_do_not(tmp_path: Path) -> None:
    index = index_of(a_project(tmp_path))
    assert index.search("er.py") == ["src/deep/er.py"]
    assert index.search("out.o") == index.search("hidden") == []


def test_other_folders_are_listed_as_they_are_typed(tmp_path: Path) -> None:
    index = index_of(a_project(tmp_path) / "src")
    assert index.search("../no") == ["../notes with space.md"]
    assert index.search("./") == ["./app.py", "./deep/"]
    assert index.search(f"{tmp_path}/src/a") == [f"{tmp_path}/src/app.py"]


def test_files_of_another_working_directory_are_listed_at_once(tmp_path: Path) -> None:
    workspace = Workspace(a_project(tmp_path), {}, lambda: tmp_path, lambda _: None)
    index = FileIndex(workspace)
    assert index.search("app") == ["src/app.py"]
    workspace.cwd = tmp_path / "src"
    assert index.search("app") == ["app.py"]


def test_a_name_that_repeats_what_is_typed_takes_no_longer() -> None:
    assert rank("a" * 40 + "b", ["a" * 4000]) == []


def test_a_name_with_spaces_is_quoted() -> None:
    assert mention("a b.md") == '@"a b.md"' and mention("a.md") == "@a.md"
