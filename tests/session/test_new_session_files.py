"""Session files that begin: when a file is made, what gives way to it, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.session.session_log import answer, begun, new_log, texts, user, written

from fairlead.errors import SessionError
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile
from fairlead.stores.headers import new_header
from fairlead.stores.listing import list_sessions
from fairlead.stores.session_files import temporary

# Creating


def test_nothing_is_on_disk_before_the_first_message_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "project" / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    log.model_change("p", "m")
    log.thinking_level_change("high")
    assert list(tmp_path.iterdir()) == []
    log.message(user("hello"))
    assert path.read_bytes() == b"\n".join([*log.lines(), b""])
    assert [json.loads(line)["type"] for line in path.read_bytes().splitlines()] == [
        "session",
        "model_change",
        "thinking_level_change",
        "message",
    ]
    log.message(answer("hi"))
    assert path.read_bytes() == b"\n".join([*log.lines(), b""])
    file.close()


def test_files_and_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "one.jsonl"
    old = os.umask(0)
    try:
        written(path, "hello")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]


def test_a_session_without_messages_leaves_no_trace(tmp_path: Path) -> None:
    log = new_log()
    file = SessionFile.create(tmp_path / "one.jsonl", log)
    log.session_info("name")
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_taken_for_a_new_session(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text("precious\n")
    log = new_log()
    SessionFile.create(path, log)
    with pytest.raises(SessionError, match=r"one\.jsonl exists already\.$"):
        log.message(user("hello"))
    assert path.read_text() == "precious\n"
    assert len(log) == 0


def test_a_fork_is_written_at_once(tmp_path: Path) -> None:
    log = written(tmp_path / "one.jsonl", "one", "two")
    path = tmp_path / "fork.jsonl"
    fork = log.fork(new_header("fork", "/work", 0, str(tmp_path / "one.jsonl")))
    file = SessionFile.create(path, fork)
    file.close()
    again, problems = read_session(path)
    assert (texts(again), problems) == (["one", "two"], [])
    assert again.header == fork.header
    assert again.entries() == log.entries()


@pytest.mark.parametrize("durability", ["flush", "fsync"])
def test_a_session_continues_where_it_ended(tmp_path: Path, durability: Any) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log, durability=durability)
    log.message(user("one"))
    file.close()
    file, log, problems = SessionFile.open(path, durability=durability)
    assert problems == []
    log.message(answer("two"))
    file.close()
    again, problems = read_session(path)
    assert (texts(again), problems) == (["one", "two"], [])
    assert again.entries() == log.entries()


COUNT_WRITES = """
import sys
from pathlib import Path
from fairlead.core.messages import UserMessage
from fairlead.session.history.store import SessionFile

def writes():
    return next(int(line.split()[1]) for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("syscw"))

file, log, problems = SessionFile.open(Path(sys.argv[1]))
before = writes()
for number in range(50):
    log.message(UserMessage("x" * 20_000, number))
print(writes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count writes")
def test_every_entry_is_one_write(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one")
    done = subprocess.run([sys.executable, "-c", COUNT_WRITES, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "50\n"


# New files


@pytest.mark.parametrize("blank", [b"", b"\n", b" \r\n", bytes(4096), b'{"type":"session","version":3,"id":"01'])
def test_a_blank_file_gives_way_to_a_new_session(tmp_path: Path, blank: bytes) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(blank)
    file, log, _ = begun(path, "one")
    file.close()
    assert path.read_bytes() == b"\n".join([*log.lines(), b""])
    assert [each.name for each in tmp_path.iterdir()] == ["one.jsonl"]


def test_a_link_to_nowhere_leads_to_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "link.jsonl"
    path.symlink_to(tmp_path / "real.jsonl")
    file, _, _ = begun(path, "one")
    file.close()
    assert path.is_symlink()
    assert texts(read_session(tmp_path / "real.jsonl")[0]) == ["one"]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = new_log()
    file = SessionFile.create(path, log)
    written(path, "first")
    with pytest.raises(SessionError, match="exists already"):
        log.message(user("second"))
    file.close()
    assert texts(read_session(path)[0]) == ["first"]
    assert [each.name for each in tmp_path.iterdir()] == ["one.jsonl"]


COPY = """
import sys
from pathlib import Path
from fairlead.stores.headers import new_header
from fairlead.session.history.reading import read_session, read_transcript
from fairlead.session.history.store import SessionFile

log, _ = read_session(Path(sys.argv[1]))
print("copying", flush=True)
for number in range(1000):
    SessionFile.create(Path(sys.argv[2], f"{number}.jsonl"), log.fork(new_header(str(number), "/work", 0)))
"""


def test_a_kill_leaves_whole_copies_and_a_temporary_file_that_the_next_listing_deletes(tmp_path: Path) -> None:
    source, folder = tmp_path / "source.jsonl", tmp_path / "copies"
    folder.mkdir()
    written(source, *("x" * 100_000 for _ in range(100)))
    size = source.stat().st_size
    chance = random.Random(7)
    kills = left = 0
    while kills < 12 or (left == 0 and kills < 200):  # on a busy machine, few kills hit a copy
        kills += 1
        with subprocess.Popen([sys.executable, "-c", COPY, str(source), str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout and process.stdout.readline() == b"copying\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.random() * 0.05)
            process.kill()
        names = [path.name for path in folder.iterdir()]
        left += sum(not name.endswith(".jsonl") for name in names)
        for info in list_sessions(folder):
            path = Path(info.path)
            assert path.stat().st_size >= size - 200 and info.problem is None
            assert len(read_session(path)[0]) == 100
        assert all(path.suffix == ".jsonl" for path in folder.iterdir())
        for path in folder.iterdir():
            path.unlink()
    assert left, "no kill hit a copy"


def test_the_temporary_file_of_a_living_process_stays(tmp_path: Path) -> None:
    handle, path = temporary(tmp_path)
    assert list_sessions(tmp_path) == []
    assert path.exists()
    os.close(handle)
    assert list_sessions(tmp_path) == []
    assert not path.exists()


def test_a_session_in_which_only_a_model_was_chosen_is_made_and_goes_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    for name in (None, "name"):
        log = new_log()
        file = SessionFile.create(path, log)
        log.model_change("p", "m")
        assert not path.exists()
        file.begin()
        assert len(read_session(path)[0]) == 1
        if name:
            log.session_info(name)
        file.close()
        assert path.exists() == bool(name)
