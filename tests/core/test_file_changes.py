"""The diff of a file change."""

from __future__ import annotations

import difflib
import random
import subprocess
from pathlib import Path

import pytest

from fairlead.core.approval import LONGEST_DIFF, FileChange


def test_a_diff_shows_the_lines_that_change_and_some_around_them() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 21))
    new = old.replace("line 5\n", "five\n").replace("line 18\n", "")
    assert FileChange("/w/a", old, new).diff() == (
        "--- /w/a\n+++ /w/a\n"
        "@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n line 6\n line 7\n line 8\n"
        "@@ -15,6 +15,5 @@\n line 15\n line 16\n line 17\n-line 18\n line 19\n line 20\n"
    )


def test_a_new_file_has_a_diff_against_nothing() -> None:
    assert FileChange("/w/a", None, "x\ny").diff() == (
        "--- /dev/null\n+++ /w/a\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
    )


def test_diffs_are_what_patch_makes_the_new_text_from(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(40):
        old = [f"{chance.randrange(6)}\n" for _ in range(chance.randrange(1, 40))]
        new = list(old)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(new) + 1)
            new[at : at + chance.randrange(3)] = [f"new {chance.randrange(9)}\n"] * chance.randrange(3)
        if new == old:
            continue
        change = FileChange("file", "".join(old), "".join(new))
        assert sum(map(len, difflib.unified_diff(old, new))) > 0
        file = tmp_path / "file"
        file.write_text("".join(old))
        subprocess.run(["git", "apply", "--unidiff-zero", "-p0"], input=change.diff(), text=True, cwd=tmp_path, check=True)
        assert file.read_text() == "".join(new)


@pytest.mark.parametrize("lines", [8_000, 200_000])
def test_a_large_diff_is_cut_at_a_line_and_says_so(lines: int) -> None:
    old, new = ("".join(f"{side} {n}\n" for n in range(lines)) for side in ("old", "new"))
    diff = FileChange("a", old, new).diff()
    *kept, last = diff.splitlines()
    assert len(diff) < LONGEST_DIFF + 200 and all(line[0] in "-+@ " for line in kept)
    assert last.startswith("\\ The rest of the diff is left out (")
