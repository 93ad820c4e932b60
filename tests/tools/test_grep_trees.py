"""grep in large trees, where ripgrep does the walk: the same files in the same order as without it, and nothing from outside."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tools.conftest import Box

from fairlead.tools.search import contents, ripgrep_walk
from fairlead.tools.search.walk import IgnoreFile

NAMES = ["a", "b", "build", "src", "lib.d", "{x}", "x y", ".hidden", "café", "[z]"]
ENDINGS = ["", ".txt", ".log", ".py", ".TXT"]
RULES = [
    "*.log",
    "!keep.log",
    "build/",
    "/b",
    "src/*.py",
    "/src/**/b.txt",
    "**/lib.d",
    "a/**",
    "!a/b",
    "{x}",
    "x y",
    "x\\ y.txt",
    "[ab].py",
    "[!a]",
    "# comment",
    "\\[z\\]",
    "*.[tT]??",
    "caf?",
    "src/",
    "**/a/*",
]


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path(sys.executable).with_name("rg").exists():
        pytest.skip("ripgrep is not installed beside this Python")
    monkeypatch.setattr(contents, "WALKED_FIRST", 0)
    monkeypatch.setattr(ripgrep_walk, "SOON", 60)


def make_tree(box: Box, seed: int) -> None:
    """A tree of files that match or do not, with .gitignore files, repositories and links in it."""
    chance = random.Random(seed)
    folders = [""]
    for _ in range(14):
        folders.append(f"{chance.choice(folders)}{chance.choice(NAMES)}/")
    for folder in dict.fromkeys(folders):
        for _ in range(6):
            name = f"{folder}{chance.choice(NAMES)}.{chance.choice('abk')}{chance.choice(ENDINGS)}"
            box.put(
                name, chance.choice(["needle\n", "x\nneedle\nneedle\n", "none\n", b"needle\n\0", "needle\n".encode("utf-16")])
            )
        if chance.random() < 0.4:
            box.put(f"{folder}.gitignore", "\n".join(chance.sample(RULES, 4)))
        if folder and chance.random() < 0.15:
            box.put(f"{folder}.git/HEAD", "needle\n")
    (box.cwd / "zz-link").symlink_to("a")


def without_ripgrep(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = box.cwd.parent / "bin"
    empty.mkdir()
    (empty / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(empty / "python"))
    box.workspace.env = {**os.environ, "PATH": str(empty)}


@pytest.mark.parametrize("seed", range(12))
def test_the_results_are_those_of_the_search_without_ripgrep(
    box: Box, walks: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    make_tree(box, seed)
    monkeypatch.setattr(ripgrep_walk, "SOON", 60 if seed % 2 else 0)  # ripgrep walks in order, or with all threads
    monkeypatch.setattr(ripgrep_walk, "MOST_LISTED", 20_000 if seed % 4 < 2 else 1)  # we look for ignore rules, or ripgrep does
    calls = [
        {},
        {"limit": 7},
        {"context": 1},
        {"glob": "*.txt"},
        {"glob": "!*.txt"},
        {"glob": "*.{txt,py}"},
        {"glob": "a/**"},
        {"glob": "/*/*.a*"},
        {"glob": "{x}.b"},
    ]
    calls += [{"path": folder.name} for folder in sorted(box.cwd.iterdir()) if folder.is_dir() and not folder.is_symlink()]
    with_ripgrep = [box.call("grep", pattern="needle", **call) for call in calls]
    without_ripgrep(box, monkeypatch)
    for call, found in zip(calls, with_ripgrep, strict=True):
        expected = box.call("grep", pattern="needle", **call)
        assert (found.text, found.details) == (expected.text, expected.details), call


@pytest.mark.parametrize("soon", [60, 0], ids=["in order", "with all threads"])
def test_the_first_matches_are_shown_however_many_names_there_are(
    box: Box, walks: None, monkeypatch: pytest.MonkeyPatch, soon: float
) -> None:
    monkeypatch.setattr(ripgrep_walk, "SOON", soon)
    monkeypatch.setattr(ripgrep_walk, "MOST_NAMES", 4)
    for number in range(100):
        box.put(f"d{number % 10}/f{number:02d}", "needle\n")
    for number in range(50):
        # Text that ripgrep finds before it sees that the file is binary.
        box.put(f"a{number:02d}", b"needle\n" + b"x\n" * 100_000 + b"\0")
    done = box.call("grep", pattern="needle", limit=3)
    assert done.text.startswith("d0/f00:1: needle\nd0/f10:1: needle\nd0/f20:1: needle\n\n[3 matches limit")
    assert len(box.call("grep", pattern="needle", limit=100).text.split("\n")) == 100


def test_rules_from_above_the_folder_searched_apply(box: Box, walks: None) -> None:
    box.put(".git/HEAD", "")
    box.put(".gitignore", "/top/in/x\ntop/*/y\n**/in/z\nname\nother/in/w\n/top/**/v\n!w\n")
    for name in "wxyz":
        box.put(f"top/in/{name}", "needle")
    for name in ("name", "deep/name", "deep/x", "deep/v", "deep/w"):
        box.put(f"top/in/{name}", "needle")
    assert box.call("grep", pattern="needle", path="top/in").text == "deep/w:1: needle\ndeep/x:1: needle\nw:1: needle"


@pytest.mark.parametrize("rule", ["[[:space:]]x", "a[", "x\\", "[a\\]b]", "tab\t"])
def test_rules_that_ripgrep_reads_differently_are_not_given_to_it(rule: str) -> None:
    assert IgnoreFile(f"*.log\n{rule}\n").for_ripgrep((), ()) is None
    assert IgnoreFile("*.log\n").for_ripgrep((), ("new\nline",)) is None
    assert IgnoreFile("*.log\n").for_ripgrep((), ("caf\udce9",)) is None


def test_files_are_ignored_also_if_the_rules_are_not_given_to_ripgrep(
    box: Box, walks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.put(".gitignore", "[[:space:]]x\n*.log\n")
    box.put("a.log", "needle")
    box.put("b.txt", "needle")
    assert box.call("grep", pattern="needle").text == "b.txt:1: needle"


def test_names_that_ripgrep_should_not_have_printed_show_nothing(box: Box) -> None:
    """As if a folder, a file or ripgrep itself had been replaced during the search."""
    names = put_strange_files(box)
    printed = "".join(f"./{name}\\0" if name[0].isalpha() else f"{name}\\0" for name in names)
    put_lying_ripgrep(box, "--files-with-matches", printed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "WALKED_FIRST", 0)
        patch.setattr(ripgrep_walk, "SOON", 0)
        assert box.call("grep", pattern="needle").text == "fine:1: needle"


@pytest.mark.parametrize("lie", [{}, {"line_number": 2}, {"absolute_offset": 1}, {"lines": {"text": "needle inside\n"}}])
def test_lines_that_ripgrep_should_not_have_printed_are_not_shown(box: Box, walks: None, lie: dict[str, object]) -> None:
    printed: list[object] = []
    for name in put_strange_files(box):
        path = {"path": {"text": f"./{name}" if name[0].isalpha() else name}}
        text = "needle\n" if name == "fine" else "needle outside\n"
        match: dict[str, object] = {"lines": {"text": text}, "line_number": 1, "absolute_offset": 0, **lie}
        printed += [{"type": "begin", "data": path}, {"type": "match", "data": {**path, **match}}]
        printed += [{"type": "end", "data": {**path, "binary_offset": None}}]
    put_lying_ripgrep(box, "--sort=path", "".join(json.dumps(each).replace("\\", "\\\\") + "\\n" for each in printed))
    assert box.call("grep", pattern="needle").text == "fine:1: needle"


def put_strange_files(box: Box) -> list[str]:
    """Put a file, and things that only seem to be files of the folder searched. Return names for all of them."""
    outside = box.cwd.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("needle outside\n")
    box.put("fine", "needle\n")
    (box.cwd / "link").symlink_to(outside / "file")
    (box.cwd / "folder").symlink_to(outside)
    os.mkfifo(box.cwd / "pipe")
    return ["../outside/file", str(outside / "file"), "./.", "fine", "folder/file", "gone", "link", "pipe"]


def put_lying_ripgrep(box: Box, option: str, printed: str) -> None:
    """Let a program take the place of ripgrep that prints this if it gets an option."""
    programs = box.cwd.parent / "programs"
    programs.mkdir()
    real = Path(sys.executable).with_name("rg")
    lying = programs / "rg"
    lying.write_text(f'#!/bin/sh\ncase "$*" in *{option}*) printf \'{printed}\';; *) exec {real} "$@";; esac\n')
    lying.chmod(0o755)
    box.workspace.env = {"PATH": f"{programs}:{os.environ['PATH']}"}


class _Refusing:
    """A guard that refuses files with `secret` in their names."""

    def check_reading(self, path: Path, found: os.stat_result) -> None:
        raise AssertionError("only needed for single files")

    def readable(self, files: Sequence[tuple[str, os.stat_result]]) -> list[bool]:
        return ["secret" not in path for path, _ in files]

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        raise AssertionError("grep does not write")


@pytest.mark.parametrize("rule", ["*.log", "[[:space:]]x\n*.log"], ids=["rules for ripgrep", "other rules"])
def test_the_search_continues_after_unreadable_files(box: Box, walks: None, rule: str) -> None:
    box.workspace.guard = _Refusing()
    for name in ("a-secret", "b/c-secret", "d", "e/f.log", "e/g", "h"):
        box.put(name, "needle\n")
    box.put("e/.gitignore", rule)
    done = box.call("grep", pattern="needle", limit=1)
    assert done.text.startswith("d:1: needle\n\n[1 matches limit")
    assert box.call("grep", pattern="needle", limit=2).text.startswith("d:1: needle\ne/g:1: needle\n\n[2 matches")
    assert box.call("grep", pattern="needle", limit=3).text == "d:1: needle\ne/g:1: needle\nh:1: needle"
