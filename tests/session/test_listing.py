"""Folders of session files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fairlead.core.messages import AssistantMessage, TextContent, Usage, UserMessage
from fairlead.errors import SessionError
from fairlead.session.entries import new_header
from fairlead.session.listing import (
    delete_session,
    find_session,
    latest_session,
    list_sessions,
)
from fairlead.session.log import Log
from fairlead.session.places import session_folder, session_path
from fairlead.session.store import SessionFile


def written(
    folder: Path, id: str, text: str = "hello", *, changed: int = 0, name: str | None = None, parent: str | None = None
) -> Path:
    """A session file that was last changed at that second."""
    log = Log(new_header(id, "/work", 1767323045678, parent))
    path = session_path(folder, log.header.id, log.header.timestamp)
    file = SessionFile.create(path, log)
    log.model_change("p", "m")
    log.message(UserMessage([TextContent(text)], 1))
    log.message(AssistantMessage([TextContent("an answer")], "api", "p", "m", Usage(), "stop", 2))
    if name is not None:
        log.session_info(name)
    file.close()
    os.utime(path, (changed, changed))
    return path


@pytest.mark.parametrize(
    ("cwd", "name"), [("/home/me/my app", "--home-me-my app--"), ("/", "----"), ("/a:b\\c/d", "--a-b-c-d--"), ("//x", "---x--")]
)
def test_folders_are_named_as_pi_names_them(cwd: str, name: str) -> None:
    assert session_folder(Path("/root"), Path(cwd)) == Path("/root") / name


def test_files_are_named_as_pi_names_them() -> None:
    header = new_header("0198f-77", "/work", 1767323045678)
    assert session_path(Path("/s"), header.id, header.timestamp) == Path("/s/2026-01-02T03-04-05-678Z_0198f-77.jsonl")


def test_sessions_are_listed_newest_first_with_what_a_user_recognises(tmp_path: Path) -> None:
    old = written(tmp_path, "old", "how are you", changed=10, name="greeting")
    new = written(tmp_path, "new", changed=20, parent="/old.jsonl")
    first, second = list_sessions(tmp_path)
    assert (first.path, first.id, first.modified, first.parent_session) == (str(new), "new", 20_000, "/old.jsonl")
    assert (second.path, second.id, second.cwd, second.name) == (str(old), "old", "/work", "greeting")
    assert (second.created, second.modified, second.message_count) == (1767323045678, 10_000, 2)
    assert (second.first_message, first.name, second.problem) == ("how are you", None, None)


def test_broken_files_are_listed_and_do_not_hide_the_others(tmp_path: Path) -> None:
    good = written(tmp_path, "good", changed=10)
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("no session")
    torn = written(tmp_path, "torn", "first", changed=5)
    torn.write_bytes(torn.read_bytes().replace(b"\n", b"\n{broken\n", 1) + b'{"type":"mess')
    found = {Path(info.path).name: info for info in list_sessions(tmp_path)}
    assert set(found) == {good.name, "empty.jsonl", "folder.jsonl", torn.name}
    assert found["empty.jsonl"].problem == f"{empty} is not a session file: it does not begin with a session header."
    assert found["folder.jsonl"].problem is not None
    assert (found[torn.name].message_count, found[torn.name].first_message) == (2, "first")
    assert found[good.name].problem is None


def test_a_very_long_file_is_not_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "long", "begin")
    file, log, _ = SessionFile.open(path)
    for _ in range(60):
        log.message(UserMessage("x" * 100_000, 1))
    log.session_info("late name")
    file.close()
    (info,) = list_sessions(tmp_path)
    assert (info.first_message, info.name, info.message_count) == ("begin", "late name", None)


def test_a_folder_that_does_not_exist_has_no_sessions(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "none") == []
    assert latest_session(tmp_path / "none") is None


def test_the_latest_session_is_the_one_that_changed_last(tmp_path: Path) -> None:
    assert latest_session(tmp_path) is None
    newer = written(tmp_path, "a", changed=20)
    written(tmp_path, "b", changed=10)
    broken = tmp_path / "c.jsonl"
    broken.write_text("no session\n")
    os.utime(broken, (30, 30))
    assert latest_session(tmp_path) == newer


def test_a_session_is_found_by_path_or_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    here, there = tmp_path / "--here--", tmp_path / "--there--"
    one = written(here, "0198aaaa-1")
    other = written(there, "0198bbbb-2")
    assert find_session("0198a", here, tmp_path) == one
    assert find_session("0198bbbb-2", here, tmp_path) == other
    assert find_session(str(other), here) == other
    assert find_session("elsewhere/new.jsonl", here) == Path.cwd() / "elsewhere" / "new.jsonl"


def test_this_folder_is_looked_at_first(tmp_path: Path) -> None:
    here, there = tmp_path / "--here--", tmp_path / "--there--"
    one = written(here, "0198aaaa")
    written(there, "0198bbbb")
    assert find_session("0198", here, tmp_path) == one


def test_a_file_with_a_name_of_its_own_is_found_by_its_header(tmp_path: Path) -> None:
    path = written(tmp_path, "0198cccc").rename(tmp_path / "renamed.jsonl")
    assert find_session("0198c", tmp_path) == path


def test_an_id_that_is_not_clear_names_the_candidates(tmp_path: Path) -> None:
    paths = [written(tmp_path, id) for id in ("0198aaaa", "0198aabb")]
    with pytest.raises(SessionError) as caught:
        find_session("0198aa", tmp_path)
    assert str(caught.value) == "\n".join(
        ['More than one session has an id that begins with "0198aa":', *(f"  {path}" for path in paths)]
    )
    with pytest.raises(SessionError, match='No session has an id that begins with "0199"'):
        find_session("0199", tmp_path, tmp_path)


def test_a_session_is_deleted(tmp_path: Path) -> None:
    path = written(tmp_path, "one")
    delete_session(path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SessionError, match=r"does not exist\.$"):
        delete_session(path)


def test_a_session_in_use_is_not_deleted(tmp_path: Path) -> None:
    path = written(tmp_path, "one")
    file, _, _ = SessionFile.open(path)
    with pytest.raises(SessionError, match="is in use"):
        delete_session(path)
    file.close()
    assert path.exists()


def test_only_session_files_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "precious.jsonl"
    path.write_text('{"type":"message"}\n')
    with pytest.raises(SessionError, match=re.escape(f"{path} is not a session file")):
        delete_session(path)
    with pytest.raises(SessionError, match="Cannot delete session file"):
        delete_session(tmp_path)
    assert path.exists()
