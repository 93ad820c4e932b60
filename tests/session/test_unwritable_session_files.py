"""Session files that cannot be written: what is held back is written later, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.session.scene import file_size_limit
from tests.session.session_log import answer, new_log, texts, user

from fairlead.errors import SessionError
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile


def test_an_entry_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.message(user("one"))
    before = path.read_bytes()
    for room in (0, 1, 50):
        with file_size_limit(len(before) + room):
            with pytest.raises(SessionError, match=rf"^Cannot write session file {re.escape(str(path))}: File too large\.$"):
                log.message(user("a longer text than there is room for" * 10))
            assert path.read_bytes() == before
        assert texts(log) == ["one"]
    log.message(user("two"))
    file.close()
    assert texts(read_session(path)[0]) == ["one", "two"]


def test_held_entries_are_written_first_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.message(user("one"))
    size = path.stat().st_size
    with file_size_limit(size + 20):
        for text in ("two", "three"):
            with pytest.raises(SessionError):
                log.message(answer(text), keep=True)
        with pytest.raises(SessionError):
            log.message(user("refused"))
        with pytest.raises(SessionError):
            file.flush_pending()
        assert len(file.pending) == 2
        assert path.stat().st_size == size
    assert texts(log) == ["one", "two", "three"]
    log.message(user("four"))
    assert file.pending == []
    file.close()
    again, problems = read_session(path)
    assert (again.entries(), problems) == (log.entries(), [])


def test_pending_entries_can_be_written_without_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.message(user("one"))
    with file_size_limit(path.stat().st_size), pytest.raises(SessionError):
        log.message(answer("two"), keep=True)
    file.flush_pending()
    file.close()
    assert texts(read_session(path)[0]) == ["one", "two"]


def test_a_session_that_cannot_begin_leaves_no_file_and_begins_later(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.model_change("p", "m")
    with file_size_limit(100), pytest.raises(SessionError, match="File too large"):
        log.message(user("one"))
    assert not path.exists()
    log.message(user("again"))
    file.close()
    again, _ = read_session(path)
    assert (texts(again), len(again)) == (["again"], 2)


@contextmanager
def unprivileged() -> Generator[None]:
    """Root may write anywhere; nobody may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_named_and_tried_again() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "sessions" / "one.jsonl"
        log = new_log()
        file = SessionFile.create(path, log)
        folder.chmod(0o555)
        with unprivileged(), pytest.raises(SessionError, match=rf"^Cannot write session file {path}: Permission denied\.$"):
            log.message(user("one"), keep=True)
        assert texts(log) == ["one"]
        folder.chmod(0o777)
        with unprivileged():
            log.message(answer("two"))
        file.close()
        assert texts(read_session(path)[0]) == ["one", "two"]
    finally:
        folder.chmod(0o777)
        shutil.rmtree(folder)


APPEND = """
import os, sys
from pathlib import Path
from fairlead.core.messages import UserMessage
from fairlead.stores.headers import new_header
from fairlead.stores.listing import list_sessions
from fairlead.session.history.log import Log
from fairlead.stores.session_files import temporary
from fairlead.session.history.store import SessionFile
path = Path(sys.argv[1])
if path.exists():
    file, log, problems = SessionFile.open(path)
else:
    log = Log(new_header("id", "/work", 0))
    file = SessionFile.create(path, log)
number = 0
while True:
    number += 1
    entry = log.message(UserMessage("x" * (number * 7919 % 200_000), 1))
    os.write(1, entry.id.encode() + b"\\n")
"""


def test_acknowledged_entries_survive_a_kill_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    chance = random.Random(5)
    acknowledged: list[str] = []
    for round in range(30):
        if round % 6 == 0:
            path.unlink(missing_ok=True)
            acknowledged = []
        with subprocess.Popen([sys.executable, "-c", APPEND, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout
            for _ in range(chance.randrange(1, 12)):
                acknowledged.append(process.stdout.readline().decode().strip())
            process.kill()
            acknowledged += process.stdout.read().decode().split()
        log, problems = read_session(path)
        assert [id for id in acknowledged if id not in log] == []
        assert len(problems) <= 1  # a torn last line; the next round cuts it off
        assert len(log) - len(acknowledged) <= 6
        assert len(log.path()) == len(log)
