"""Session files: real files, real second processes, real failures."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.session.scene import file_size_limit

from fairlead.core.messages import AssistantMessage, TextContent, Usage, UserMessage
from fairlead.errors import SessionError
from fairlead.session.history.entries import OtherEntry, new_header
from fairlead.session.history.listing import list_sessions
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.session.history.session_files import temporary
from fairlead.session.history.store import SessionFile


def user(text: str) -> UserMessage:
    return UserMessage([TextContent(text)], 1)


def answer(text: str) -> AssistantMessage:
    return AssistantMessage([TextContent(text)], "api", "p", "m", Usage(), "stop", 2)


def new_log() -> Log:
    return Log(new_header("0198-session", "/work", 0))


def texts(log: Log) -> list[str]:
    return [message["content"][0]["text"] for message in json.loads(log.messages_json())]


def written(path: Path, *said: str) -> Log:
    """A closed session file in which the user said these things."""
    log = new_log()
    file = SessionFile.create(path, log)
    for text in said:
        log.message(user(text))
    file.close()
    return log


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
    fork = log.forked(new_header("fork", "/work", 0, str(tmp_path / "one.jsonl")))
    file = SessionFile.create(path, fork)
    file.close()
    again, problems = read_session(path)
    assert (texts(again), problems) == (["one", "two"], [])
    assert again.header == fork.header
    assert again.entries() == log.entries()


@pytest.mark.parametrize("durability", ["flush", "fsync"])
def test_a_session_goes_on_where_it_ended(tmp_path: Path, durability: Any) -> None:
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


# Reading what others wrote


def test_a_torn_last_line_is_cut_at_whatever_byte(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one", "two", "thrée")
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(whole) + 1):
        path.write_bytes(whole[:end])
        read, noticed = read_session(path)
        assert path.read_bytes() == whole[:end]
        file, log, problems = SessionFile.open(path)
        log.message(user("four"))
        file.close()
        complete = end >= len(whole) - 1
        torn = start < end < len(whole) - 1
        assert texts(read) == ["one", "two"] + ["thrée"] * complete
        assert texts(log) == [*texts(read), "four"]
        assert noticed == ([f"The last line of {path} is incomplete and was left out."] if torn else [])
        cut = f"The last line of {path} was incomplete and was cut off ({end - start} bytes)."
        assert problems == ([cut] if torn else [])
        assert path.read_bytes().startswith(whole[: len(whole) if complete else start])
        again, problems = read_session(path)
        assert (texts(again), problems) == (texts(log), [])


def test_unreadable_and_unknown_lines_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = written(path, "one", "two", "three")
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:40]
    hologram = b'{"type":"hologram","id":"12","parentId":"%b","timestamp":"t","size":1.0}' % (log.leaf or "").encode()
    lines[4:4] = [b"", hologram, lines[0], b'{"type":"title","title":"no id"}', b"\xff\xfe"]
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    file, opened, problems = SessionFile.open(path)
    assert problems == [f"Line {number} of {path} cannot be read and was skipped." for number in (3, 9)]
    assert isinstance(opened.get("12"), OtherEntry)
    opened.message(user("four"))
    file.close()
    assert texts(opened) == ["one", "three", "four"]
    assert path.read_bytes()[: len(before)] == before
    assert hologram in opened.entries_json()


def test_half_surrogate_pairs_and_broken_utf8_load(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one", "SECOND", "THIRD")
    path.write_bytes(path.read_bytes().replace(b"SECOND", b"\\ud83d!").replace(b"THIRD", b"\xff!"))
    log, problems = read_session(path)
    assert (texts(log), problems) == (["one", "\ufffd!", "\ufffd!"], [])
    log.messages_json().decode()
    log.tree_json().decode()
    log.entries_json().decode()


def test_a_title_before_the_header_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one")
    path.write_bytes(b'{"type":"title","v":1,"title":"t","pad":"   "}\n' + path.read_bytes())
    assert texts(read_session(path)[0]) == ["one"]


@pytest.mark.parametrize(
    "contents", [b"", b"\n", b"hello\n", b'{"type":"message","id":"1"}\n', b'{"type":"session","version":3}\n', b'{"type":"sess']
)
def test_a_file_without_header_is_refused_and_left_alone(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(contents)
    for use in (read_session, SessionFile.open):
        with pytest.raises(SessionError, match=re.escape(f"{path} is not a session file")):
            use(path)
    assert path.read_bytes() == contents


def test_a_file_of_a_later_version_is_read_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one")
    path.write_bytes(path.read_bytes().replace(b'"version":3', b'"version":4'))
    assert texts(read_session(path)[0]) == ["one"]
    with pytest.raises(SessionError, match="is of version 4"):
        SessionFile.open(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for use in (read_session, SessionFile.open):
        with pytest.raises(SessionError, match=r"one\.jsonl does not exist\.$"):
            use(tmp_path / "one.jsonl")


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


def begun(path: Path, *said: str) -> tuple[SessionFile, Log, list[str]]:
    """An open session in which the user said these things, and what it tells of its file."""
    log = new_log()
    file = SessionFile.create(path, log)
    told: list[str] = []
    file.on_change = told.append
    for text in said:
        log.message(user(text))
    return file, log, told


@pytest.mark.parametrize("left", [0, 1, 100, -20, -1])
def test_a_file_that_was_cut_short_is_written_anew(tmp_path: Path, left: int) -> None:
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


def test_what_was_held_back_is_in_a_file_that_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    file, log, _ = begun(path, "one")
    with file_size_limit(path.stat().st_size), pytest.raises(SessionError):
        log.message(answer("two"), keep=True)
    os.truncate(path, 10)
    file.flush_pending()
    file.close()
    assert texts(read_session(path)[0]) == ["one", "two"]


@pytest.mark.parametrize("how", ["renamed over", "written over", "written over with more"])
def test_a_file_with_other_contents_is_kept_beside_the_one_that_is_written_anew(tmp_path: Path, how: str) -> None:
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


def test_what_another_program_adds_stays_and_is_told_of(tmp_path: Path) -> None:
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
from fairlead.session.history.entries import new_header
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile

log, _ = read_session(Path(sys.argv[1]))
print("copying", flush=True)
for number in range(1000):
    SessionFile.create(Path(sys.argv[2], f"{number}.jsonl"), log.forked(new_header(str(number), "/work", 0)))
"""


def test_a_kill_leaves_whole_copies_and_a_temporary_file_that_the_next_listing_deletes(tmp_path: Path) -> None:
    source, folder = tmp_path / "source.jsonl", tmp_path / "copies"
    folder.mkdir()
    written(source, *("x" * 100_000 for _ in range(100)))
    size = source.stat().st_size
    chance = random.Random(7)
    left = 0
    for _ in range(12):
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


# Bad luck


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


def test_what_was_held_back_is_written_first_and_in_order(tmp_path: Path) -> None:
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
from fairlead.session.history.entries import new_header
from fairlead.session.history.listing import list_sessions
from fairlead.session.history.log import Log
from fairlead.session.history.session_files import temporary
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


def test_what_was_acknowledged_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
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
