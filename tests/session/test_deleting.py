"""Deleting a session deletes what belongs to it, and nothing else."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import pytest
from tests.support.races import repeating

from fairlead.core.messages import UserMessage
from fairlead.errors import SessionError
from fairlead.session.history.log import Log
from fairlead.session.history.store import SessionFile
from fairlead.stores.deleting import delete_session
from fairlead.stores.headers import new_header
from fairlead.stores.paths import session_path
from fairlead.stores.session_files import lock, temporary


def written(path: Path, parent: Path | None = None) -> Path:
    log = Log(new_header("id", "/work", 0, None if parent is None else str(parent)))
    file = SessionFile.create(path, log)
    log.message(UserMessage("hello", 1))
    file.close()
    return path


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_session_is_deleted(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    delete_session(path)
    assert left(tmp_path) == []
    with pytest.raises(SessionError, match=r"does not exist\.$"):
        delete_session(path)


def test_the_conversations_of_its_sub_agents_and_of_theirs_go_too(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    child = written(tmp_path / "one" / "0-Subagent.jsonl", path)
    written(tmp_path / "one" / "0-Subagent" / "0-Grandchild.jsonl", child)
    written(tmp_path / "one" / "1-Subagent.jsonl", path)
    (tmp_path / "one" / "2-blank.jsonl").touch()
    (tmp_path / "one" / ".fairlead-0123456789abcdef.tmp").touch()
    delete_session(path)
    assert left(tmp_path) == []


def test_more_sub_agents_than_files_may_be_open_are_deleted(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    for number in range(60):
        written(tmp_path / "one" / f"{number}-Subagent.jsonl", path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.dup(0)
    os.close(highest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 30, limits[1]))
    try:
        delete_session(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert left(tmp_path) == []


def test_nothing_is_deleted_when_no_more_files_may_be_open(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    written(tmp_path / "one" / "0-Subagent.jsonl", path)
    before = left(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.dup(0)
    os.close(highest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    try:
        with pytest.raises(SessionError, match="Too many open files"):
            delete_session(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert left(tmp_path) == before


def test_a_sub_agent_that_comes_into_use_meanwhile_stays_and_so_does_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "one.jsonl")
    written(tmp_path / "one" / "0-a.jsonl", path)
    busy = written(tmp_path / "one" / "1-b.jsonl", path)
    opened: list[SessionFile] = []
    unlink = Path.unlink

    def unlink_and_open_the_other(self: Path, missing_ok: bool = False) -> None:
        unlink(self, missing_ok)
        opened.append(SessionFile.open(busy)[0])

    monkeypatch.setattr(Path, "unlink", unlink_and_open_the_other)
    with pytest.raises(SessionError, match=r"1-b\.jsonl is in use"):
        delete_session(path)
    monkeypatch.undo()
    opened[0].close()
    assert left(tmp_path) == ["one", "one.jsonl", "one/1-b.jsonl"]
    delete_session(path)
    assert left(tmp_path) == []


def test_a_folder_that_was_moved_with_its_session_still_belongs_to_it(tmp_path: Path) -> None:
    written(tmp_path / "old" / "one" / "0-Subagent.jsonl", written(tmp_path / "old" / "one.jsonl"))
    (tmp_path / "old").rename(tmp_path / "new")
    delete_session(tmp_path / "new" / "one.jsonl")
    assert left(tmp_path) == ["new"]


def test_a_folder_that_only_has_the_same_name_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "train.jsonl")
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "data.jsonl").write_text('{"x": 1}\n')
    (folder / "0-data.jsonl").write_text('{"x": 1}\n')
    (folder / "blank.jsonl").touch()
    written(folder / "session.jsonl")
    written(folder / "0-other.jsonl", tmp_path / "other.jsonl")
    written(folder / "0-alone.jsonl")
    written(folder / "0-namesake.jsonl", written(tmp_path / "elsewhere" / "train.jsonl"))
    written(session_path(folder, "fork", "2026-01-02T03:04:05.678Z"), path)  # a fork that is kept there
    before = left(folder)
    delete_session(path)
    assert left(folder) == before
    assert not path.exists()


def test_an_empty_folder_of_the_same_name_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    (tmp_path / "one").mkdir()
    delete_session(path)
    assert left(tmp_path) == ["one"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    outside = tmp_path / "outside"
    precious = written(outside / "0-Subagent.jsonl", path)
    (tmp_path / "one").symlink_to(outside)
    delete_session(path)
    assert precious.exists()
    path = written(tmp_path / "two.jsonl")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "0-Subagent.jsonl").symlink_to(precious)
    delete_session(path)
    assert precious.exists() and (tmp_path / "two" / "0-Subagent.jsonl").is_symlink()


def test_a_session_in_use_is_not_deleted(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    file, _, _ = SessionFile.open(path)
    with pytest.raises(SessionError, match="is in use"):
        delete_session(path)
    file.close()
    assert path.exists()


def test_a_session_whose_sub_agent_is_in_use_is_not_deleted_and_neither_are_the_others(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    written(tmp_path / "one" / "0-a.jsonl", path)
    busy = written(tmp_path / "one" / "1-b.jsonl", path)
    before = left(tmp_path)
    file, _, _ = SessionFile.open(busy)
    with pytest.raises(SessionError, match=r"1-b\.jsonl is in use"):
        delete_session(path)
    file.close()
    assert left(tmp_path) == before
    delete_session(path)
    assert left(tmp_path) == []


def test_only_session_files_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "precious.jsonl"
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    path.write_text('{"type":"message"}\n')
    for each in (path, empty):
        with pytest.raises(SessionError, match=re.escape(f"{each} is not a session file")):
            delete_session(each)
    with pytest.raises(SessionError, match="Cannot delete session file"):
        delete_session(tmp_path)
    os.mkfifo(tmp_path / "fifo.jsonl")
    with pytest.raises(SessionError, match="not a regular file"):
        delete_session(tmp_path / "fifo.jsonl")
    assert path.exists() and empty.exists()


def test_a_blank_file_with_the_name_of_a_session_is_deleted(tmp_path: Path) -> None:
    path = session_path(tmp_path, "one", "2026-01-02T03:04:05.678Z")
    path.write_bytes(b'{"type":"session","ver')
    delete_session(path)
    named_by_an_id = tmp_path / "one.jsonl"
    named_by_an_id.touch()
    delete_session(named_by_an_id, also_blank=True)
    assert left(tmp_path) == []


def test_a_session_that_is_replaced_meanwhile_by_the_process_that_uses_it_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl")
    text = path.read_bytes()
    held = [os.open(path, os.O_RDWR)]
    lock(held[0], path)

    def replace() -> None:
        handle, fresh = temporary(tmp_path)  # it is locked
        os.write(handle, text)
        fresh.replace(path)
        os.close(held.pop())
        held.append(handle)

    with repeating(replace):
        for _ in range(5000):
            with pytest.raises(SessionError, match="in use"):
                delete_session(path)
    os.close(held.pop())
    delete_session(path)
    assert left(tmp_path) == []
