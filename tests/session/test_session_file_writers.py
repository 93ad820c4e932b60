"""One writer per session file, and what other programs do to the file meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.session.scene import file_size_limit
from tests.session.session_log import answer, begun, new_log, texts, user, written

from fairlead.errors import SessionError
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile

# One writer


HOLD = """
import sys
from pathlib import Path
from fairlead.session.history.store import SessionFile
file, log, problems = SessionFile.open(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path) -> Generator[int]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"open\n"
        yield process.pid
        process.stdin.close()


def test_a_second_writer_is_refused_and_readers_read(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one")
    with held_by_another_process(path) as pid:
        with pytest.raises(SessionError) as refused:
            SessionFile.open(path)
        known = f" (pid {pid})" if sys.platform == "linux" else ""
        # The system need not tell the holder: on some file systems it knows the file by another number.
        assert str(refused.value) in {
            f"Session file {path} is in use by another process{known}.",
            f"Session file {path} is in use by another process.",
        }
        assert texts(read_session(path)[0]) == ["one"]
    file, _, _ = SessionFile.open(path)
    file.close()


def test_two_sessions_of_one_process_cannot_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.message(user("one"))
    with pytest.raises(SessionError, match="is in use by another"):
        SessionFile.open(path)
    file.close()
    SessionFile.open(path)[0].close()


def test_a_file_deleted_under_its_writer_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.message(user("one"))
    path.unlink()
    with pytest.raises(SessionError, match="was deleted or replaced while in use"):
        log.message(user("two"))
    assert texts(log) == ["one"]
    file.close()


# What other programs do to the file meanwhile


@pytest.mark.parametrize("left", [0, 1, 100, -20, -1])
def test_a_truncated_file_is_rewritten(tmp_path: Path, left: int) -> None:
    path = tmp_path / "one.jsonl"
    file, log, told = begun(path, "one", "two")
    os.truncate(path, left if left >= 0 else path.stat().st_size + left)
    log.message(user("three"))
    assert len(told) == 1 and f"Session file {path} was cut short by another program" in told[0]
    log.message(user("four"))
    assert len(told) == 1
    with pytest.raises(SessionError, match="is in use"):
        SessionFile.open(path)
    file.close()
    assert path.read_bytes() == b"\n".join([*log.lines(), b""])
    assert [each.name for each in tmp_path.iterdir()] == ["one.jsonl"]


def test_held_entries_are_in_a_rewritten_file(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    file, log, _ = begun(path, "one")
    with file_size_limit(path.stat().st_size), pytest.raises(SessionError):
        log.message(answer("two"), keep=True)
    os.truncate(path, 10)
    file.flush_pending()
    file.close()
    assert texts(read_session(path)[0]) == ["one", "two"]


@pytest.mark.parametrize("how", ["renamed over", "written over", "written over with more"])
def test_a_replaced_file_is_kept_beside_the_rewritten_one(tmp_path: Path, how: str) -> None:
    path = tmp_path / "one.jsonl"
    file, log, told = begun(path, "one", "two")
    other = b"other things\n" * (1 if how == "written over" else 1000)
    if how == "renamed over":
        (tmp_path / "other").write_bytes(other)
        (tmp_path / "other").replace(path)
    else:
        path.write_bytes(other)
    log.message(user("three"))
    file.close()
    aside = tmp_path / "one.jsonl.changed-1"
    assert aside.read_bytes() == other
    assert len(told) == 1 and str(aside) in told[0]
    assert path.read_bytes() == b"\n".join([*log.lines(), b""])
    assert len(list(tmp_path.iterdir())) == 2


def test_lines_added_by_another_program_stay_and_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    file, log, told = begun(path, "one")
    with path.open("ab") as other:
        other.write(b'{"half')
    log.message(user("two"))
    log.message(user("three"))
    file.close()
    assert len(told) == 1 and "Another program has added 6 bytes" in told[0]
    again, problems = read_session(path)
    assert (texts(again), len(problems)) == (["one", "two", "three"], 1)
    assert b'{"half\n' in path.read_bytes()


def test_a_file_that_another_process_put_there_and_uses_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    file, log, _ = begun(path, "one")
    path.unlink()
    written(path, "other")
    before = path.read_bytes()
    with held_by_another_process(path), pytest.raises(SessionError, match="is in use by another process"):
        log.message(user("two"))
    assert path.read_bytes() == before
    file.close()
    assert [each.name for each in tmp_path.iterdir()] == ["one.jsonl"]


def test_something_that_is_not_a_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    file, log, _ = begun(path, "one")
    path.unlink()
    (tmp_path / "precious").write_text("precious")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(SessionError, match="replaced by something that is not a file"):
        log.message(user("two"))
    file.close()
    assert (tmp_path / "precious").read_text() == "precious"
