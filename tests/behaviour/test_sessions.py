"""From one session to another: what the commands answer, and what is in the files afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.session_host import (
    SUMMARY,
    another,
    conversation,
    kept,
    messages,
    session_file,
    stage,
    state,
    texts,
    user_entry,
)
from tests.support.stage import HELD, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])

#: A compaction leaves no more than the last few words alone.
KEEP_LITTLE = {"compaction": {"keepRecentTokens": 5}}


# The file


def test_a_session_has_a_file_from_the_first_thing_that_its_host_relies_on(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two")]) as host:
        before = state(host)
        path = Path(before["sessionFile"])
        assert path.parent.name == f"--{str(host.around.cwd)[1:].replace('/', '-')}--"
        assert path.parent.parent == host.around.home / "sessions"
        assert path.name.endswith(f"Z_{before['sessionId']}.jsonl")
        host.request("get_entries")
        assert path.parent.is_dir() and list(path.parent.iterdir()) == []
        host.request("set_session_name", name="early")
        assert kept(path).name() == "early"
        host.request("set_thinking_level", level="low")

        host.prompt("first")
        lines = kept(path)
        header, entries = lines.header, lines.entries
        assert header.pop("timestamp").endswith("Z")
        assert header == {"type": "session", "version": 3, "id": before["sessionId"], "cwd": str(host.around.cwd)}
        kinds = ["model_change", "thinking_level_change", "session_info", "thinking_level_change", "message", "message"]
        assert [entry["type"] for entry in entries] == kinds
        assert entries[0].items() >= {"provider": "fake", "modelId": "fake-1"}.items()
        assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
        assert all(len(entry["id"]) == 8 and entry["timestamp"].endswith("Z") for entry in entries)
        assert kept(path).messages == messages(host)
        assert state(host)["sessionName"] == "early"

        host.prompt("second")
        assert texts(kept(path).messages) == ["first", "one", "second", "two"]


def test_a_session_name_is_trimmed_saved_and_announced(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert "sessionName" not in state(host)
        host.prompt("hi")
        since = host.mark()
        assert host.request("set_session_name", name="  my work ", id="n") == {
            "type": "response",
            "id": "n",
            "command": "set_session_name",
            "success": True,
        }
        told = [frame for frame in host.frames[since:] if frame["type"] != "response"]
        assert told == ([{"type": "session_info_changed", "name": "my work"}] if dialect == "pi" else [])
        assert host.frames[-1]["type"] == "response"
        assert state(host)["sessionName"] == "my work"
        assert [entry["name"] for entry in kept(session_file(host)).of("session_info")] == ["my work"]
        for empty in ("", " \t"):
            assert host.request("set_session_name", name=empty)["error"] == "Session name cannot be empty"
        assert "name" in host.request("set_session_name")["error"]
        assert state(host)["sessionName"] == "my work"
        host.request("new_session")
        assert "sessionName" not in state(host)


# new_session


def test_a_new_session_is_empty_and_may_name_the_one_it_comes_from(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("set_model", provider="fake", modelId="fake-2")
        host.prompt("in the first")
        first = state(host)
        before = Path(first["sessionFile"]).read_bytes()
        since = host.mark()
        assert host.request("new_session")["data"] == {"cancelled": False}
        assert [frame["type"] for frame in host.frames[since:]] == ["response"]
        second = state(host)
        assert second["messageCount"] == 0
        assert second["model"]["id"] == ("fake-1" if dialect == "pi" else "fake-2")
        assert second["sessionId"] != first["sessionId"]
        assert conversation(host) == []
        host.prompt("in the second")
        assert "parentSession" not in kept(second["sessionFile"]).header

        assert host.request("new_session", parentSession=first["sessionFile"])["data"] == {"cancelled": False}
        host.prompt("in the third")
        assert kept(session_file(host)).header["parentSession"] == first["sessionFile"]
        assert texts(kept(session_file(host)).messages) == ["in the third", "ok"]
        assert Path(first["sessionFile"]).read_bytes() == before
        assert [len(request.body["messages"]) for request in host.provider.requests] == [1, 1, 1]


def test_queued_messages_stay_with_their_session(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("steer", message="for the first")
        first = session_file(host)
        since = host.mark()
        host.request("new_session")
        told = [frame for frame in host.frames[since:] if frame["type"] != "response"]
        assert told == ([{"type": "queue_update", "steering": [], "followUp": []}] if dialect == "pi" else [])
        assert state(host)["pendingMessageCount"] == 0
        host.prompt("in the second")
        assert conversation(host) == ["in the second", "ok"]
        host.request("switch_session", sessionPath=str(first))
        waiting = [] if dialect == "pi" else ["for the first"]  # pi drops them for good
        assert state(host)["pendingMessageCount"] == len(waiting)
        host.prompt("in the first")
        assert conversation(host) == ["in the first", *waiting, "ok"]
        assert state(host)["pendingMessageCount"] == 0


# switch_session


def test_a_switch_to_a_file_that_cannot_be_created_fails_and_changes_nothing(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one")]) as host:
        (tmp_path / "file").write_text("x")
        (tmp_path / "link").symlink_to("/proc/none/x")
        before = state(host)["sessionId"]
        for path in (
            "/proc/none/a.jsonl",
            "/proc/a.jsonl",
            str(tmp_path / "file" / "a.jsonl"),
            str(tmp_path / "link" / "a.jsonl"),
        ):
            answer = host.request("switch_session", sessionPath=path)
            assert not answer["success"] and "session file" in answer["error"], path
            assert state(host)["sessionId"] == before
        there = tmp_path / "new" / "a.jsonl"
        assert host.request("switch_session", sessionPath=str(there))["data"]["created"] is True
        assert there.parent.is_dir() and not there.exists(), "the first entry creates it"


def test_a_switch_to_no_file_begins_a_session_there(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        for name, path in (
            (str(tmp_path / "elsewhere" / "a.jsonl"), tmp_path / "elsewhere" / "a.jsonl"),
            ("sub/../b.jsonl", host.around.cwd / "b.jsonl"),
            ("~/c.jsonl", host.around.home / "c.jsonl"),
        ):
            assert host.request("switch_session", sessionPath=name)["data"] == {"cancelled": False, "created": True}
            assert session_file(host) == path
            assert not path.exists()
            host.prompt(f"in {path.stem}")
            assert texts(kept(path).messages) == [f"in {path.stem}", "ok"]
            assert kept(path).header["id"] == state(host)["sessionId"]
        (host.around.cwd / "empty.jsonl").touch()
        assert host.request("switch_session", sessionPath="empty.jsonl")["data"]["created"] is True
        host.prompt("in an empty file")
        assert texts(kept(host.around.cwd / "empty.jsonl").messages) == ["in an empty file", "ok"]


def test_switches_back_and_forth_bring_everything_back(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two"), says("three")]) as host:
        host.request("set_session_name", name="A")
        host.prompt("in A")
        first = state(host)
        host.request("switch_session", sessionPath="b.jsonl")
        host.request("set_model", provider="fake", modelId="fake-2")
        host.prompt("in B")
        second = state(host)
        assert "sessionName" not in second

        since = host.mark()
        assert host.request("switch_session", sessionPath=first["sessionFile"])["data"] == {"cancelled": False}
        told = [frame["type"] for frame in host.frames[since:]]
        first_told = {"pi": ["thinking_level_changed"], "omp": ["model_changed"]}.get(dialect, [])
        assert told == [*first_told, "response"]
        assert state(host) == first
        assert conversation(host) == ["in A", "one"]
        assert host.request("switch_session", sessionPath="b.jsonl")["data"] == {"cancelled": False}
        assert state(host) == second
        host.prompt("more in B")
        assert conversation(host) == ["in B", "two", "more in B", "three"]
        assert texts(kept(second["sessionFile"]).messages) == conversation(host)
        assert texts(kept(first["sessionFile"]).messages) == ["in A", "one"]


def test_a_switch_to_the_present_session_goes_to_its_end(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("one")
        before = state(host)
        host.request("navigate_tree", targetId=None)
        assert conversation(host) == []
        link = host.around.cwd / "link.jsonl"
        link.symlink_to(before["sessionFile"])
        for name in (before["sessionFile"], "link.jsonl"):
            host.request("navigate_tree", targetId=None)
            assert host.request("switch_session", sessionPath=name)["data"] == {"cancelled": False}
            assert state(host) == before
            assert conversation(host) == ["one", "ok"]


def test_a_resumed_session_works_in_its_own_directory(dialect: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    gone = tmp_path / "gone"
    with stage(tmp_path, dialect) as host:
        for place in (there, gone):
            header = {
                "type": "session",
                "version": 3,
                "id": place.name,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "cwd": str(place),
            }
            (tmp_path / f"{place.name}.jsonl").write_text(json.dumps(header) + "\n")
        host.request("switch_session", sessionPath="../there.jsonl")
        assert host.request("bash", command="pwd")["data"]["output"] == f"{there}\n"
        since = host.mark()
        assert host.request("switch_session", sessionPath=str(tmp_path / "gone.jsonl"))["success"] is True
        (problem,) = [frame for frame in host.frames[since:] if frame["type"] in ("extension_error", "notice")]
        assert str(gone) in problem["message" if dialect == "omp" else "error"]
        assert host.request("bash", command="pwd")["data"]["output"] == f"{there}\n"


def test_switching_to_an_unusable_session_is_refused_and_changes_nothing(dialect: str, tmp_path: Path) -> None:
    files = {"notes.jsonl": '{"type":"note"}\n', "torn.jsonl": '{"type":"ses'}
    with stage(tmp_path, dialect, [says("one"), says("two"), HELD], files=files) as host:
        host.prompt("hi")
        file = session_file(host)
        os.mkfifo(host.around.cwd / "fifo.jsonl")
        with another(host, dialect, "--session", "used.jsonl") as other:
            other.prompt("mine")
            since = host.mark()
            host.send({"id": "p", "type": "prompt", "message": "slow"})
            host.update("text_delta", since=since)
            before = state(host)
            refused: dict[str, str] = {}
            for name in (".", "notes.jsonl", "torn.jsonl", "used.jsonl", "fifo.jsonl", "/dev/zero", "a\0b", "", "  "):
                answer = host.request("switch_session", sessionPath=name)
                assert (answer["success"], answer["command"]) == (False, "switch_session"), name
                refused[name] = answer["error"]
            assert refused["."].endswith("Is a directory.")
            assert "is not a session file" in refused["notes.jsonl"]
            assert "is not a session file" in refused["torn.jsonl"]
            assert refused["used.jsonl"].endswith(f"is in use by another process (pid {other.process.pid}).")
            assert all(str(host.around.cwd / name) in refused[name] for name in refused if name.endswith(".jsonl"))
            assert "not a regular file" in refused["fifo.jsonl"] and "not a regular file" in refused["/dev/zero"]
            assert "NUL" in refused["a\0b"]
            assert "sessionPath" in host.request("switch_session")["error"]
            assert not any("Internal error" in error for error in refused.values())

            assert state(host) | {"contextUsage": None} == before | {"contextUsage": None}
            host.provider.release()
            host.until("agent_settled", since=since)
            assert kept(file).messages[-1]["stopReason"] == "stop", "the run went on"
            other.prompt("still mine")
            assert texts(kept(host.around.cwd / "used.jsonl").messages)[::2] == ["mine", "still mine"]


# fork and branch


@pytest.mark.parametrize("command", ["fork", "branch"])
def test_a_fork_is_a_new_session_with_what_came_before_a_message(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two"), says("three")]) as host:
        host.prompt("first")
        host.prompt("second")
        source = session_file(host)
        before = source.read_bytes()
        answer = host.request(command, entryId=user_entry(host, "second"), id="f")
        assert answer == {
            "type": "response",
            "id": "f",
            "command": command,
            "success": True,
            "data": {"text": "second", "cancelled": False},
        }
        fork = session_file(host)
        assert fork.parent == source.parent
        assert conversation(host) == ["first", "one"]
        header = kept(fork).header
        assert header["id"] == state(host)["sessionId"] != kept(source).header["id"]
        assert header["parentSession"] == str(source)
        assert kept(fork).entries == kept(source).entries[:-2]

        host.prompt("second, said otherwise")
        assert texts(kept(fork).messages) == ["first", "one", "second, said otherwise", "three"]
        assert source.read_bytes() == before


def test_a_fork_at_the_first_message_is_empty(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        source = session_file(host)
        assert host.request("fork", entryId=user_entry(host, "first"))["data"] == {"text": "first", "cancelled": False}
        fork = session_file(host)
        assert state(host)["messageCount"] == 0
        assert not fork.exists()
        host.prompt("again")
        assert kept(fork).header["parentSession"] == str(source)
        assert texts(kept(fork).messages) == ["again", "ok"]


def test_only_a_message_of_the_user_can_be_forked_at(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        before = state(host)
        leaf = host.request("get_entries")["data"]["leafId"]
        for command, what in (("fork", "forking"), ("branch", "branching")):
            for entry in ("nope", leaf, ""):
                assert host.request(command, entryId=entry)["error"] == f"Invalid entry ID for {what}"
            assert "entryId" in host.request(command)["error"]
        assert state(host) == before


def test_a_clone_has_everything_up_to_here(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two"), says("three")]) as host:
        assert (
            host.request("clone")["error"] == "This session has not been saved yet. Send a message before cloning or forking it."
        )
        host.prompt("first")
        host.prompt("second")
        entries = kept(session_file(host)).entries
        host.request("navigate_tree", targetId=entries[-3]["id"])
        source = session_file(host)
        before = source.read_bytes()
        assert host.request("clone")["data"] == {"cancelled": False}
        clone = session_file(host)
        header = kept(clone).header
        assert (header["parentSession"], header["id"]) == (str(source), state(host)["sessionId"])
        assert kept(clone).entries == entries[:-2], "the branch that is left is not part of it"
        host.prompt("third")
        assert texts(kept(clone).messages) == ["first", "one", "third", "three"]
        assert source.read_bytes() == before


def test_a_fork_leaves_what_is_queued_to_its_source(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        source = session_file(host)
        host.request("follow_up", message="later")
        host.request("clone")
        assert state(host)["pendingMessageCount"] == 0
        clone = session_file(host)
        host.request("switch_session", sessionPath=str(source))
        assert state(host)["pendingMessageCount"] == (0 if dialect == "pi" else 1)
        host.request("switch_session", sessionPath=str(clone))
        assert state(host)["pendingMessageCount"] == 0


# In memory


def test_without_sessions_nothing_is_written_whatever_the_host_does(dialect: str, tmp_path: Path) -> None:
    turns = [says("one " * 20), says("two " * 20), says("three"), SUMMARY]
    with stage(tmp_path, dialect, turns, flags=["--no-session"], settings=KEEP_LITTLE) as host:
        assert "sessionFile" not in state(host)
        host.prompt("first")
        host.prompt("second")
        host.request("set_session_name", name="nobody keeps it")
        assert state(host)["sessionName"] == "nobody keeps it"
        assert host.request("compact")["success"] is True
        host.request("steer", message="queued")
        host.request("clear_queue")
        host.request("bash", command="echo hi")
        assert host.request("clone")["data"] == {"cancelled": False}
        assert state(host)["messageCount"] > 2
        assert host.request("fork", entryId=user_entry(host, "first"))["data"]["text"] == "first"
        assert conversation(host) == []
        assert host.request("list_sessions", all=True)["data"] == {"sessions": []}
        assert host.request("export_html")["error"] == "Cannot export in-memory session to HTML"
        host.request("new_session")
        host.prompt("third")
        assert conversation(host) == ["third", "three"]
        assert "sessionFile" not in state(host)
        assert "sessionFile" not in host.request("get_session_stats")["data"]
        assert host.leave() == 0
    assert list(tmp_path.rglob("*.jsonl")) == []
    assert not (tmp_path / "home" / "sessions").exists()
