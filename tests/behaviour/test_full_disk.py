"""Sessions that cannot be written: a full disk, a folder that is none, a file that is gone. Nothing is lost or half there."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.session_file import notes_path
from tests.support.session_host import kept, messages, session_file, state
from tests.support.stage import HELD, WAIT, Stage, Turn, bash, calls, says, stage

needs_limits = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of a running process cannot be set here")
every_dialect = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


@contextmanager
def agent(root: Path, dialect: str, turns: Sequence[Turn] = ({"text": "ok"},), **rest: Any) -> Generator[Stage]:
    """An agent whose disk may become full.

    It must not write bytecode: Python does not notice if that is cut short, and could never load the module again.
    """
    flags = [*rest.pop("flags", ()), "--exclude-tools", "todo_write"]  # xcsh would put a message before the first prompt
    with stage(root, dialect, turns, flags=flags, env={"PYTHONDONTWRITEBYTECODE": "1"}, **rest) as host:
        yield host


@contextmanager
def full_disk(host: Stage, room: int = 20, *, notes: bool = False) -> Generator[None]:
    """The session's file cannot grow by more than `room` bytes: the write that goes beyond ends early, and the next one fails.

    With `notes` this is true of the notes beside it.
    """
    path = notes_path(session_file(host)) if notes else session_file(host)
    size = path.stat().st_size if path.exists() else 0
    pid = host.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def refusal(host: Stage, type: str, **fields: object) -> str:
    """Why a command is refused. omp and xcsh acknowledge a prompt first, and refuse it then."""
    since = host.mark()
    host.send({"id": "refused", "type": type, **fields})
    return host.until("response", since=since, id="refused", success=False)["error"]


def troubles(host: Stage) -> list[Frame]:
    """What the agent says about its own problems, in the words of most dialects; omp has notices for that."""
    notices = [frame for frame in host.frames if frame["type"] == "notice"]
    told = [{"extensionPath": "session", "event": each["source"], "error": each["message"]} for each in notices]
    return [frame for frame in host.frames if frame["type"] == "extension_error"] + told


def start_held_run(host: Stage) -> None:
    """Prompt, and return while the model is in the middle of its answer."""
    host.send({"id": "p", "type": "prompt", "message": "go"})
    host.update("text_delta")


def finish_held_run(host: Stage) -> None:
    host.provider.release()
    host.until("agent_settled")


# What is asked for is refused


@needs_limits
@every_dialect
@pytest.mark.parametrize("room", [0, 20])
def test_a_prompt_that_cannot_be_written_is_refused_and_nothing_changes(dialect: str, room: int, tmp_path: Path) -> None:
    with agent(tmp_path, dialect) as host:
        host.prompt("one")
        path = session_file(host)
        before, stood = path.read_bytes(), state(host)
        with full_disk(host, room):
            since = host.mark()
            error = refusal(host, "prompt", message="two")
            assert error == f"Cannot write session file {path}: File too large."
            assert state(host) == stood
            assert {frame["type"] for frame in host.frames[since:]} <= {"response", "prompt_result"}
            assert path.read_bytes() == before
        host.prompt("three")
        assert len(host.provider.requests) == 2
        assert kept(path).user_texts() == ["one", "three"]
        assert kept(path).messages == messages(host)


@needs_limits
def test_a_first_prompt_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    with agent(tmp_path, "pi") as host:
        path = session_file(host)
        with full_disk(host):
            assert str(path) in refusal(host, "prompt", message="one")
            assert not path.exists()
            assert messages(host) == []
        host.prompt("two")
        assert kept(path).user_texts() == ["two"]


@every_dialect
def test_a_folder_that_cannot_be_made_is_named_and_tried_again(dialect: str, tmp_path: Path) -> None:
    obstacle = tmp_path / "sessions"
    obstacle.write_text("not a folder")
    with agent(tmp_path / "root", dialect, flags=["--session-dir", str(obstacle / "mine")]) as host:
        path = session_file(host)
        error = refusal(host, "prompt", message="one")
        assert error == f"Cannot write session file {path}: Not a directory."
        assert host.provider.requests == []
        assert messages(host) == []
        obstacle.unlink()
        host.prompt("two")
        assert kept(path).messages == messages(host)
        assert kept(path).user_texts() == ["two"]
        assert troubles(host) == []


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="there is no folder here that not even root can write to")
def test_with_an_unwritable_folder_the_host_can_use_another(tmp_path: Path) -> None:
    with agent(tmp_path, "pi", flags=["--session-dir", "/sys/sessions"]) as host:
        path = session_file(host)
        assert path.parent == Path("/sys/sessions")
        assert refusal(host, "prompt", message="one").startswith(f"Cannot write session file {path}: ")
        assert str(path) in refusal(host, "steer", message="two")
        assert host.request("switch_session", sessionPath=str(tmp_path / "elsewhere.jsonl"))["success"]
        host.prompt("three")
        assert kept(tmp_path / "elsewhere.jsonl").user_texts() == ["three"]


@needs_limits
@every_dialect
def test_a_message_that_cannot_be_queued_is_refused_and_never_delivered(dialect: str, tmp_path: Path) -> None:
    with agent(tmp_path, dialect, [HELD, says("A"), says("B"), says("C")]) as host:
        start_held_run(host)
        assert host.request("steer", message="first")["success"]
        path = session_file(host)
        with full_disk(host, notes=True):
            for command in ("steer", "follow_up"):
                assert str(path) in refusal(host, command, message="lost")
            assert str(path) in refusal(host, "prompt", message="lost", streamingBehavior="steer")
            assert state(host)["pendingMessageCount"] == 1
        assert host.request("follow_up", message="last")["success"]
        finish_held_run(host)
        assert kept(path).user_texts() == ["go", "first", "last"]
        assert kept(path).waiting() == []


@needs_limits
def test_a_name_and_a_label_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with agent(tmp_path, "pi") as host:
        host.prompt("one")
        host.request("set_session_name", name="old")
        path = session_file(host)
        before = path.read_bytes()
        target = kept(path).entries[-1]["id"]
        with full_disk(host):
            assert str(path) in refusal(host, "set_session_name", name="new")
            assert str(path) in refusal(host, "set_label", targetId=target, label="here")
            assert state(host)["sessionName"] == "old"
            assert "here" not in str(host.request("get_tree")["data"])
        assert path.read_bytes() == before
        assert "session_info_changed" not in [frame["type"] for frame in host.frames[-6:]]


@needs_limits
@pytest.mark.parametrize("dialect", ["pi", "omp"])
def test_a_compaction_that_cannot_be_written_fails_and_changes_nothing(dialect: str, tmp_path: Path) -> None:
    turns = [says("reply " * 100), says("reply " * 100), says("a summary")]
    with agent(tmp_path, dialect, turns, settings={"compaction": {"keepRecentTokens": 10}}) as host:
        host.prompt("one")
        host.prompt("two")
        path = session_file(host)
        before = messages(host)
        with full_disk(host):
            assert str(path) in refusal(host, "compact")
            assert messages(host) == before
            assert state(host)["isCompacting"] is False
        assert kept(path).of("compaction") == []
        assert host.request("compact")["data"]["summary"].startswith("a summary")
        assert len(kept(path).of("compaction")) == 1


@needs_limits
@pytest.mark.parametrize("command", ["fork", "clone"])
def test_a_fork_that_cannot_be_written_leaves_the_host_where_it_is(command: str, tmp_path: Path) -> None:
    with agent(tmp_path, "pi", [says("word " * 200)]) as host:
        host.prompt("one")
        host.prompt("two")
        path = session_file(host)
        place = {"entryId": host.request("get_fork_messages")["data"]["messages"][1]["entryId"]} if command == "fork" else {}
        before = messages(host)
        with full_disk(host, room=100 - path.stat().st_size):
            refusal(host, command, **place)
            assert session_file(host) == path
            assert messages(host) == before
        assert list(path.parent.iterdir()) == [path]
        assert host.request(command, **place)["success"]
        assert kept(session_file(host)).header["parentSession"] == str(path)


# What has happened is kept in memory, and written later


@needs_limits
@every_dialect
def test_a_run_continues_and_is_written_with_the_next_prompt(dialect: str, tmp_path: Path) -> None:
    turns = [calls(bash("echo one"), bash("echo two")), HELD, says("word " * 2000), says("after")]
    with agent(tmp_path, dialect, turns) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        path = session_file(host)
        with full_disk(host):
            before = path.read_bytes()
            host.provider.release()
            host.until("agent_settled")
            (trouble,) = troubles(host)
            assert (trouble["extensionPath"], trouble["event"]) == ("session", "write")
            assert trouble["error"].startswith(f"Cannot write session file {path}: File too large.")
            assert [message["role"] for message in messages(host)] == [
                "user",
                "assistant",
                "toolResult",
                "toolResult",
                "assistant",
            ]
            assert path.read_bytes() == before
            assert str(path) in refusal(host, "prompt", message="not now")
            assert len(troubles(host)) == 1
        host.prompt("next")
        assert kept(path).messages == messages(host)
        assert kept(path).user_texts() == ["go", "next"]
        assert len(troubles(host)) == 1


@needs_limits
@every_dialect
def test_a_disk_that_has_room_again_during_the_run_gets_everything_in_order(dialect: str, tmp_path: Path) -> None:
    with agent(tmp_path, dialect, [calls(bash(WAIT)), calls(bash(WAIT)), says("done")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("tool_execution_start")
        path = session_file(host)
        with full_disk(host):
            before = path.read_bytes()
            host.go.open()
            host.until("tool_execution_start", nth=2)
            (trouble,) = troubles(host)
            assert str(path) in trouble["error"]
            assert path.read_bytes() == before
        host.go.open()
        host.until("agent_settled")
        assert kept(path).messages == messages(host)
        assert len(kept(path).messages) == 6
        assert len(troubles(host)) == 1


@needs_limits
def test_unwritten_entries_are_written_when_the_host_leaves(tmp_path: Path) -> None:
    with agent(tmp_path, "pi", [HELD]) as host:
        start_held_run(host)
        path = session_file(host)
        with full_disk(host):
            finish_held_run(host)
            said = messages(host)
            assert len(kept(path).messages) == 1
        assert host.leave() == 0
        assert kept(path).messages == said


@needs_limits
def test_a_second_full_disk_is_reported_again(tmp_path: Path) -> None:
    with agent(tmp_path, "pi", [calls(bash(WAIT)), says("one"), calls(bash(WAIT)), says("two")]) as host:
        for count in (1, 2):
            since = host.mark()
            host.send({"id": count, "type": "prompt", "message": "go"})
            host.until("tool_execution_start", since=since)
            with full_disk(host):
                host.go.open()
                host.until("agent_settled", since=since)
                assert [(frame["extensionPath"], frame["event"]) for frame in troubles(host)] == [("session", "write")] * count


@needs_limits
@every_dialect
def test_a_command_of_the_host_is_answered_and_written_later(dialect: str, tmp_path: Path) -> None:
    with agent(tmp_path, dialect, [HELD, says("next")]) as host:
        start_held_run(host)
        path = session_file(host)
        with full_disk(host):
            assert host.request("bash", command="echo during")["data"]["output"] == "during\n"
            finish_held_run(host)
            assert host.request("bash", command="echo after")["data"]["output"] == "after\n"
            assert len(troubles(host)) == 1
            assert [m["command"] for m in messages(host) if m["role"] == "bashExecution"] == ["echo during", "echo after"]
        host.prompt("next")
        assert kept(path).messages == messages(host)
        assert kept(path).waiting() == []


@needs_limits
def test_a_choice_that_cannot_be_written_holds_and_is_written_later(tmp_path: Path) -> None:
    with agent(tmp_path, "pi") as host:
        host.prompt("one")
        path = session_file(host)
        with full_disk(host):
            assert host.request("set_model", provider="fake", modelId="fake-2")["success"]
            assert len(troubles(host)) == 1
            assert kept(path).model() == "fake-1"
        host.prompt("two")
        assert [entry["modelId"] for entry in kept(path).of("model_change")] == ["fake-1", "fake-2"]
        assert kept(path).messages == messages(host)


# Switching away


@needs_limits
@every_dialect
@pytest.mark.parametrize("way", ["prompt", "leave"])
def test_an_unsaved_session_that_was_left_is_written_when_there_is_room(dialect: str, way: str, tmp_path: Path) -> None:
    with agent(tmp_path, dialect, [HELD, says("new")]) as host:
        start_held_run(host)
        path = session_file(host)
        with full_disk(host):
            finish_held_run(host)
            said = messages(host)
            assert host.request("new_session")["success"]
            assert messages(host) == []
        if way == "prompt":
            host.prompt("elsewhere")
            assert kept(session_file(host)).messages == messages(host)
        else:
            assert host.leave() == 0
        assert kept(path).messages == said


@needs_limits
@pytest.mark.parametrize("still_full", [True, False])
def test_the_host_can_go_back_to_an_unsaved_session(still_full: bool, tmp_path: Path) -> None:
    with agent(tmp_path, "pi", [HELD, says("back")]) as host:
        start_held_run(host)
        path = session_file(host)
        with full_disk(host):
            finish_held_run(host)
            said = messages(host)
            host.request("new_session")
            if still_full:
                assert host.request("switch_session", sessionPath=str(path))["success"]
                assert messages(host) == said
        if not still_full:
            assert host.request("switch_session", sessionPath=str(path))["success"]
            assert messages(host) == said
        host.prompt("here again")
        assert kept(path).messages == messages(host)
        assert messages(host)[: len(said)] == said


# A file that is gone


@every_dialect
def test_a_removed_session_folder_is_noticed_and_recreated_by_a_new_session(dialect: str, tmp_path: Path) -> None:
    with agent(tmp_path, dialect, [HELD, says("new")]) as host:
        start_held_run(host)
        path = session_file(host)
        shutil.rmtree(path.parent)
        finish_held_run(host)
        (trouble,) = troubles(host)
        assert str(path) in trouble["error"]
        assert [message["role"] for message in messages(host)] == ["user", "assistant"]
        assert str(path) in refusal(host, "prompt", message="two")
        assert host.request("new_session")["success"]
        host.prompt("elsewhere")
        assert kept(session_file(host)).user_texts() == ["elsewhere"]
        assert not path.exists()
