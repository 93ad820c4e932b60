"""Work in threads: told to stop, and changes of one file in order."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.tools import background
from fairlead.tools.background import Stop, change_in_order, in_thread, split_lines
from fairlead.tools.files import edit as diff
from fairlead.tools.files.edit import TextReplacement, describe
from fairlead.tools.files.matching import Haystack
from fairlead.tools.files.targets import Target
from fairlead.tools.search.walk import walk

LIMIT = 10.0


class Held:
    """Work that begins, commits itself if told so, and goes on when it is let."""

    def __init__(self, *, commits: bool) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.ended = threading.Event()
        self.stopped = False
        self._commits = commits

    def __call__(self, stop: Stop) -> str:
        try:
            if self._commits:
                stop.commit()
            self.begun.set()
            assert self.let_go.wait(LIMIT)
            stop.check()
            return "changed"
        except ToolError:
            self.stopped = True
            raise
        finally:
            self.ended.set()


class StopAfter(Stop):
    """Stops the work when it has looked `checks` times."""

    def __init__(self, checks: int) -> None:
        super().__init__()
        self.looks = 0
        self._allowed = checks

    def check(self) -> None:
        self.looks += 1
        if self.looks > self._allowed:
            raise ToolError("Operation aborted")


async def happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, LIMIT)


async def test_a_change_cancelled_before_its_commit_is_asked_to_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    work = Held(commits=False)
    call = asyncio.create_task(change_in_order(Target(tmp_path / "f", tmp_path / "f"), CancelToken(), work))
    await happened(work.begun)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call  # at once, though the thread is still held
    work.let_go.set()
    await happened(work.ended)
    gc.collect()
    assert work.stopped
    assert caplog.records == []  # asyncio logs errors that nobody asked for


@pytest.mark.parametrize("how", ["abort", "cut off"])
async def test_a_change_that_is_stopped_after_it_committed_reports_its_result(tmp_path: Path, how: str) -> None:
    work = Held(commits=True)
    cancel = CancelToken()
    call = asyncio.create_task(change_in_order(Target(tmp_path / "f", tmp_path / "f"), cancel, work))
    await happened(work.begun)
    if how == "abort":
        cancel.fire()
    else:
        call.cancel()
    await asyncio.sleep(0)
    work.let_go.set()
    assert await call == "changed"


async def test_a_change_that_hangs_after_it_committed_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_SETTLING", 0.01)
    work = Held(commits=True)
    call = asyncio.create_task(change_in_order(Target(tmp_path / "f", tmp_path / "f"), CancelToken(), work))
    await happened(work.begun)
    call.cancel()
    try:
        with pytest.raises(ToolError, match="may have changed"):
            await call
    finally:
        work.let_go.set()


async def test_a_change_in_the_queue_is_aborted_without_waiting_and_keeps_the_order(tmp_path: Path) -> None:
    first, third = Held(commits=False), Held(commits=True)
    cancel = CancelToken()
    ran: list[str] = []
    path = tmp_path / "f"
    before = asyncio.create_task(change_in_order(Target(path, path), CancelToken(), first))
    await happened(first.begun)
    waiting = asyncio.create_task(change_in_order(Target(path, path), cancel, lambda _: ran.append("second")))
    after = asyncio.create_task(change_in_order(Target(path, path), CancelToken(), third))
    await asyncio.sleep(0)
    cancel.fire()
    with pytest.raises(ToolError, match="Operation aborted"):
        await asyncio.wait_for(waiting, LIMIT)
    assert not third.begun.is_set()
    first.let_go.set()
    third.let_go.set()
    assert await asyncio.gather(before, after) == ["changed", "changed"]
    assert ran == []


async def test_a_cancelled_read_is_asked_to_stop() -> None:
    work = Held(commits=False)
    call = asyncio.create_task(in_thread(CancelToken(), work))
    await happened(work.begun)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    work.let_go.set()
    await happened(work.ended)
    assert work.stopped


def test_a_request_to_stop_comes_too_late_after_the_commit() -> None:
    late, early = Stop(), Stop()
    late.commit()
    late.ask()
    late.check()
    early.ask()
    with pytest.raises(ToolError):
        early.commit()
    assert (late.asked, early.committed) == (False, False)


LINES = "".join(f"line {i}\r\n" for i in range(1000))


WORK: dict[str, tuple[Callable[[Stop], object], int]] = {
    "line ends": (lambda stop: Haystack(LINES, stop), 1),
    "counting": (lambda stop: Haystack(LINES.replace("\r", ""), stop).find("\n"), 1),
    "near misses": (lambda stop: Haystack(LINES.replace("\r", ""), stop).find("not \u2014 there"), 3),
    "describing": (lambda stop: describe(LINES, [TextReplacement(0, 4, "Line")], "f", stop), 2),
}


@pytest.mark.parametrize(("work", "passes"), WORK.values(), ids=WORK)
def test_matching_and_describing_look_at_every_line_whether_to_stop(work: Callable[[Stop], object], passes: int) -> None:
    with pytest.raises(ToolError, match="Operation aborted"):
        work(StopAfter(passes * 1000 - 10))


def test_comparing_lines_that_repeat_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "a\n" * 100, "b\na\n" * 50
    change = [TextReplacement(0, len(old), new)]
    uncompared = StopAfter(10_000)
    with monkeypatch.context() as patch:
        patch.setattr(diff, "_COMPARED", 0)
        describe(old, change, "f", uncompared)
    with pytest.raises(ToolError, match="Operation aborted"):
        describe(old, change, "f", StopAfter(uncompared.looks + 20))


def test_a_folder_full_of_ignored_files_can_be_left_early(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.o\n")
    for i in range(60):
        (tmp_path / f"{i}.o").touch()
    listing = 61
    with pytest.raises(ToolError, match="Operation aborted"):
        list(walk(tmp_path, Path("/"), StopAfter(listing + 30)))


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\nb", "\n\na\n\n", "x" * 3_000_000, "ab\n" * 900_000, "\n" * 1_048_578])
def test_lines_are_split_as_a_single_split_would(text: str) -> None:
    assert split_lines(text, Stop()) == text.split("\n")
