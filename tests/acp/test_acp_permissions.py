"""Permission requests and questions of an ACP session: complete, answered or withdrawn, and never lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.acp import acp
from tests.support.stage import bash, calls, says

ASK = ("--approval", "ask")


def asks(*options: str, **rest: Any) -> Any:
    return calls(("ask", {"questions": [{"question": "Which?", "options": [{"label": label} for label in options], **rest}]}))


def test_a_permission_request_has_the_whole_call_with_its_diff(tmp_path: Path) -> None:
    edit = ("edit", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "1"}]})
    with acp(tmp_path, [calls(edit), says("ok")], files={"a.txt": "one\n"}, flags=ASK) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("session/request_permission")
        call = asked["params"]["toolCall"]
        assert call["kind"] == "edit" and call["title"] == "Edit a.txt" and call["status"] == "pending"
        assert call["rawInput"] == edit[1]
        assert call["locations"] == [{"path": f"{client.cwd}/a.txt"}]
        assert call["content"] == [{"type": "diff", "path": f"{client.cwd}/a.txt", "oldText": "one\n", "newText": "1\n"}]
        kinds = [option["kind"] for option in asked["params"]["options"]]
        assert kinds == ["allow_once", "allow_always", "allow_always", "reject_once", "reject_always"]
        assert client.statuses(call["toolCallId"]) == ["pending"], "it is announced, and does not run yet"
        client.permit(asked, "allow_once")
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert client.statuses(call["toolCallId"]) == ["pending", "in_progress", "completed"]


@pytest.mark.parametrize(
    ("option", "runs", "questions"),
    [("allow_once", True, 2), ("allow_always", True, 1), ("reject_once", False, 2), ("reject_always", False, 1)],
)
def test_an_answer_counts_once_or_for_the_session(tmp_path: Path, option: str, runs: bool, questions: int) -> None:
    turns = [calls(bash("echo x >> out")), calls(bash("echo x >> out")), says("ok")]
    with acp(tmp_path, turns, flags=ASK) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        for nth in range(questions):
            client.permit(client.asked("session/request_permission", nth=nth + 1), option)
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert len([frame for frame in client.host.frames if frame.get("method") == "session/request_permission"]) == questions
        out = Path(client.cwd, "out")
        assert (out.read_text() if out.exists() else "") == ("x\nx\n" if runs else "")


def test_always_allow_writes_the_rule_that_the_option_names(tmp_path: Path) -> None:
    turns = [calls(bash("ls")), calls(bash("ls -a")), calls(bash("pwd")), says("ok")]
    with acp(tmp_path, turns, flags=ASK) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("session/request_permission")
        rules = [option for option in asked["params"]["options"] if option["optionId"].startswith("allow_rule")]
        assert [option["name"] for option in rules] == [
            "Always allow bash: ls, in this project",
            "Always allow bash: ls *, in this project",
        ]
        assert {option["kind"] for option in rules} == {"allow_always"}
        client.permit(asked, rules[1]["optionId"])
        client.permit(client.asked("session/request_permission", nth=2), "reject_once")
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        (rule,) = json.loads((client.host.around.home / "settings.json").read_text())["approvals"]["rules"]
        assert rule == {"tool": "bash", "pattern": "ls *", "action": "allow", "project": client.cwd}


def test_an_error_or_nonsense_as_an_answer_refuses_the_call(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash("echo x > out")), calls(bash("echo x > out")), says("ok")], flags=ASK) as client:
        prompt = client.begin(client.new(), "go")
        first = client.asked("session/request_permission")
        client.host.send({"jsonrpc": "2.0", "id": first["id"], "error": {"code": -32601, "message": "no such method"}})
        client.answer(client.asked("session/request_permission", nth=2), outcome={"outcome": "selected", "optionId": "nope"})
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert not Path(client.cwd, "out").exists()


def test_a_permission_request_without_an_answer_is_withdrawn(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash("true")), says("ok")], flags=ASK, settings={"approvals": {"timeoutSeconds": 0.1}}) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        asked = client.asked("session/request_permission")
        assert client.asked("$/cancel_request")["params"] == {"requestId": asked["id"]}


def test_a_question_is_a_form(tmp_path: Path) -> None:
    with acp(tmp_path, [asks("red", "blue"), says("ok")]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("elicitation/create")["params"]
        assert asked["mode"] == "form" and asked["message"] == "Which?" and asked["sessionId"] == session
        assert asked["toolCallId"] == client.updates(session, "tool_call")[0]["toolCallId"]
        choices = asked["requestedSchema"]["properties"]["answer"]["oneOf"]
        assert [choice["const"] for choice in choices][:2] == ["red", "blue"]
        client.answer(client.asked("elicitation/create"), action="accept", content={"answer": "blue"})
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert "blue" in str(client.host.provider.requests[-1].body["messages"])


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}, {"action": "_new"}, {"action": "accept"}])
def test_a_question_without_an_answer_lets_the_model_continue(tmp_path: Path, answer: dict[str, Any]) -> None:
    with acp(tmp_path, [asks("red", "blue"), says("ok")]) as client:
        prompt = client.begin(client.new(), "go")
        client.answer(client.asked("elicitation/create"), **answer)
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert "No answer" in str(client.host.provider.requests[-1].body["messages"])


def test_a_client_without_forms_gets_a_question_as_options(tmp_path: Path) -> None:
    with acp(tmp_path, [asks("red", "blue"), says("ok")], able={}) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("session/request_permission")
        assert asked["params"]["toolCall"]["title"] == "Which?"
        names = {option["name"]: option["optionId"] for option in asked["params"]["options"]}
        client.permit(asked, names["blue"])
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert "blue" in str(client.host.provider.requests[-1].body["messages"])


def test_a_question_for_a_text_is_shown_even_without_forms(tmp_path: Path) -> None:
    with acp(tmp_path, [asks(), says("ok")], able={}) as client:
        prompt = client.begin(client.new(), "go")
        asked = client.asked("session/request_permission")
        assert asked["params"]["toolCall"]["title"] == "Which?"
        client.permit(asked, "later")
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
