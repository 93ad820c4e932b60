"""`--durability fsync`: what a host is told of is on the disk, not only on the way to it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.session_file import notes_path
from tests.support.session_host import kept, session_file
from tests.support.stage import HELD, Stage, bash, calls, stage

#: Python runs this when it starts. It notes each file that was sent to the disk, and how long the file was; while there is a
#: file `broken` beside it, the disk takes nothing.
SITECUSTOMIZE = """
import os
from pathlib import Path

notes = Path(__file__).parent
fsync = os.fsync

def watched(handle):
    if (notes / "broken").exists():
        raise OSError(5, "Input/output error")
    fsync(handle)
    with (notes / "synced").open("a") as file:
        file.write(f"{os.fstat(handle).st_ino} {os.fstat(handle).st_size}\\n")

os.fsync = watched
"""


class Disk:
    """What the agent sends to the disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
        self._broken = folder / "broken"
        self._notes = folder / "synced"
        self._notes.touch()
        self.env = {"PYTHONPATH": str(folder)}

    def synced(self, path: Path) -> list[int]:
        """The sizes that a file had when it was sent to the disk, also before it had its name."""
        notes = [line.split() for line in self._notes.read_text().splitlines()]
        return [int(size) for number, size in notes if int(number) == path.stat().st_ino]

    def is_untouched(self) -> bool:
        return not self._notes.stat().st_size

    @contextmanager
    def broken(self) -> Generator[None]:
        self._broken.touch()
        try:
            yield
        finally:
            self._broken.unlink()


@contextmanager
def watched(tmp_path: Path, *flags: str) -> Generator[tuple[Stage, Disk]]:
    """An agent that uses a tool and then stops in the middle of its answer, until it is released."""
    disk = Disk(tmp_path / "disk")
    with stage(tmp_path / "root", "pi", [calls(bash("echo hi")), HELD], flags=flags, env=disk.env) as host:
        yield host, disk


def test_with_fsync_entries_are_on_disk_before_their_events(tmp_path: Path) -> None:
    with watched(tmp_path, "--durability", "fsync") as (host, disk):
        path = session_file(host)
        host.request("steer", message="wait for it")
        assert len(disk.synced(path.parent)) == 2  # so that the names of both new files are there, too
        assert disk.synced(path) == [path.stat().st_size]
        assert disk.synced(notes_path(path)) == [notes_path(path).stat().st_size]
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.request("follow_up", message="more")
        assert disk.synced(path)[-1] == path.stat().st_size
        assert disk.synced(notes_path(path))[-1] == notes_path(path).stat().st_size
        host.provider.release()
        host.until("agent_settled")
        ends = [end for end, byte in enumerate(path.read_bytes(), 1) if byte == ord("\n")]
        # The first three lines came at once: the header, the model and the thinking level.
        assert disk.synced(path) == ends[2:]


def test_without_it_nothing_waits_for_the_disk(tmp_path: Path) -> None:
    with watched(tmp_path) as (host, disk):
        host.provider.release()
        host.prompt("go")
        assert len(kept(session_file(host)).messages) == 4
        assert disk.is_untouched()


def test_an_entry_that_the_disk_does_not_take_is_not_in_the_file(tmp_path: Path) -> None:
    with watched(tmp_path, "--durability", "fsync") as (host, disk):
        path = session_file(host)
        host.request("steer", message="wait for it")
        before = path.read_bytes()
        with disk.broken():
            answer = host.request("prompt", message="lost")
            assert answer["error"] == f"Cannot write session file {path}: Input/output error."
            assert path.read_bytes() == before
        host.provider.release()
        host.prompt("go")
        assert kept(path).user_texts() == ["go", "wait for it"]
