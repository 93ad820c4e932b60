"""grep under Opal's name: sections of tagged lines that edit_file takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.opal.opal_desk import Desk

from fairlead.tools.opal.anchors import tag_line


@pytest.fixture(params=["rg", "python"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Both ways to search: with the ripgrep that is installed beside Python, and without any."""
    desk = Desk(tmp_path)
    if request.param == "rg":
        if not Path(sys.executable).with_name("rg").exists():
            pytest.skip("ripgrep is not installed beside this Python")
        return desk
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    desk.workspace.env = {**os.environ, "PATH": str(tmp_path / "bin")}
    return desk


def test_lines_come_file_by_file_with_their_anchors_and_some_around_them(desk: Desk) -> None:
    desk.put("a.txt", "".join(f"line {n}\n" for n in range(1, 10)) + "needle\nlast\n")
    desk.put("sub/b.txt", "needle one\r\nx\r\ny\r\nz\r\nneedle two\r\n")
    found = desk.text("grep", pattern="needle", context_lines=1)
    assert found == "\n".join(
        [
            "## a.txt",
            tag_line(9, "line 9"),
            tag_line(10, "needle"),
            tag_line(11, "last"),
            "",
            "## sub/b.txt",
            tag_line(1, "needle one"),
            tag_line(2, "x"),
            "---",
            tag_line(4, "z"),
            tag_line(5, "needle two"),
            "",
            "[3 matches found]",
        ]
    )


def test_an_anchor_found_by_grep_is_good_for_an_edit_however_long_the_line(desk: Desk) -> None:
    line = "needle " + "x" * 2000 + " end"
    path = desk.put("a.txt", f"\ufeffneedle\n{line}\n")
    first, second = desk.text("grep", pattern="needle", path="a.txt").split("\n")[1:3]
    assert second.endswith("... [truncated]") and len(second) < 600
    assert desk.call("edit_file", path="a.txt", start=second.partition("|")[0], new_string="short")["ok"]
    assert desk.call("edit_file", path="a.txt", start=first.partition("|")[0], new_string="first")["ok"]
    assert path.read_text() == "\ufefffirst\nshort\n"


def test_gitignored_files_are_searched_only_on_request(desk: Desk) -> None:
    desk.put(".gitignore", "hidden.txt\n")
    desk.put("hidden.txt", "needle\n")
    desk.put("shown.txt", "needle\n")
    assert "hidden.txt" not in desk.text("grep", pattern="needle")
    assert "## hidden.txt" in desk.text("grep", pattern="needle", no_ignore=True)


def test_only_files_whose_names_fit_are_searched(desk: Desk) -> None:
    for name in ("a.py", "sub/b.ts", "c.txt"):
        desk.put(name, "needle\n")
    found = desk.text("grep", pattern="needle", include="*.{py,ts}")
    assert [line for line in found.split("\n") if line.startswith("## ")] == ["## a.py", "## sub/b.ts"]


def test_no_more_than_max_results_are_shown(desk: Desk) -> None:
    desk.put("a.txt", "needle\n" * 3)
    desk.put("b.txt", "needle\n" * 3)
    found = desk.text("grep", pattern="needle", max_results=4, context_lines=0)
    assert found.count("|needle") == 4
    assert found.endswith("[Showing 4 matches, and there are more. Refine pattern or path, or raise max_results]")
    assert desk.text("grep", pattern="needle", max_results=6, context_lines=0).endswith("[6 matches found]")
    assert desk.text("grep", pattern="needle", max_results=3, context_lines=0).count("## ") == 1


def test_limits_beyond_the_possible_are_brought_back(desk: Desk) -> None:
    desk.put("a.txt", "x\n" * 20 + "needle\n" * 600)
    found = desk.text("grep", pattern="needle", max_results=10_000, context_lines=99)
    assert found.endswith("[Showing 500 matches, and there are more. Refine pattern or path, or raise max_results]")
    assert found.count("|x") == 10


def test_no_matches_and_invalid_patterns_are_reported(desk: Desk) -> None:
    desk.put("a.txt", "x\n")
    assert desk.text("grep", pattern="needle") == "No matches found."
    assert desk.error("grep", pattern="(").startswith("The pattern cannot be used.")
