"""Opal's sessions: kept, resumed, branched, deleted, and apart from each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.support.gates import wait_for_exit
from tests.support.opal import asked, history, opal, opal_again, said, types
from tests.support.stage import ENDLESS, HELD, LASTING, calls, says

# Keeping


def test_a_session_is_resumed_in_another_process(tmp_path: Path) -> None:
    with opal(tmp_path, [says("First."), says("Second.")], files={"AGENTS.md": "Be brief."}) as client:
        session = client.start(session=True)
        client.prompt(session, "one")
        client.call("model/set", session_id=session, model_id="fake-2")
        assert client.host.leave() == 0
        with opal_again(client, model=None) as later:
            (listed,) = later.call("session/list")["sessions"]
            assert (listed["id"], listed["title"]) == (session, "one")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", listed["modified"])
            since = later.host.mark()
            later.start(session_id=session)
            later.until("context_discovered", session)
            assert [frame.get("id") for frame in later.host.frames[since:]] == [2, None]
            assert types(later.events()) == ["context_discovered"]
            assert history(later, session) == [("user", "one"), ("assistant", "First.")]
            state = later.call("agent/state", session_id=session)
            assert (state["message_count"], state["model"]["id"]) == (2, "fake-2")
            assert state["token_usage"]["total_tokens"] == 0
            later.prompt(session, "two")
            assert "First." in asked(later, 1)


def test_an_empty_session_is_not_saved(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session=True)
        client.start(session_id="mine")
        assert client.call("session/list") == {"sessions": []}
        client.prompt("mine", "hi")
        assert [listed["id"] for listed in client.call("session/list")["sessions"]] == ["mine"]


def test_a_session_is_kept_in_memory_unless_the_client_wants_it_saved(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        for params in ({}, {"session": False}):
            session = client.start(**params)
            client.prompt(session, "hi")
            assert history(client, session) == [("user", "hi"), ("assistant", "ok")]
        assert client.call("session/list") == {"sessions": []}
        error = client.refusal("session/compact", session_id=session)
        assert error == {"code": -32603, "message": "Session persistence not enabled — cannot compact"}


@pytest.mark.parametrize("flags", [["--no-session"], ["--isolated", "--api-key", "k"]], ids=["no session", "isolated"])
def test_nothing_is_written_where_nothing_is_to_be_kept(tmp_path: Path, flags: list[str]) -> None:
    with opal(tmp_path, flags=flags, model=None) as client:
        home = client.host.around.home
        before = sorted(home.rglob("*"))
        client.start(session_id="s")
        client.call("session/list")
        assert client.host.leave() == 0
        assert sorted(home.rglob("*")) == before


def test_any_string_can_be_an_id_and_stays_in_its_folder(tmp_path: Path) -> None:
    idents = [".", "..", "../../etc/passwd", "a/b", "UPPER", "nul\0", "naïve 😀", "x" * 1024, "a.jsonl", "a", "=a", "~", "-"]
    with opal(tmp_path, [says("kept")]) as client:
        folder = client.host.around.home / "opal" / "sessions"
        for ident in idents:
            started = client.call("session/start", session_id=ident)
            assert started["session_id"] == ident
            assert Path(started["session_dir"]).parent == folder
            client.prompt(ident, f"I am {ident}")
        assert {listed["id"] for listed in client.call("session/list")["sessions"]} == set(idents)
        written = list(tmp_path.rglob("*.jsonl"))
        assert {path.parent for path in written} == {folder}
        assert len(written) == len(idents)
        client.host.leave()
        with opal_again(client) as later:
            for ident in idents:
                later.start(session_id=ident)
                assert history(later, ident) == [("user", f"I am {ident}"), ("assistant", "kept")]
                assert later.call("session/delete", session_id=ident) == {"ok": True}
            assert not any(path.exists() for path in written)


def test_ids_that_differ_only_in_case_are_different_sessions(tmp_path: Path) -> None:
    with opal(tmp_path, [says("ok")]) as client:
        for ident in ("abc", "ABC", "Abc"):
            client.start(session_id=ident)
            client.prompt(ident, f"I am {ident}")
        names = [path.name.lower() for path in (client.host.around.home / "opal" / "sessions").iterdir()]
        assert len(set(names)) == 3
        assert [history(client, ident)[0][1] for ident in ("abc", "ABC", "Abc")] == ["I am abc", "I am ABC", "I am Abc"]


def test_a_saved_session_that_was_refused_can_be_started_after_all(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="s")
        client.prompt("s", "hi")
        client.host.leave()
        with opal_again(client) as later:
            assert later.refusal("session/start", session_id="s", tools=["nope"])["code"] == -32602
            later.start(session_id="s")
            assert len(history(later, "s")) == 2


def test_a_file_that_holds_another_session_is_not_taken_for_it(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="one")
        client.prompt("one", "hi")
        client.host.leave()
        path = client.host.around.home / "opal" / "sessions" / "one.jsonl"
        path.rename(path.with_stem("two"))
        with opal_again(client) as later:
            error = later.refusal("session/start", session_id="two")
            assert (error["code"], error["message"]) == (-32603, "Failed to start session")
            assert error["data"].endswith('holds another session than "two".')


def test_sessions_can_be_kept_elsewhere_and_have_a_name(tmp_path: Path) -> None:
    with opal(tmp_path, flags=["--session-dir", str(tmp_path / "kept"), "--name", "Mine"]) as client:
        session = client.start(session=True)
        client.prompt(session, "hi")
        assert [path.stem for path in (tmp_path / "kept").iterdir()] == [session]
        assert [listed["title"] for listed in client.call("session/list")["sessions"]] == ["Mine"]


def test_the_sessions_that_changed_last_come_first_and_those_of_other_dialects_not_at_all(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        other = client.host.around.home / "sessions" / "--elsewhere--"
        other.mkdir(parents=True)
        (other / "x.jsonl").write_text('{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n')
        for ident in ("one", "two", "one"):
            if ident not in [session["id"] for session in client.call("session/list")["sessions"]]:
                client.start(session_id=ident)
            client.prompt(ident, "hi")
        assert [listed["id"] for listed in client.call("session/list")["sessions"]] == ["one", "two"]


def test_a_session_cannot_be_started_twice(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="s")
        error = client.refusal("session/start", session_id="s")
        assert (error["code"], error["message"]) == (-32603, "Failed to start session")
        assert "already" in error["data"]
        client.prompt("s", "hi")
        with opal_again(client) as other:
            error = other.refusal("session/start", session_id="s")
            assert (error["code"], error["message"]) == (-32603, "Failed to start session")
            assert "use" in error["data"], "another process has it"
            assert other.refusal("session/delete", session_id="s")["code"] == -32603
        assert history(client, "s") == [("user", "hi"), ("assistant", "ok")]


def test_an_aborted_session_is_saved_with_all_messages(tmp_path: Path) -> None:
    with opal(tmp_path, [ENDLESS]) as client:
        client.start(session_id="s")
        client.send("agent/prompt", session_id="s", text="go")
        client.until("message_delta", "s")
        client.call("agent/abort", session_id="s")
        client.ended("s")
        client.host.leave()
        with opal_again(client) as later:
            later.start(session_id="s")
            assert history(later, "s")[0] == ("user", "go")


# History and branches


def test_history_has_thoughts_calls_and_results(tmp_path: Path) -> None:
    turns = [calls(("shell", {"command": "echo hi"}), thinking="Hm."), says("Done.")]
    with opal(tmp_path, turns) as client:
        session = client.start()
        client.prompt(session, "go")
        user, asking, result, answer = client.call("session/history", session_id=session)["messages"]
        assert (user["role"], user["content"], user["is_error"]) == ("user", "go", False)
        assert (asking["content"], asking["thinking"]) == ("", "Hm.")
        (call,) = asking["tool_calls"]
        assert (call["name"], call["arguments"]) == ("shell", {"command": "echo hi"})
        assert (result["role"], result["call_id"], result["name"]) == ("tool_result", call["call_id"], "shell")
        assert (result["content"], result["is_error"]) == ("hi\n", False)
        assert answer["content"] == "Done."
        assert len({message["id"] for message in (user, asking, result, answer)}) == 4


def test_a_branch_changes_the_context_and_survives_a_restart(tmp_path: Path) -> None:
    with opal(tmp_path, [says("A1"), says("A2"), says("B2")]) as client:
        client.start(session_id="s")
        client.prompt("s", "one")
        client.prompt("s", "two")
        entries = [message["id"] for message in client.call("session/history", session_id="s")["messages"]]
        assert client.call("session/branch", session_id="s", entry_id=entries[1]) == {}
        assert history(client, "s") == [("user", "one"), ("assistant", "A1")]
        assert client.call("agent/state", session_id="s")["message_count"] == 2
        client.host.leave()
        with opal_again(client) as later:
            later.start(session_id="s")
            assert history(later, "s") == [("user", "one"), ("assistant", "A1")]
            later.prompt("s", "three")
            assert history(later, "s")[2:] == [("user", "three"), ("assistant", "B2")]
            assert "two" not in asked(later, 2)
            assert later.call("session/branch", session_id="s", entry_id=entries[3]) == {}
            assert history(later, "s")[2:] == [("user", "two"), ("assistant", "A2")], "the old branch is still there"


def test_a_branch_to_nowhere_changes_nothing(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        session = client.start()
        client.prompt(session, "one")
        error = client.refusal("session/branch", session_id=session, entry_id="nope")
        assert (error["code"], error["message"], error["data"]) == (-32603, "Branch failed", "Entry nope not found")
        assert len(history(client, session)) == 2


def test_a_branch_ends_the_run_and_is_answered_first(tmp_path: Path) -> None:
    with opal(tmp_path, [says("A1"), HELD, says("B2")]) as client:
        session = client.start()
        client.prompt(session, "one")
        entry = client.call("session/history", session_id=session)["messages"][1]["id"]
        client.send("agent/prompt", session_id=session, text="two")
        client.until("message_delta", session, nth=2)
        since = client.host.mark()
        assert client.call("session/branch", session_id=session, entry_id=entry) == {}
        assert client.ended(session, since=since)["type"] == "agent_abort"
        assert "result" in next(frame for frame in client.host.frames[since:] if frame.get("params", {}).get("delta") is None)
        assert len(history(client, session)) == 2
        assert said(client.prompt(session, "three")) == "B2"


# Deleting


def test_deletion_deletes(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="s")
        client.prompt("s", "hi")
        assert client.call("session/delete", session_id="s") == {"ok": True}
        assert client.call("session/list") == {"sessions": []}
        assert not list((client.host.around.home / "opal" / "sessions").iterdir())
        assert client.refusal("agent/state", session_id="s")["message"] == "Session not found"
        assert client.refusal("session/delete", session_id="s")["data"] == "s"
        client.start(session_id="s")
        assert history(client, "s") == []


def test_a_saved_session_can_be_deleted_without_being_started(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="s")
        client.prompt("s", "hi")
        client.host.leave()
        with opal_again(client) as later:
            assert later.call("session/delete", session_id="s") == {"ok": True}
            assert later.call("session/list") == {"sessions": []}


def test_a_running_session_is_stopped_before_it_is_deleted(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(("shell", {"command": LASTING}))]) as client:
        client.start(session_id="s")
        client.send("agent/prompt", session_id="s", text="go")
        client.host.began.wait()
        client.until("tool_execution_start", "s")
        since = client.host.mark()
        assert client.call("session/delete", session_id="s") == {"ok": True}
        wait_for_exit(int((client.host.around.cwd / "shell").read_text()))
        assert client.ended("s")["type"] == "agent_abort"
        assert "result" in client.host.frames[since]  # before the events that it causes
        assert client.call("session/list") == {"sessions": []}
        assert not list((client.host.around.home / "opal" / "sessions").iterdir())


# Isolation


def test_sessions_work_in_folders_of_their_own(tmp_path: Path) -> None:
    turns = [calls(("shell", {"command": "pwd"})), says("ok"), calls(("shell", {"command": "pwd"})), says("ok")]
    with opal(tmp_path, turns, files={"a/x": "", "b/x": ""}) as client:
        cwd = client.host.around.cwd
        for name in ("a", "b"):
            session = client.start(working_dir=str(cwd / name))
            events = client.prompt(session, "where?")
            end = next(event for event in events if event["type"] == "tool_execution_end")
            assert end["result"]["output"] == f"{cwd / name}\n"


def test_a_session_may_be_resumed_in_another_folder(tmp_path: Path) -> None:
    turns = [says("ok"), *[calls(("shell", {"command": "pwd"})), says("ok")] * 2]
    with opal(tmp_path, turns, files={"a/x": "", "b/x": ""}) as client:
        cwd = client.host.around.cwd
        client.start(session_id="s", working_dir=str(cwd / "a"))
        client.prompt("s", "hi")
        client.host.leave()
        for folder, params in (("b", {"working_dir": str(cwd / "b")}), ("a", {})):
            with opal_again(client) as later:
                later.start(session_id="s", **params)
                end = next(event for event in later.prompt("s", "where?") if event["type"] == "tool_execution_end")
                assert end["result"]["output"] == f"{cwd / folder}\n"


def test_models_levels_and_tools_of_one_session_are_not_those_of_another(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        one, two = client.start(), client.start(system_prompt="You are two.")
        client.call("model/set", session_id=one, model_id="fake-2")
        client.call("opal/config/set", session_id=one, tools=["grep"])
        client.call("thinking/set", session_id=two, level="low")
        state = client.call("agent/state", session_id=two)
        assert state["model"] == {"provider": "fake", "id": "fake-1", "thinking_level": "low"}
        assert len(state["tools"]) > 5
        client.prompt(one, "hi")
        client.prompt(two, "hi")
        first, second = client.host.provider.requests
        assert [tool["name"] for tool in first.body["tools"]] == ["grep"]
        assert (first.body["model"], second.body["model"]) == ("fake-2", "fake-1")
        assert "You are two." not in json.dumps(first.body["system"])
        assert second.body["system"][0]["text"].startswith("You are two.")
