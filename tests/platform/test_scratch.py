"""The private folder for scratch files, and what is done about those of processes that were killed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.platform.scratch import Scratch, remove_leftovers


def test_the_scratch_folder_is_private_and_made_once() -> None:
    scratch = Scratch()
    folder = scratch.path()
    try:
        assert scratch.path() == folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        scratch.remove()
    assert not folder.exists()


def test_threads_that_ask_at_the_same_time_get_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(20):
        scratch, start = Scratch(), threading.Barrier(4)

        def ask(scratch: Scratch = scratch, start: threading.Barrier = start) -> None:
            start.wait()
            scratch.path()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [scratch.path()] == list(tmp_path.iterdir())
        scratch.remove()


@pytest.mark.skipif(os.name == "nt", reason="only `tempfile` finds the directory there")
def test_the_temporary_directory_is_not_tried_out_with_a_file_that_could_be_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    changed = tmp_path.stat().st_mtime_ns
    remove_leftovers()
    assert tmp_path.stat().st_mtime_ns == changed, "a file was made and removed"
    scratch = Scratch()
    assert scratch.path().parent == tmp_path
    scratch.remove()


def test_a_scratch_folder_deleted_by_another_program_is_ignored_at_the_end() -> None:
    scratch = Scratch()
    log = scratch.path() / "log"
    scratch.keep(log)
    shutil.rmtree(scratch.path())
    scratch.remove()


def test_a_named_file_outlives_the_scratch_folder_and_the_others_do_not() -> None:
    scratch = Scratch()
    folder = scratch.path()
    kept, dropped, deeper = folder / "kept.log", folder / "dropped.log", folder / "more" / "x.log"
    deeper.parent.mkdir()
    for file in (kept, dropped, deeper):
        file.write_text("output")
    scratch.keep(kept)
    scratch.remove()
    assert [path.name for path in folder.iterdir()] == ["kept.log"]
    kept.unlink()
    folder.rmdir()


def test_removing_a_scratch_folder_that_was_never_used_does_nothing() -> None:
    Scratch().remove()


def test_the_scratch_folder_goes_when_the_process_ends(tmp_path: Path) -> None:
    script = "from fairlead.platform.scratch import Scratch; s = Scratch(); (s.path() / 'log').write_text('x'); print(s.path())"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    folder = Path(result.stdout.strip())
    assert folder.parent == tmp_path
    assert not folder.exists()


HOLD = """
import sys
from fairlead.platform.scratch import Scratch
scratch = Scratch()
log = scratch.path() / "tmp" / "log"
log.parent.mkdir()
log.write_text("x")
scratch.keep(log)
print(scratch.path(), flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(tmp_path: Path) -> Generator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a scratch folder with a file of which its host was told."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        yield process, Path(process.stdout.readline().strip())
        process.stdin.close()


def test_the_folder_of_a_process_that_was_killed_is_removed_and_that_of_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = Scratch()
    with another_process(tmp_path) as (killed, gone), another_process(tmp_path) as (_, stays):
        remove_leftovers()
        assert gone.exists() and stays.exists() and own.path().exists()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        remove_leftovers()
        assert not gone.exists()
        assert (stays / "tmp" / "log").exists() and own.path().exists()
    own.remove()


def test_nothing_else_in_the_temporary_directory_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    (precious / ".lock").touch()
    (tmp_path / "tmp" / "fairlead-link").symlink_to(precious)  # leads out
    unlocked = tmp_path / "tmp" / "fairlead-mine"  # has a name like ours, but nothing says that it is
    unlocked.mkdir(mode=0o700)
    (unlocked / "file").touch()
    shared = tmp_path / "tmp" / "fairlead-shared"  # others may write there
    shared.mkdir()
    shared.chmod(0o755)
    (shared / ".lock").touch()
    linked = tmp_path / "tmp" / "fairlead-linked"
    linked.mkdir(mode=0o700)
    (linked / ".lock").symlink_to(precious / ".lock")
    before = sorted(tmp_path.rglob("*"))
    remove_leftovers()
    assert sorted(tmp_path.rglob("*")) == before


def test_targets_of_links_in_a_removed_folder_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    with another_process(tmp_path / "tmp") as (process, folder):
        (folder / "link").symlink_to(precious)
        process.send_signal(signal.SIGKILL)
        process.wait()
        remove_leftovers()
    assert not folder.exists()
    assert (precious / "file").exists()
