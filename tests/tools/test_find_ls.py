"""find, ls, and the rules of .gitignore and globs behind them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.races import folder_or_link, repeating
from tests.tools.box import Box

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.search.globs import Glob, name_matcher
from fairlead.tools.search.walk import walk


def find(box: Box, pattern: str, **options: Any) -> list[str]:
    return box.call("find", pattern=pattern, **options).text.split("\n")


def test_names_match_at_any_depth_and_folders_are_marked(box: Box) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt", ".hidden/e.py"):
        box.put(name, "")
    assert find(box, "*.py") == [".hidden/e.py", "a.py", "src/b.py", "src/deep/c.py"]
    assert find(box, "src") == ["src/"]
    assert find(box, "*") == [".hidden/", ".hidden/e.py", "a.py", "src/", "src/b.py", "src/d.txt", "src/deep/", "src/deep/c.py"]


def test_paths_match_with_folders_between(box: Box) -> None:
    for name in ("src/a.ts", "src/x/y/b.ts", "pkg/src/c.ts", "d.ts"):
        box.put(name, "")
    assert find(box, "src/**/*.ts") == ["pkg/src/c.ts", "src/a.ts", "src/x/y/b.ts"]
    assert find(box, "/src/**/*.ts") == ["src/a.ts", "src/x/y/b.ts"]
    assert find(box, "**/b.ts") == ["src/x/y/b.ts"]
    assert find(box, "src/**", path="pkg") == ["src/c.ts"]


def test_no_matches_are_reported(box: Box) -> None:
    done = box.call("find", pattern="*.zig")
    assert (done.text, done.details, done.is_error) == ("No files found matching pattern", None, False)


def test_a_wrong_place_is_reported(box: Box) -> None:
    box.put("file", "")
    assert box.call("find", pattern="*", path="nodir").text == f"Path not found: {box.cwd}/nodir"
    assert box.call("find", pattern="*", path="file").text == f"Not a directory: {box.cwd}/file"


def test_the_limit_is_named_when_there_is_more(box: Box) -> None:
    for i in range(12):
        box.put(f"f{i:02d}", "")
    done = box.call("find", pattern="*", limit=10)
    assert done.text.endswith("f09\n\n[10 results limit reached. Use limit=20 for more, or refine pattern]")
    assert done.details == {"resultLimitReached": 10}
    assert box.call("find", pattern="*", limit=12).details is None


def test_links_are_listed_and_not_followed(box: Box) -> None:
    box.put("real/a", "")
    (box.cwd / "link").symlink_to("real")
    (box.cwd / "real/up").symlink_to("..")
    (box.cwd / "broken").symlink_to("nowhere")
    assert find(box, "*") == ["broken", "link", "real/", "real/a", "real/up"]


RULES = {
    ".gitignore": "\n".join(
        [
            "# a comment",
            "*.log",
            "!important.log",
            "/only-here",
            "cache/",
            "docs/*.html",
            "a/**/z",
            "deep/**",
            "**/anywhere",
            "name[0-9].txt",
            "sp\\ ace\\ ",
            "\\#hash",
            "\\!bang",
            "trailing   ",
            "q?.md",
        ]
    ),
    "sub/.gitignore": "!*.log\nlocal\n",
}
TREE = [
    "x.log",
    "important.log",
    "only-here",
    "sub/only-here",
    "cache/file",
    "sub/cache",
    "docs/i.html",
    "docs/x/i.html",
    "a/z",
    "a/b/c/z",
    "a/b/z2",
    "deep/down/file",
    "m/anywhere/file",
    "name1.txt",
    "namex.txt",
    "sp ace ",
    "#hash",
    "!bang",
    "trailing",
    "qa.md",
    "qab.md",
    "sub/y.log",
    "sub/local",
    "other/local",
    "keep.txt",
]


def listed(root: Path, cwd: Path) -> list[str]:
    return ["/".join(entry.parts) for entry in walk(root, cwd, Stop()) if entry.is_file]


@pytest.fixture
def tree(box: Box):
    for name, rules in RULES.items():
        box.put(name, rules)
    for name in TREE:
        box.put(name, "")
    return box.cwd


def test_gitignore_means_what_it_means_to_git(tree: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-per-directory=.gitignore"]
    expected = subprocess.run(command, cwd=tree, capture_output=True, check=True, text=True).stdout.split("\0")[:-1]
    assert sorted(listed(tree, tree)) == sorted(expected)
    assert "keep.txt" in expected
    assert "x.log" not in expected


def test_gitignore_means_what_it_means_to_ripgrep(tree: Path) -> None:
    program = Path(sys.executable).with_name("rg")
    if not program.exists():
        pytest.skip("ripgrep is not installed beside this Python")
    (tree / ".git").mkdir()
    command = [program, "--files", "--hidden", "--no-config", "--no-ignore-global", "--sort=path", "--glob=!.git", "-0"]
    expected = subprocess.run(command, cwd=tree, capture_output=True, check=True, text=True).stdout.split("\0")[:-1]
    assert listed(tree, tree) == expected


def test_gitignore_counts_outside_a_repository_too(tree: Path) -> None:
    assert "x.log" not in listed(tree, tree)
    assert listed(tree / "docs", tree) == ["x/i.html"]


def test_rules_reach_into_a_folder_from_the_repository_above(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".git" / "HEAD").touch()
    assert listed(tree / "docs", tree / "docs") == ["x/i.html"]


def test_rules_above_the_repository_do_not_count(box: Box) -> None:
    box.put(".gitignore", "*")
    box.put("repo/.git/HEAD", "")
    box.put("repo/a.txt", "")
    assert listed(box.cwd / "repo", box.cwd) == ["a.txt"]


def test_rules_above_the_working_directory_do_not_count_outside_a_repository(box: Box) -> None:
    box.put(".gitignore", "*")
    box.put("project/a.txt", "")
    assert listed(box.cwd / "project", box.cwd / "project") == ["a.txt"]


def test_a_repository_inside_has_its_own_rules(box: Box) -> None:
    box.put(".gitignore", "*.log")
    box.put("inner/.git/HEAD", "")
    box.put("inner/a.log", "")
    assert listed(box.cwd, box.cwd) == [".gitignore", "inner/a.log"]


GLOBS = [
    ("*.py", "a.py", True),
    ("*.py", "dir/a.py", True),
    ("*.py", "a.pyc", False),
    ("a?c", "abc", True),
    ("a?c", "ac", False),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[^a-c]x", "dx", True),
    ("[]]x", "]x", True),
    ("[x", "[x", True),
    ("a*b*c", "aXbYc", True),
    ("a*b*c", "aXcYb", False),
    ("*a*", "bab", True),
    ("**", "a/b/c", True),
    ("a/*", "a/b", True),
    ("a/*", "a/b/c", False),
    ("a/**", "a/b/c", True),
    ("a/**", "a", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a/**/b/**/c", "a/1/b/2/b/3/c", True),
    ("a/**/b/**/c", "a/1/c", False),
    ("{a,b}.{c,d}", "b.c", True),
    ("{a,b}.{c,d}", "c.c", False),
    ("\\*.py", "*.py", True),
    ("\\*.py", "a.py", False),
    ("./a", "a", True),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), GLOBS)
def test_globs(pattern: str, path: str, expected: bool) -> None:
    assert Glob(pattern).matches(path.split("/")) is expected


def test_no_glob_takes_long() -> None:
    begun = time.perf_counter()
    assert not name_matcher("*a" * 40 + "b")("a" * 250)
    assert not Glob("**/a/" * 40 + "b").matches(["a"] * 250)
    assert time.perf_counter() - begun < 2


def test_too_many_braces_are_refused(box: Box) -> None:
    assert "stand for more than 256 patterns" in box.call("find", pattern="{a,b}" * 20).text


def test_an_unusable_class_is_refused(box: Box) -> None:
    assert "is not a usable glob pattern" in box.call("find", pattern="[z-a]").text


def test_a_walk_ends_when_it_is_asked_to_stop(box: Box) -> None:
    for name in "ab":
        box.put(name, "")
    stop = Stop()
    entries = walk(box.cwd, box.cwd, stop)
    assert next(entries).parts == ("a",)
    stop.ask()
    with pytest.raises(ToolError, match="Operation aborted"):
        next(entries)


async def test_find_does_not_begin_after_an_abort(box: Box) -> None:
    cancel = CancelToken()
    cancel.fire()
    assert (await box.acall("find", {"pattern": "*"}, cancel)).text == "Operation aborted"


def test_ls_sorts_without_case_and_marks_folders(box: Box) -> None:
    for name in ("b.txt", "A.txt", ".hidden", "dir/x"):
        box.put(name, "")
    (box.cwd / "link").symlink_to("dir")
    (box.cwd / "loop").symlink_to("loop")
    done = box.call("ls")
    assert (done.text, done.details) == (".hidden\nA.txt\nb.txt\ndir/\nlink/\nloop", None)
    assert box.call("ls", path="dir").text == "x"


def test_ls_of_nothing(box: Box) -> None:
    assert box.call("ls").text == "(empty directory)"
    box.put("file", "")
    assert box.call("ls", path="nodir").text == f"Path not found: {box.cwd}/nodir"
    assert box.call("ls", path="file").text == f"Not a directory: {box.cwd}/file"


def test_ls_names_its_limit(box: Box) -> None:
    for i in range(12):
        box.put(f"f{i:02d}", "")
    done = box.call("ls", limit=10)
    assert done.text.endswith("f09\n\n[10 entries limit reached. Use limit=20 for more]")
    assert done.details == {"entryLimitReached": 10}


def test_ls_shows_names_that_are_not_unicode(box: Box) -> None:
    box.put(os.fsdecode(b"caf\xe9"), "")
    assert box.call("ls").text == "caf\ufffd"


def test_ls_cuts_long_listings(box: Box) -> None:
    for i in range(400):
        box.put(f"{i:03d}" + "x" * 200, "")
    done = box.call("ls")
    assert done.text.endswith("[50.0KB limit reached]")
    assert done.details["truncation"]["totalLines"] == 400


@pytest.mark.parametrize("tool", ["find", "grep"])
def test_a_folder_that_becomes_a_link_meanwhile_is_not_entered(box: Box, tool: str) -> None:
    """The folder that is named stays what it is; one in it is a link to somewhere else now and then."""
    outside = box.cwd.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret needle")
    for number in range(5):
        box.put(f"top/a{number}/b/file", "needle")
    pattern = {"find": "*", "grep": "needle"}[tool]
    with repeating(folder_or_link(box.cwd / "top/a3/b", outside)):
        said = [box.call(tool, pattern=pattern, path="top").text for _ in range(100)]
    assert not [text for text in said if "secret" in text]
    assert any("file" in text for text in said)


def test_folders_deeper_than_files_can_be_open_are_walked(box: Box) -> None:
    deep = "/".join(["d"] * 300)
    box.put(f"{deep}/file", "needle")
    assert find(box, "file") == [f"{deep}/file"]
    assert box.call("grep", pattern="needle").text == f"{deep}/file:1: needle"
