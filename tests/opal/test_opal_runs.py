"""What an Opal client is told of a run, and in which order: answers, tools, failures, sub-agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.opal import opal, outcomes, said, types
from tests.support.stage import BEGAN, WAIT, calls, says


def shell(command: str, **rest: Any) -> tuple[str, dict[str, Any]]:
    return "shell", {"command": command, **rest}


def retries(**settings: Any) -> dict[str, Any]:
    return {"retry": {"baseDelayMs": 1, **settings}}


# Answers


def test_thinking_comes_before_text(tmp_path: Path) -> None:
    with opal(tmp_path, [says("So be it.", thinking="Let me see.")]) as client:
        events = client.prompt(client.start(), "think")
        assert types(events)[2:6] == ["thinking_start", "thinking_delta", "message_start", "message_delta"]
        assert "".join(event["delta"] for event in events if event["type"] == "thinking_delta") == "Let me see."


def test_usage_is_counted_over_all_requests_of_a_session(tmp_path: Path) -> None:
    usage = {"input": 30, "output": 7, "cacheRead": 5, "cacheWrite": 2}
    with opal(tmp_path, [says("a", usage=usage), says("b", usage={"input": 100, "output": 1})]) as client:
        session = client.start()
        first = client.prompt(session, "one")[-1]
        assert first["usage"] == {
            "prompt_tokens": 37,
            "completion_tokens": 7,
            "total_tokens": 44,
            "context_window": 200_000,
            "current_context_tokens": 37,
        }
        events = client.prompt(session, "two")
        assert [event["usage"] for event in events if "usage" in event] == [
            {
                "prompt_tokens": 137,
                "completion_tokens": 8,
                "total_tokens": 145,
                "context_window": 200_000,
                "current_context_tokens": 100,
            }
        ] * 2
        assert client.call("agent/state", session_id=session)["token_usage"] == events[-1]["usage"]


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_statuses_are_separated_from_the_text(tmp_path: Path, chunk: int) -> None:
    text = "First <status>reading the code</status>this, then <status>writing</status>that. <b>"
    with opal(tmp_path, [says(text, chunk=chunk)]) as client:
        session = client.start()
        events = client.prompt(session, "go")
        assert said(events) == "First this, then that. <b>"
        assert [event["message"] for event in events if event["type"] == "status_update"] == ["reading the code", "writing"]
        history = client.call("session/history", session_id=session)["messages"]
        assert history[-1]["content"] == "First this, then that. <b>"
        assert "<status>" in client.host.provider.requests[0].body["system"][0]["text"], "the model is told of them"


# Tools


def test_tools_all_start_before_any_ends(tmp_path: Path) -> None:
    turns = [
        calls(("nope", {"a": 1}), shell("echo one"), shell("exit 3"), text="Let me look."),
        says("Done."),
    ]
    with opal(tmp_path, turns) as client:
        session = client.start()
        events = client.prompt(session, "go")
        assert types(events) == [
            "message_applied",
            "agent_start",
            "message_start",
            "message_delta",
            "usage_update",
            "turn_end",
            "tool_execution_start",
            *types(events)[7:-5],
            "tool_execution_end",
            "message_start",
            "message_delta",
            "usage_update",
            "agent_end",
        ]
        assert [event["message"] for event in events if event["type"] == "turn_end"] == ["Let me look."]
        order = [event["type"] for event in events if event["type"].startswith("tool_execution_")]
        assert order == ["tool_execution_start"] * 3 + ["tool_execution_end"] * 3
        starts = [event for event in events if event["type"] == "tool_execution_start"]
        assert [(start["tool"], start["meta"]) for start in starts] == [
            ("nope", "nope"),
            ("shell", "Run `echo one`"),
            ("shell", "Run `exit 3`"),
        ]
        ends = {event["call_id"]: event["result"] for event in events if event["type"] == "tool_execution_end"}
        assert [ends[start["call_id"]]["ok"] for start in starts] == [False, True, False]
        assert ends[starts[0]["call_id"]]["error"].startswith("Tool nope not found\nThe tools are: read_file, ")
        assert ends[starts[1]["call_id"]] == {"ok": True, "output": "one\n"}
        assert "3" in ends[starts[2]["call_id"]]["error"]
        assert client.call("agent/state", session_id=session)["message_count"] == 6


def test_each_piece_of_output_is_sent_once(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(shell(f"echo one; {BEGAN}; {WAIT}; echo two")), says("ok")]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        assert client.until("tool_output", session)["chunk"] == "one\n"
        assert client.call("agent/state", session_id=session)["status"] == "executing_tools"
        client.host.began.wait()
        client.host.go.open()
        client.ended(session)
        chunks = [event["chunk"] for event in client.events(session) if event["type"] == "tool_output"]
        assert "".join(chunks) == "one\ntwo\n"
        assert client.until("turn_end", session)["message"] == ""


def test_a_change_of_a_file_comes_with_its_diff(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(("write_file", {"path": "a.txt", "content": "one\n"})), says("ok")]) as client:
        result = outcomes(client.prompt(client.start(), "go"))["write_file"]
        assert result["ok"]
        assert result["meta"]["diff"]["lines_added"] == 1
        assert "truncated" not in result["meta"]["diff"]
        assert "meta" not in json.dumps(client.host.provider.requests[1].body["messages"])


def test_a_diff_that_was_cut_says_so(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(("write_file", {"path": "a.txt", "content": "x\n" * 3000})), says("ok")]) as client:
        diff = outcomes(client.prompt(client.start(), "go"))["write_file"]["meta"]["diff"]
        assert (diff["lines_added"], len(diff["hunks"][0]["lines"]), diff["truncated"]) == (3000, 2000, True)


def test_tasks_are_an_object_and_can_be_listed(tmp_path: Path) -> None:
    insert = ("tasks", {"action": "batch", "ops": [{"action": "insert", "label": "Fix"}, {"action": "insert", "label": "Test"}]})
    done = ("tasks", {"action": "update", "id": 1, "status": "done"})
    with opal(tmp_path, [calls(insert), calls(done), says("ok")]) as client:
        session = client.start(session_id="with-tasks")
        result = outcomes(client.prompt(session, "plan"))["tasks"]
        assert result["output"]["kind"] == "tasks"
        (task,) = client.call("tasks/list", session_id=session)["tasks"]
        assert (task["id"], task["label"], task["status"], task["parent_id"]) == ("2", "Test", "open", "")


# Failures


def test_a_failure_before_the_answer_ends_the_run_once(tmp_path: Path) -> None:
    with opal(tmp_path, [{"status": 401, "error": "bad key"}, says("better")]) as client:
        session = client.start()
        events = client.prompt(session, "go")
        assert types(events) == ["message_applied", "agent_start", "error"]
        assert events[-1]["reason"] == "401 bad key"
        assert client.is_idle(session)
        assert said(client.prompt(session, "again")) == "better"


def test_a_failure_within_the_answer_ends_the_run_once(tmp_path: Path) -> None:
    turns = [says("word " * 40, dropAfter=5)]
    with opal(tmp_path, turns, settings={"retry": {"enabled": False}}) as client:
        session = client.start()
        events = client.prompt(session, "go")
        assert types(events) == ["message_applied", "agent_start", "message_start", "message_delta", "error"]
        assert client.is_idle(session)


def test_another_attempt_is_part_of_the_same_run(tmp_path: Path) -> None:
    with opal(tmp_path, [{"status": 529, "error": "overloaded"}, says("there")], settings=retries()) as client:
        events = client.prompt(client.start(), "go")
        assert types(events) == [
            "message_applied",
            "agent_start",
            "status_update",
            "message_start",
            "message_delta",
            "usage_update",
            "agent_end",
        ]
        (status,) = (event["message"] for event in events if event["type"] == "status_update")
        assert status.endswith("(1 of 3): 529 overloaded")


def test_a_missing_key_fails_the_run_and_other_sessions_continue(tmp_path: Path) -> None:
    with opal(tmp_path, model=None) as client:
        without = client.start(model={"id": "gpt-5", "provider": "openai"})
        events = client.prompt(without, "go")
        assert types(events) == ["message_applied", "agent_start", "error"]
        assert "No API key found for openai" in events[-1]["reason"]
        assert said(client.prompt(client.start(), "go")) == "ok"


# What is found


def test_context_files_are_announced_after_the_response(tmp_path: Path) -> None:
    with opal(tmp_path, files={"AGENTS.md": "Be brief.", "sub/AGENTS.md": "Be kind."}) as client:
        cwd = client.host.around.cwd
        started = client.call("session/start", working_dir=str(cwd / "sub"))
        files = [str(cwd / "AGENTS.md"), str(cwd / "sub" / "AGENTS.md")]
        assert started["context_files"] == files
        assert client.until("context_discovered", started["session_id"])["files"] == files
        assert client.events()[0]["type"] == "context_discovered"
        client.prompt(started["session_id"], "hi")
        assert "Be kind." in json.dumps(client.host.provider.requests[0].body["system"])


def test_without_context_files_none_are_announced(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        session = client.start()
        client.prompt(session, "hi")
        assert "context_discovered" not in types(client.events(session))


def test_loading_a_skill_is_announced(tmp_path: Path) -> None:
    skill = "---\nname: greet\ndescription: How to greet.\n---\nSay hello."
    turns = [calls(("use_skill", {"skill_name": "greet"})), says("Hello.")]
    with opal(tmp_path, turns, files={".agents/skills/greet/SKILL.md": skill}) as client:
        started = client.call("session/start")
        session = started["session_id"]
        assert started["available_skills"] == ["greet"]
        assert "use_skill" in client.call("agent/state", session_id=session)["tools"]
        events = client.prompt(session, "greet")
        place = types(events).index("skill_loaded")
        assert types(events)[place - 1 : place + 2] == ["tool_execution_start", "skill_loaded", "tool_execution_end"]
        loaded = next(event for event in events if event["type"] == "skill_loaded")
        assert (loaded["name"], loaded["description"]) == ("greet", "How to greet.")
        first, second = client.host.provider.requests
        assert "How to greet." in json.dumps(first.body["system"])
        assert "Say hello." in json.dumps(second.body["messages"])


# Sub-agents


def test_sub_agent_events_are_nested_in_the_call(tmp_path: Path) -> None:
    turns = [
        calls(("sub_agent", {"prompt": "count the files"})),
        calls(shell("echo 3"), text="Counting."),
        says("Three."),
        says("It says three."),
    ]
    with opal(tmp_path, turns) as client:
        session = client.start()
        events = client.prompt(session, "go")
        start = next(event for event in events if event["type"] == "tool_execution_start")
        wrapped = [event for event in events if event["type"] == "sub_agent_event"]
        assert {event["parent_call_id"] for event in wrapped} == {start["call_id"]}
        (child,) = {event["sub_session_id"] for event in wrapped}
        assert child.startswith("sub-")
        inner = [event["inner"] for event in wrapped]
        assert types(inner) == [
            "sub_agent_start",
            "message_applied",
            "agent_start",
            "message_start",
            "message_delta",
            "usage_update",
            "turn_end",
            "tool_execution_start",
            "tool_output",
            "tool_execution_end",
            "message_start",
            "message_delta",
            "usage_update",
            "agent_end",
        ]
        assert inner[0]["model"] == "fake-1"
        assert "sub_agent" not in inner[0]["tools"]
        place = types(events).index("sub_agent_event")
        assert types(events)[place - 1 : place + 2] == ["tool_execution_start", "sub_agent_event", "tool_execution_end"]
        assert "Three." in outcomes(events)["sub_agent"]["output"]


def test_a_sub_agents_status_is_removed_from_its_answer(tmp_path: Path) -> None:
    turns = [calls(("sub_agent", {"prompt": "count the files"})), says("<status>counting</status>Three."), says("It says three.")]
    with opal(tmp_path, turns) as client:
        events = client.prompt(client.start(), "go")
        inner = [event["inner"] for event in events if event["type"] == "sub_agent_event"]
        assert [each["message"] for each in inner if each["type"] == "status_update"] == ["counting"]
        assert outcomes(events)["sub_agent"] == {"ok": True, "output": "Three."}


def test_the_usage_of_a_sub_agent_is_that_of_its_own_model(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(("sub_agent", {"prompt": "go", "model": "fake-small"})), says("Done."), says("ok")]) as client:
        events = client.prompt(client.start(), "go")
        inner = [event["inner"] for event in events if event["type"] == "sub_agent_event"]
        assert [event["usage"]["context_window"] for event in inner if "usage" in event] == [20_000, 20_000]
        assert events[-1]["usage"]["context_window"] == 200_000


OVERFLOW = "input length and `max_tokens` exceed context limit: {0} + 16384 > {1}, decrease input length or `max_tokens`"


def test_usage_tells_the_context_window_that_the_server_really_has(tmp_path: Path) -> None:
    with opal(tmp_path, [{"status": 400, "error": OVERFLOW.format(90_000, 100_000)}, says("ok"), says("again")]) as client:
        session = client.start()
        events = client.prompt(session, "go")
        assert [event["usage"]["context_window"] for event in events if "usage" in event] == [100_000, 100_000]
        assert client.call("agent/state", session_id=session)["token_usage"]["context_window"] == 100_000
        # Another session with the same model knows it, too.
        assert client.prompt(client.start(), "go")[-1]["usage"]["context_window"] == 100_000


def test_the_usage_of_a_sub_agent_tells_the_window_that_its_server_really_has(tmp_path: Path) -> None:
    overflow = {"status": 400, "error": OVERFLOW.format(9_000, 10_000)}
    turns = [calls(("sub_agent", {"prompt": "go", "model": "fake-small"})), overflow, says("Done."), says("ok")]
    with opal(tmp_path, turns) as client:
        events = client.prompt(client.start(), "go")
        inner = [event["inner"] for event in events if event["type"] == "sub_agent_event"]
        assert [event["usage"]["context_window"] for event in inner if "usage" in event] == [10_000, 10_000]
        assert events[-1]["usage"]["context_window"] == 200_000


def test_the_failure_of_a_sub_agent_is_that_of_its_call(tmp_path: Path) -> None:
    turns = [calls(("sub_agent", {"prompt": "fail"})), {"status": 401, "error": "no"}, says("It failed.")]
    with opal(tmp_path, turns) as client:
        events = client.prompt(client.start(), "go")
        assert "error" not in [event["inner"]["type"] for event in events if event["type"] == "sub_agent_event"]
        assert not outcomes(events)["sub_agent"]["ok"]
        assert events[-1]["type"] == "agent_end"


def test_a_run_that_was_interrupted_is_resumed_without_another_prompt(tmp_path: Path) -> None:
    with opal(tmp_path, [{"status": 401, "error": "bad key"}, says("better")]) as client:
        session = client.start()
        client.prompt(session, "go")
        since = client.host.mark()
        assert client.call("agent/resume", session_id=session) == {}
        client.ended(session, since=since)
        assert said(client.events(session, since=since)) == "better"
        history = client.call("session/history", session_id=session)["messages"]
        assert [each["role"] for each in history if each["role"] == "user"] == ["user"]
        refused = client.ask("agent/resume", session_id=session)
        assert "no interrupted run" in str(refused["error"])
