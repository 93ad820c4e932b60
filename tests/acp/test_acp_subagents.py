"""Sub-agents in ACP sessions: their calls are announced before the user is asked about them, and never hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.acp import acp
from tests.support.stage import bash, calls, says

GIVES = calls(("task", {"agent": "task", "tasks": [{"id": "Worker", "description": "work", "assignment": "Worker runs it"}]}))


def worker(*turns: Any) -> list[Any]:
    return [{"match": "Worker runs it", **turn} for turn in turns]


def test_the_call_of_a_sub_agent_is_announced_then_asked_about_then_run(tmp_path: Path) -> None:
    turns = [GIVES, *worker(calls(bash("echo x > out"))), says("done")]
    with acp(tmp_path, turns, flags=["--approval", "ask"]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("session/request_permission")
        call = asked["params"]["toolCall"]
        assert "/" in call["toolCallId"] and call["kind"] == "execute" and call["rawInput"] == {"command": "echo x > out"}
        assert client.statuses(call["toolCallId"]) == ["pending"]
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        assert client.statuses(call["toolCallId"])[-1] == "failed"


def test_a_permitted_call_of_a_sub_agent_runs(tmp_path: Path) -> None:
    turns = [GIVES, *worker(calls(bash("echo x > out"))), says("worked"), says("done")]
    with acp(tmp_path, turns, flags=["--approval", "ask"]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("session/request_permission")
        client.permit(asked, "allow_once")
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert client.statuses(asked["params"]["toolCall"]["toolCallId"]) == ["pending", "in_progress", "completed"]
        assert Path(client.cwd, "out").read_text() == "x\n"


def test_text_of_a_sub_agent_is_not_shown_as_the_answer(tmp_path: Path) -> None:
    turns = [GIVES, says("all done"), {"match": "Worker runs it", "text": "secret words of the worker"}]
    with acp(tmp_path, turns) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        assert client.said(session) == "all done"
