"""grep: the same answers with ripgrep and without."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest
from tests.tools.box import Box

from fairlead.core.runtime import CancelToken
from fairlead.tools.search import searchers

pytestmark = pytest.mark.usefixtures("engine")


def test_matches_come_with_file_and_line(box: Box) -> None:
    box.put("src/x.py", "import os\nprint('needle')\n")
    box.put("a.txt", "needle one\nnothing\nneedle two")
    done = box.call("grep", pattern="needle")
    assert done.text == "a.txt:1: needle one\na.txt:3: needle two\nsrc/x.py:2: print('needle')"
    assert (done.details, done.is_error) == (None, False)


def test_no_matches_are_reported(box: Box) -> None:
    box.put("a.txt", "x")
    done = box.call("grep", pattern="zzz")
    assert (done.text, done.details, done.is_error) == ("No matches found", None, False)


def test_patterns_are_regular_expressions_unless_literal(box: Box) -> None:
    box.put("a.txt", "a.c\nabc\nABC\n")
    assert box.call("grep", pattern="^a.c$").text == "a.txt:1: a.c\na.txt:2: abc"
    assert box.call("grep", pattern="a.c", literal=True).text == "a.txt:1: a.c"
    assert box.call("grep", pattern="ab", ignoreCase=True).text == "a.txt:2: abc\na.txt:3: ABC"
    assert box.call("grep", pattern="-c", literal=True).text == "No matches found"


def test_context_lines_are_marked(box: Box) -> None:
    box.put("a.txt", "".join(f"{i}\n" for i in range(1, 11)))
    assert box.call("grep", pattern="^(3|5|9)$", context=1).text.split("\n") == [
        "a.txt-2- 2",
        "a.txt:3: 3",
        "a.txt-4- 4",
        "a.txt:5: 5",
        "a.txt-6- 6",
        "a.txt-8- 8",
        "a.txt:9: 9",
        "a.txt-10- 10",
    ]


def test_a_path_narrows_the_search(box: Box) -> None:
    box.put("src/x.py", "needle\n")
    box.put("other/y.py", "needle\n")
    assert box.call("grep", pattern="needle", path="src").text == "x.py:1: needle"
    assert box.call("grep", pattern="needle", path="src/x.py").text == "x.py:1: needle"
    done = box.call("grep", pattern="needle", path="nodir")
    assert (done.text, done.is_error) == (f"Path not found: {box.cwd}/nodir", True)


def test_a_glob_chooses_files(box: Box) -> None:
    for name in ("a.py", "b.ts", "src/c.py", "src/deep/d.ts", "src/deep/e.test.ts"):
        box.put(name, "needle\n")

    def files(glob: str) -> list[str]:
        return [line.partition(":")[0] for line in box.call("grep", pattern="needle", glob=glob).text.split("\n")]

    assert files("*.py") == ["a.py", "src/c.py"]
    assert files("src/**/*.ts") == ["src/deep/d.ts", "src/deep/e.test.ts"]
    assert files("*.{py,test.ts}") == ["a.py", "src/c.py", "src/deep/e.test.ts"]
    assert files("!*.ts") == ["a.py", "src/c.py"]


def test_ignored_and_binary_files_are_skipped_and_hidden_ones_are_not(box: Box) -> None:
    box.put(".gitignore", "*.log\nbuild/\n!keep.log\n")
    box.put(".git/config", "needle\n")
    for name in ("a.log", "keep.log", "build/out.txt", ".hidden", "sub/b.log", "c.txt"):
        box.put(name, "needle\n")
    box.put("binary", b"needle\n\0\n")
    assert box.call("grep", pattern="needle").text.split("\n") == [".hidden:1: needle", "c.txt:1: needle", "keep.log:1: needle"]
    assert box.call("grep", pattern="needle", path="build").text == "out.txt:1: needle"


def test_a_gitignore_that_is_not_a_regular_file_is_not_read(box: Box) -> None:
    box.put("a.txt", "needle")
    pipe = box.cwd / ".gitignore"
    os.mkfifo(pipe)
    # Whoever reads the pipe is told to ignore the file, and does not wait for ever.
    writing = threading.Thread(target=pipe.write_text, args=("*.txt\n",))
    writing.start()
    try:
        assert box.call("grep", pattern="needle").text == "a.txt:1: needle"
    finally:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writing.join()
        os.close(reader)


def test_the_limit_is_named_when_there_is_more(box: Box) -> None:
    box.put("a.txt", "needle\n" * 60)
    box.put("b.txt", "needle\n" * 60)
    done = box.call("grep", pattern="needle")
    assert done.text.count("needle") == 100
    assert done.text.endswith("b.txt:40: needle\n\n[100 matches limit reached. Use limit=200 for more, or refine pattern]")
    assert done.details == {"matchLimitReached": 100}
    assert box.call("grep", pattern="needle", limit=120).details is None


def test_the_limit_counts_matches_and_keeps_their_context(box: Box) -> None:
    box.put("a.txt", "needle\nx\ny\nz\nneedle\n")
    assert box.call("grep", pattern="needle", context=1, limit=1).text.startswith("a.txt:1: needle\na.txt-2- x\n\n[1 matches")


def test_long_lines_are_cut(box: Box) -> None:
    box.put("a.txt", "needle" + "x" * 10_000)
    done = box.call("grep", pattern="needle")
    assert done.text.startswith("a.txt:1: needle" + "x" * 494 + "... [truncated]\n\n[Some lines truncated to 500 chars.")
    assert done.details == {"linesTruncated": True}


def test_long_results_are_cut(box: Box) -> None:
    box.put("a.txt", ("needle" + "x" * 400 + "\n") * 300)
    done = box.call("grep", pattern="needle", limit=300)
    assert done.text.endswith("[50.0KB limit reached]")
    assert done.details["truncation"]["truncatedBy"] == "bytes"
    assert done.details["truncation"]["totalLines"] == 300


def test_an_invalid_pattern_is_explained(box: Box) -> None:
    box.put("a.txt", "x")
    done = box.call("grep", pattern="(unclosed")
    assert done.is_error
    assert done.text.startswith("The pattern cannot be used. ")
    assert not box.call("grep", pattern="(unclosed", literal=True).is_error


def test_odd_contents_are_searched(box: Box) -> None:
    box.put("dos.txt", b"needle\r\n")
    box.put("latin.txt", b"caf\xe9 needle\n")
    box.put("utf16.txt", "needle\n".encode("utf-16"))
    assert box.call("grep", pattern="needle$").text.split("\n") == [
        "dos.txt:1: needle",
        "latin.txt:1: caf\ufffd needle",
        "utf16.txt:1: needle",
    ]


def test_the_end_after_the_last_newline_is_not_a_line(box: Box) -> None:
    box.put("a.txt", "needle\n")
    box.put("empty.txt", "")
    box.put("utf16.txt", "needle\n".encode("utf-16"))
    assert box.call("grep", pattern="needle", context=2).text == "a.txt:1: needle\nutf16.txt:1: needle"
    assert box.call("grep", pattern="^$").text == "No matches found"


def test_odd_names_are_found(box: Box) -> None:
    box.put("-e.txt", "needle\n")
    box.put("with space: 1", "needle\n")
    box.put(os.fsdecode(b"caf\xe9"), "needle\n")
    assert box.call("grep", pattern="needle").text == "-e.txt:1: needle\ncaf\ufffd:1: needle\nwith space: 1:1: needle"


def test_links_are_not_followed_and_loops_end(box: Box) -> None:
    box.put("real/a.txt", "needle\n")
    (box.cwd / "link").symlink_to("real")
    (box.cwd / "real/loop").symlink_to("..")
    (box.cwd / "fifo.txt").symlink_to("/dev/zero")
    assert box.call("grep", pattern="needle").text == "real/a.txt:1: needle"
    assert box.call("grep", pattern="needle", path="link").text == "a.txt:1: needle"


def test_many_files_are_searched_in_order(box: Box) -> None:
    for i in range(900):
        box.put(f"d{i % 30:02d}/f{i:03d}.txt", "needle\n")
    lines = box.call("grep", pattern="needle", limit=1000).text.split("\n")
    assert len(lines) == 900
    assert lines == sorted(lines)


async def test_abort_ends_the_search(box: Box, engine: str) -> None:
    box.put("a.txt", "a" * 50)
    cancel = CancelToken()
    begun = time.monotonic()
    running = asyncio.create_task(box.acall("grep", {"pattern": "(a|a)*b(a|a)*c"}, cancel))
    asyncio.get_running_loop().call_later(0.2, cancel.fire)
    done = await running
    assert time.monotonic() - begun < 5
    # ripgrep takes no time for this pattern and is done before; `re` would never be.
    assert done.text == ("No matches found" if engine == "rg" else "Operation aborted")


def test_a_search_that_could_not_take_place_is_not_one_without_matches(box: Box) -> None:
    programs = box.cwd.parent / "programs"
    programs.mkdir()
    broken = programs / "rg"
    broken.write_text("#!/bin/sh\necho there is no such program >&2\nexit 1\n")
    broken.chmod(0o755)
    box.workspace.env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    box.put("a.txt", "needle")
    done = box.call("grep", pattern="needle")
    assert done.is_error and done.text == "The search failed: there is no such program"


async def test_abort_in_the_middle_of_a_report_of_ripgreps_is_an_abort(box: Box) -> None:
    # A program that is killed while it writes leaves half a line.
    programs = box.cwd.parent / "programs"
    programs.mkdir()
    slow = programs / "rg"
    slow.write_text('#!/bin/sh\nprintf \'{"type":"beg\'\necho > "$FLAG"\nexec sleep 30\n')
    slow.chmod(0o755)
    flag = programs / "flag"
    os.mkfifo(flag)
    box.workspace.env = {"PATH": f"{programs}:{os.environ['PATH']}", "FLAG": str(flag)}
    box.put("a.txt", "needle")
    cancel = CancelToken()
    running = asyncio.create_task(box.acall("grep", {"pattern": "needle"}, cancel))
    await asyncio.to_thread(flag.read_text)
    cancel.fire()
    assert (await running).text == "Operation aborted"


def test_an_endless_pattern_is_stopped(box: Box, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searchers, "PYTHON_DEADLINE", 1.0)
    box.put("a.txt", "a" * 50)
    done = box.call("grep", pattern="(a|a)*b")
    if engine == "rg":
        assert done.text == "No matches found"
    else:
        assert done.text.startswith("The search was stopped after 1 seconds. Use a simpler pattern")
