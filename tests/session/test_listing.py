"""Folders of session files."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.json_values import is_array, is_object

from fairlead.core.messages import AssistantMessage, TextContent, Usage, UserMessage, user_text
from fairlead.errors import SessionError
from fairlead.session.context.budget import totals
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile
from fairlead.stores.headers import new_header
from fairlead.stores.listing import find_session, latest_session, list_sessions, matching_sessions, session_with_id
from fairlead.stores.paths import iso, session_folder, session_path


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


@pytest.mark.parametrize(
    ("cwd", "name"), [("home/app/x:y", "-app-x-y"), ("home", "-"), ("tmp/app", "-tmp-app"), ("tmp", "-tmp"), ("srv", None)]
)
def test_the_folder_of_sessions_is_named_as_in_omp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str, name: str | None
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    expected = name or f"--{str(tmp_path / 'srv')[1:].replace('/', '-')}--"
    assert session_folder(Path("/root"), tmp_path / cwd, tmp_path / "home") == Path("/root") / expected


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


def test_an_id_that_fits_several_sessions_means_the_newest_of_the_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "--here--", tmp_path / "--there--"
    ages = {(here, "0198aaaa"): 300, (here, "0198aa"): 200, (here, "0198aabb"): 400, (there, "0198aacc"): 900, (there, "77a"): 1}
    paths = {id: written(folder, id) for folder, id in ages}
    other = written(tmp_path / "--third--", "77b")
    os.utime(other, (500, 500))
    for (_, id), age in ages.items():
        os.utime(paths[id], (age, age))
    assert find_session("0198a", here, tmp_path) == paths["0198aabb"]
    assert find_session("0198aa", here, tmp_path) == paths["0198aa"], "it has exactly this id"
    assert find_session("0198aac", here, tmp_path) == paths["0198aacc"]
    assert find_session("77", here, tmp_path) == other, "no session of this folder fits"
    with pytest.raises(SessionError, match='No session has an id that begins with "0199"'):
        find_session("0199", tmp_path, tmp_path)


def test_an_empty_session_is_the_latest_only_if_no_other_exists(tmp_path: Path) -> None:
    silent = tmp_path / "silent.jsonl"
    log = Log(new_header("silent", "/work", 0))
    log.model_change("p", "m")
    log.thinking_level_change("low")
    log.custom("an extension", {"x": 1})
    silent.write_bytes(b"\n".join([*log.lines(), b""]))
    os.utime(silent, (100, 100))
    assert latest_session(tmp_path) == silent
    said = written(tmp_path, "said", changed=10)
    assert latest_session(tmp_path) == said
    assert [info.id for info in list_sessions(tmp_path)] == ["silent", "said"]
    log.session_info("a name")
    silent.write_bytes(b"\n".join([*log.lines(), b""]))
    os.utime(silent, (100, 100))
    assert latest_session(tmp_path) == silent


def test_a_damaged_file_is_not_in_the_way_of_an_id(tmp_path: Path) -> None:
    here, there = tmp_path / "--here--", tmp_path / "--there--"
    damaged = session_path(here, "0198aaaa-x", "2026-01-02T03:04:05.678Z")
    here.mkdir()
    damaged.touch()
    assert find_session("0198a", here, tmp_path) == damaged, "there is nothing else"
    assert session_with_id("0198aaaa-x", here) is None
    elsewhere = written(there, "0198aaaa-y")
    assert find_session("0198a", here, tmp_path) == elsewhere
    same = written(here, "0198aaaa-z")
    assert find_session("0198a", here, tmp_path) == same


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":[{"type":["text"]},{"type":"text","text":"readable"}],"timestamp":1}',
        b'{"role":"user","content":[{"type":{}},{"type":"text","text":"readable"}],"timestamp":1}',
        b'{"role":"user","content":[{"type":"t\xff"},{"type":"text","text":"readable"}],"timestamp":1}',
        b'{"role":"user","content":[{"type":"\\ud800"},{"type":"text","text":"readable"}],"timestamp":1}',
    ],
)
def test_a_block_of_a_strange_type_does_not_hide_the_rest_of_its_message(tmp_path: Path, message: bytes) -> None:
    path = written(tmp_path, "one", "TEXT")
    lines = path.read_bytes().split(b"\n")
    lines[2] = b'{"type":"message","id":"1","parentId":null,"timestamp":"","message":%b}' % message
    path.write_bytes(b"\n".join(lines))
    (info,) = list_sessions(tmp_path)
    assert (info.first_message, info.message_count, info.problem) == ("readable", 2, None)
    log, _ = read_session(path)
    assert [user_text(each) for each in log.read(log.get("1")) if isinstance(each, UserMessage)] == ["readable"]


def test_a_name_that_is_not_text_does_not_break_the_list(tmp_path: Path) -> None:
    written(tmp_path, "good")
    name = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(name)).write_bytes(b"damaged")
    found = list_sessions(tmp_path)
    assert len(found) == 2
    msgspec.json.encode(found).decode()


def test_a_time_that_no_calendar_has_does_not_break_the_list() -> None:
    assert iso(1 << 80) == iso(-(1 << 80)) == "1970-01-01T00:00:00.000Z"


VALUES: list[Any] = [None, True, 10**30, 1e308, "", "\ud800", [], ["session"], {"type": ["x"]}, "0001-01-01T00:00:00"]


def changed_value(value: Any, chance: random.Random, often: float) -> Any:
    if chance.random() < often:
        return chance.choice(VALUES)
    if is_object(value):
        return {key: changed_value(item, chance, often) for key, item in value.items() if chance.random() > often / 3}
    return [changed_value(item, chance, often) for item in value] if is_array(value) else value


def damaged(data: bytes, chance: random.Random) -> bytes:
    often = chance.choice((0.02, 0.05, 0.15))
    lines = [json.dumps(changed_value(json.loads(line), chance, often)).encode() for line in data.splitlines()]
    changed = bytearray(b"\n".join(lines))
    for _ in range(chance.choice((0, 1, 3, 10))):
        place = chance.randrange(len(changed))
        changed[place : place + chance.randrange(3)] = chance.choice((b"", b"\xff", b"\0", b"\n", b'"', b"[" * 5000))
    return bytes(changed)


def test_no_damage_to_a_file_breaks_the_list_or_the_reading_of_it(tmp_path: Path) -> None:
    good = written(tmp_path, "good", name="name")
    whole = good.read_bytes()
    for seed in range(300):
        path = tmp_path / "damaged.jsonl"
        path.write_bytes(damaged(whole, random.Random(seed)))
        found = {info.path: info for info in list_sessions(tmp_path)}
        assert (len(found), found[str(good)].problem) == (2, None), seed
        msgspec.json.encode(list(found.values()))
        with suppress(SessionError):
            log, _ = read_session(path)
            for read in (log.messages_json, log.entries_json, log.tree_json):
                msgspec.json.decode(read())
            totals(log)
            log.user_messages()
            log.messages()
            log.model()
            log.thinking_level()
            log.fork(new_header("fork", "/", 0))


def test_a_session_is_found_by_the_end_of_its_id_and_by_its_name(tmp_path: Path) -> None:
    here = tmp_path / "here"
    one = written(here, "0198aaaa-1111", name="The Tides")
    other = written(tmp_path / "there", "0198aaaa-2222", name="the tides")
    assert find_session("a-1111", here, tmp_path) == one
    assert find_session("a-2222", here, tmp_path) == other
    with pytest.raises(SessionError, match='No session has an id that begins with "2222", or that name'):
        find_session("2222", here, tmp_path)
    assert find_session("the tides", None, tmp_path) == other, "an exact name comes first"
    assert find_session("THE TIDES", here, tmp_path) == one, "this folder comes first"
    with pytest.raises(SessionError):
        find_session("tides", here, tmp_path)
    file, log, _ = SessionFile.open(one)
    log.session_info("Currents")
    file.close()
    assert find_session("currents", here, tmp_path) == one
    assert find_session("The Tides", here, tmp_path) == other, "its last name counts"


def test_every_session_that_fits_a_word_is_found_and_an_exact_id_fits_alone(tmp_path: Path) -> None:
    paths = [written(tmp_path, id) for id in ("0198aaaa", "0198aaaabb", "0198aaaacc")]
    assert sorted(matching_sessions("0198", tmp_path)) == sorted(paths)
    assert matching_sessions("0198aaaa", tmp_path) == [paths[0]]
    assert matching_sessions("", tmp_path) == []
