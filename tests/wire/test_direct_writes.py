"""A single frame that a host's pipe has room for is written at once. The others wait for the writer's thread, in order."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.wire.stdio import Writer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems always use the thread")


class Written:
    """Collects the progress of a writer's thread."""

    def __init__(self) -> None:
        self.count = 0
        self.broken = threading.Event()
        self._changed = threading.Condition()

    def progress(self, count: int) -> None:
        with self._changed:
            self.count += count
            self._changed.notify()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count == count, 10)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        if fd_is_open(fd):
            os.close(fd)


def fd_is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def started(fd: int) -> tuple[Writer, Written]:
    written = Written()
    writer = Writer(fd)
    writer.start(written.progress, written.broken.set)
    return writer, written


def test_a_frame_that_fits_is_there_as_soon_as_it_was_put(pipe: tuple[int, int]) -> None:
    writer, written = started(pipe[1])
    os.set_blocking(pipe[0], False)
    assert writer.put(b"one\n") == 4
    assert os.read(pipe[0], 100) == b"one\n"
    assert written.count == 0  # the thread wrote nothing


@pytest.mark.parametrize("size", [30_000, 100_000], ids=["a frame fits", "no frame fits"])
def test_frames_that_do_not_fit_arrive_whole_and_in_order_without_blocking(pipe: tuple[int, int], size: int) -> None:
    writer, written = started(pipe[1])
    frames = [b"%d %s\n" % (number, b"x" * size) for number in range(20)]
    at_once = [writer.put(frame) for frame in frames]  # far more than a pipe holds, and no reader yet
    assert at_once[0] == min(len(frames[0]), 1 << 16) and not any(at_once[1:])
    data = b""
    while len(data) < sum(map(len, frames)):
        data += os.read(pipe[0], 1 << 16)
    assert data == b"".join(frames)
    written.wait_for(len(data) - at_once[0])


def test_frames_that_come_together_are_left_to_the_thread(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    written = Written()
    writer = Writer(pipe[1])  # its thread has not started
    os.set_blocking(pipe[0], False)
    writer.put(b"one\n")
    now += 0.001
    writer.put(b"two\n")
    assert os.read(pipe[0], 100) == b"one\n"
    writer.start(written.progress, written.broken.set)
    os.set_blocking(pipe[0], True)
    assert os.read(pipe[0], 100) == b"two\n"


def test_a_pipe_stays_blocking_for_the_processes_that_share_it(pipe: tuple[int, int]) -> None:
    writer, _ = started(pipe[1])
    writer.put(b"one\n")
    assert os.get_blocking(pipe[1])


def test_a_host_that_is_gone_is_noticed(pipe: tuple[int, int]) -> None:
    writer, written = started(pipe[1])
    os.close(pipe[0])
    writer.put(b"one\n")
    assert written.broken.wait(10)
    assert written.count == 0


def test_a_file_gets_its_frames_from_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "frames"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    done = threading.Event()
    writer = Writer(fd)
    writer.start(lambda _: done.set(), lambda: None)
    writer.put(b"one\n")
    assert done.wait(10)
    assert path.read_bytes() == b"one\n"
    os.close(fd)
