"""write: all of it or nothing, wherever it may be written."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.box import Box

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.files.targets import Target
from fairlead.tools.files.write import replace_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_gets_its_folders_and_the_usual_mode(box: Box) -> None:
    done = box.call("write", path="deep/er/a.txt", content="alpha\nbeta\ngamma\n")
    assert (done.text, done.details) == ("Successfully wrote 17 bytes to deep/er/a.txt", None)
    path = box.cwd / "deep/er/a.txt"
    assert path.read_bytes() == b"alpha\nbeta\ngamma\n"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_bytes_are_counted_not_characters(box: Box) -> None:
    assert box.call("write", path="a", content="é\r\n").text == "Successfully wrote 4 bytes to a"
    assert (box.cwd / "a").read_bytes() == "é\r\n".encode()


def test_text_that_cannot_be_encoded_becomes_readable(box: Box) -> None:
    assert not box.call("write", path="a", content="x\ud800y").is_error
    assert (box.cwd / "a").read_text() == "x\ufffdy"


def test_replacing_keeps_the_mode_and_leaves_nothing_behind(box: Box) -> None:
    path = box.put("run.sh", "old")
    path.chmod(0o751)
    box.call("write", path="run.sh", content="new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert names(box.cwd) == ["run.sh"]


def test_links_are_written_through(box: Box) -> None:
    target = box.put("real/target", "old")
    (box.cwd / "link").symlink_to("real/target")
    (box.cwd / "dangling").symlink_to("real/new")
    box.call("write", path="link", content="new")
    box.call("write", path="dangling", content="made")
    assert (box.cwd / "link").is_symlink()
    assert target.read_text() == "new"
    assert (box.cwd / "real/new").read_text() == "made"


def test_hard_links_stay_linked(box: Box) -> None:
    one = box.put("one", "old and longer")
    (box.cwd / "two").hardlink_to(one)
    box.call("write", path="two", content="new")
    assert one.read_text() == "new"


def test_a_reader_sees_the_old_or_the_new_file(box: Box) -> None:
    path = box.put("a", "old")
    with path.open() as reader:
        box.call("write", path="a", content="new")
        assert reader.read() == "old"


def test_impossible_places_are_prompt_clear_errors(box: Box) -> None:
    (box.cwd / "loop").symlink_to("loop")
    assert box.call("write", path="/dev/null/x", content="z").text == "ENOTDIR: not a directory, mkdir '/dev/null'"
    assert box.call("write", path="/dev/null/x/y", content="z").text == "ENOTDIR: not a directory, mkdir '/dev/null/x'"
    assert box.call("write", path="/proc/nope/x", content="z").text == "ENOENT: no such file or directory, mkdir '/proc/nope'"
    assert box.call("write", path=".", content="z").text.startswith("EISDIR: is a directory")
    assert box.call("write", path="loop", content="z").text.startswith("ELOOP: ")
    assert box.call("write", path="n" * 300, content="z").text.startswith("ENAMETOOLONG: ")


def test_special_files_are_refused(box: Box) -> None:
    os.mkfifo(box.cwd / "fifo")
    done = box.call("write", path="fifo", content="z")
    assert "is a named pipe, not a regular file" in done.text
    assert stat.S_ISFIFO((box.cwd / "fifo").stat().st_mode)
    assert "is a device" in box.call("write", path="/dev/null", content="z").text


def test_a_full_disk_leaves_the_old_file(box: Box) -> None:
    box.put("inner/a.txt", "precious")
    script = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from box import Box
from pathlib import Path
box = Box(Path({str(box.cwd / "unused")!r}), Path({str(box.cwd / "logs")!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
done = box.call("write", path={str(box.cwd / "inner/a.txt")!r}, content="x" * 5000)
assert done.is_error
assert done.text.startswith("EFBIG: file too large, write "), done.text
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert (box.cwd / "inner/a.txt").read_text() == "precious"
    assert names(box.cwd / "inner") == ["a.txt"]


async def test_writes_and_edits_of_one_file_happen_in_the_order_asked(box: Box) -> None:
    (box.cwd / "alias").symlink_to("a.txt")
    calls = [box.acall("write", {"path": "a.txt", "content": "0"})]
    for i in range(30):
        path = "alias" if i % 2 else "a.txt"
        calls.append(box.acall("edit", {"path": path, "edits": [{"oldText": f"{i}", "newText": f"{i + 1}"}]}))
    assert [done.text for done in await asyncio.gather(*calls) if done.is_error] == []
    assert (box.cwd / "a.txt").read_text() == "30"


async def test_a_write_that_is_cut_off_while_waiting_does_not_stop_the_next(box: Box) -> None:
    first = asyncio.create_task(box.acall("write", {"path": "a", "content": "1" * 50_000_000}))
    second = asyncio.create_task(box.acall("write", {"path": "a", "content": "2"}))
    third = asyncio.create_task(box.acall("write", {"path": "a", "content": "3"}))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert second.cancelled()
    assert (box.cwd / "a").read_text() == "3"


async def test_an_aborted_write_does_nothing(box: Box) -> None:
    cancel = CancelToken()
    cancel.fire()
    assert (await box.acall("write", {"path": "a", "content": "x"}, cancel)).text == "Operation aborted"
    assert names(box.cwd) == []


@pytest.mark.parametrize("linked", [False, True], ids=["replaced", "overwritten"])
def test_a_write_that_is_stopped_before_the_file_changes_leaves_nothing(box: Box, linked: bool) -> None:
    path = box.put("a", "old")
    if linked:
        (box.cwd / "b").hardlink_to(path)
    stop = Stop()
    with pytest.raises(ToolError, match="Operation aborted"):
        replace_file(Target(path, path), b"new", None, stop, before_replacing=stop.ask)
    assert path.read_text() == "old"
    assert names(box.cwd) == (["a", "b"] if linked else ["a"])


@pytest.mark.parametrize("linked", [False, True], ids=["replaced", "overwritten"])
def test_a_write_cannot_be_stopped_once_the_file_changes(box: Box, linked: bool) -> None:
    path = box.put("a", "old")
    if linked:
        (box.cwd / "b").hardlink_to(path)
    stop = Stop()
    replace_file(Target(path, path), b"new", None, stop)
    assert stop.committed


def test_a_write_that_is_stopped_while_it_writes_leaves_nothing(box: Box) -> None:
    stop = Stop()
    stop.ask()
    reached: list[str] = []
    with pytest.raises(ToolError, match="Operation aborted"):
        replace_file(Target(box.cwd / "a", box.cwd / "a"), b"new", None, stop, before_replacing=lambda: reached.append("the end"))
    assert (names(box.cwd), reached) == ([], [])


@pytest.mark.parametrize("path", ["a.txt", "deep/er/a.txt", "{cwd}/a.txt", "{link}/a.txt"])
def test_a_deleted_working_directory_is_not_made_again(box: Box, path: str) -> None:
    link = box.cwd.parent / "link"
    link.symlink_to(box.cwd)
    box.cwd.rmdir()
    done = box.call("write", path=path.format(cwd=box.cwd, link=link), content="x")
    assert done.text == f"The working directory {box.cwd} does not exist, so nothing can be written in it."
    assert done.is_error
    assert not box.cwd.exists()


def test_other_places_can_be_written_to_without_a_working_directory(box: Box) -> None:
    box.cwd.rmdir()
    assert not box.call("write", path="../else/where/a", content="x").is_error
    assert (box.cwd.parent / "else/where/a").read_text() == "x"
