"""The model asks the user: through a host that shows the question, whatever that host then does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import SOON, Frame
from tests.support.host_tools import PROMPT, ends, ends_in_short, of_type, told
from tests.support.stage import Stage, bash, calls, says, stage

DIALECTS = ["pi", "omp", "xcsh"]
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

QUESTION = {"id": "q1", "question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
ASK = calls(("ask", {"questions": [QUESTION]}))
UI = ["--mode", "rpc-ui"]


def begin(host: Stage) -> Frame:
    """Prompt; the question that the model asks then."""
    host.send(PROMPT)
    return host.until("extension_ui_request", method="select")


def answer(asked: Frame, **fields: Any) -> Frame:
    return {"type": "extension_ui_response", "id": asked["id"], **fields}


def cancels(host: Stage) -> list[Frame]:
    return [frame for frame in of_type(host, "extension_ui_request") if frame["method"] == "cancel"]


# Asking


@every_dialect
def test_a_question_goes_to_the_host_and_the_answer_to_the_model(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [ASK, says("ok")], flags=UI) as host:
        asked = begin(host)
        assert asked == {
            "type": "extension_ui_request",
            "id": asked["id"],
            "method": "select",
            "title": "Which?",
            "options": ["A", "B", "Other (type your own)"],
        }
        host.send(answer(asked, value="B"))
        host.until("agent_settled")
        (end,) = of_type(host, "tool_execution_end")
        assert (end["toolName"], end["isError"]) == ("ask", False)
        assert end["result"] == {
            "content": [{"type": "text", "text": "The user answered: B"}],
            "details": {"results": [{"id": "q1", "question": "Which?", "selectedOptions": ["B"]}]},
        }
        (block,) = host.provider.requests[1].body["messages"][-1]["content"]
        assert block["content"][0]["text"] == "The user answered: B"
        assert not any(frame["type"].startswith("ui_prompt") for frame in host.frames)


def test_an_answer_of_ones_own_is_typed(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=UI) as host:
        host.send(answer(begin(host), value="Other (type your own)"))
        asked = host.until("extension_ui_request", method="input")
        assert asked["title"] == "Which?"
        host.write(json.dumps(answer(asked, value="C\ud800")).encode() + b"\n")
        host.until("agent_settled")
        assert ends(host) == [("The user answered: C\ufffd", False)]


@every_dialect
def test_without_rpc_ui_there_is_no_such_tool(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [ASK, says("ok")]) as host:
        host.prompt("go")
        assert ends_in_short(host) == [("Tool ask not found", True)]
        assert "ask" not in told(host, 0)
        assert "ask" not in [tool["name"] for tool in host.request("get_tools")["data"]["tools"]]


def test_rpc_ui_adds_it_to_the_tools_of_the_dialect(tmp_path: Path) -> None:
    with stage(tmp_path / "rpc", "pi") as host:
        host.prompt("go")
        without = told(host, 0)
    with stage(tmp_path / "ui", "pi", flags=UI) as host:
        host.prompt("go")
        assert told(host, 0) == [*without, "ask"]


@pytest.mark.parametrize("flags", [["--tools", "ask,read"], [*UI, "--tools", "ask,read"]], ids=["rpc", "rpc-ui"])
def test_named_among_the_tools_it_is_there(tmp_path: Path, flags: list[str]) -> None:
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=flags) as host:
        host.send(answer(begin(host), value="A"))
        host.until("agent_settled")
        assert sorted(told(host, 0)) == ["ask", "read"]
        assert ends(host) == [("The user answered: A", False)]
        assert "Unknown tools" not in host.stderr()


@pytest.mark.parametrize("flags", [["--tools", "read"], ["--exclude-tools", "ask"], ["--no-tools"]])
def test_left_out_of_the_tools_it_is_not_there(tmp_path: Path, flags: list[str]) -> None:
    with stage(tmp_path, "omp", flags=[*UI, *flags]) as host:
        assert "ask" not in [tool["name"] for tool in host.request("get_tools")["data"]["tools"]]


def test_a_host_may_register_an_ask_tool_where_none_exists(tmp_path: Path) -> None:
    with stage(tmp_path, "omp") as host:
        mine = {"name": "ask", "description": "Asks", "parameters": {"type": "object"}}
        assert host.request("set_host_tools", tools=[mine])["success"]


def test_a_dialect_that_cannot_ask_has_no_rpc_ui(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", flags=UI) as host:
        assert host.exit_code() == 1
        assert host.stderr() == "Error: The dialect pi-2025 has no way to ask its user anything: use --mode rpc.\n"
        assert host.frames == []


def test_the_ask_tool_reports_that_the_session_has_no_user(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [ASK, says("ok")], flags=["--tools", "ask"]) as host:
        host.send({"type": "prompt", "message": "go"})
        host.until("agent_end")
        end = host.until("tool_execution_end")
        assert (end["isError"], end["result"].partition(":")[0]) == (True, "Nobody can be asked")


def test_calls_after_a_question_wait_for_its_answer(tmp_path: Path) -> None:
    turn = calls(("ask", {"questions": [QUESTION]}), bash("echo ran"))
    with stage(tmp_path, "omp", [turn, says("ok")], flags=UI) as host:
        asked = begin(host)
        host.request("get_state")
        assert [start["toolName"] for start in of_type(host, "tool_execution_start")] == ["ask"]
        host.send(answer(asked, value="A"))
        host.until("agent_settled")
        assert [text for text, _ in ends(host)] == ["The user answered: A", "ran\n"]


def test_two_questions_at_once_get_the_answers_that_were_meant_for_them(tmp_path: Path) -> None:
    other = {**QUESTION, "question": "Which other?"}
    turn = calls(("ask", {"questions": [QUESTION]}), ("ask", {"questions": [other]}))
    with stage(tmp_path, "pi", [turn, says("ok")], flags=UI) as host:
        first = begin(host)
        second = host.until("extension_ui_request", title="Which other?")
        host.send_together(answer(second, value="B"), answer(first, value="A"))
        host.until("agent_settled")
        results = [frame["message"] for frame in of_type(host, "message_end") if frame["message"]["role"] == "toolResult"]
        assert [result["content"][0]["text"] for result in results] == ["The user answered: A", "The user answered: B"]


# No answer


def test_a_dismissal_reaches_the_model_and_the_run_continues(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=UI) as host:
        host.send(answer(begin(host), cancelled=True))
        host.until("agent_settled")
        ((text, is_error),) = ends(host)
        assert text.startswith("No answer to the question: Which? (the user dismissed it)\n")
        assert not is_error
        assert len(host.provider.requests) == 2


def test_a_malformed_answer_is_rejected_and_reported_to_the_host(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=UI) as host:
        asked = begin(host)
        host.send(answer(asked, value=["A"]))
        refused = host.response(asked["id"])
        assert (refused["command"], refused["success"]) == ("extension_ui_response", False)
        assert refused["error"] == "value: expected a string, got a list"
        host.until("agent_settled")
        assert ends(host)[0][0].startswith("No answer to the question: Which?")


def test_the_time_for_an_answer_is_a_setting(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=UI, settings={"ask": {"timeout": 1}}) as host:
        asked = begin(host)
        assert asked["timeout"] == 1000
        host.until("agent_settled")
        ((text, is_error),) = ends(host)
        assert text.startswith("No answer to the question: Which? (the user dismissed it, or did not answer within 1 seconds)\n")
        assert not is_error
        assert cancels(host) == []
        since = host.mark()
        host.send(answer(asked, value="A"))
        host.request("get_state")
        assert [frame["type"] for frame in host.frames[since:]] == ["response"]


def test_a_user_has_more_time_than_a_tool(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=UI, settings={"tools": {"timeoutSeconds": 0.05}}) as host:
        asked = begin(host)
        assert "timeout" not in asked
        # More time than the limit of tools passes: another agent starts meanwhile.
        with stage(tmp_path / "other", "pi") as other:
            other.request("get_state")
        host.send(answer(asked, value="A"))
        host.until("agent_settled")
        assert ends(host) == [("The user answered: A", False)]


# Aborts and ends


@every_dialect
def test_an_abort_takes_the_question_back(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [ASK], flags=UI) as host:
        asked = begin(host)
        host.request("abort", id="a")
        assert ends(host) == [("Operation aborted", True)]
        assert [frame["targetId"] for frame in cancels(host)] == ([] if dialect == "pi" else [asked["id"]])
        since = host.mark()
        host.send(answer(asked, value="A"))
        host.request("get_state")
        assert [frame["type"] for frame in host.frames[since:]] == ["response"]


def test_an_answer_that_came_before_the_abort_counts(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK], flags=UI) as host:
        asked = begin(host)
        host.send_together(answer(asked, value="A"), {"id": "a", "type": "abort"})
        host.response("a")
        assert ends(host) == [("The user answered: A", False)]
        assert cancels(host) == []


def test_a_shutdown_does_not_wait_for_an_answer(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ASK], flags=UI) as host:
        asked = begin(host)
        host.request("shutdown")
        assert host.exit_code(patience=SOON) == 0
        assert [frame["targetId"] for frame in cancels(host)] == [asked["id"]]
        assert ends(host) == [("Operation aborted", True)]


@every_dialect
def test_a_host_that_leaves_ends_the_run(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [ASK], flags=UI) as host:
        begin(host)
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
        assert cancels(host) == []
        assert len(ends(host)) == 1
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"


def test_a_run_that_finishes_without_its_host_asks_no_questions(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ASK, ASK, says("I will decide.")], flags=[*UI, "--on-eof", "finish"]) as host:
        begin(host)
        assert host.leave() == 0
        (first, _), (second, is_error) = ends(host)
        assert "(the user has left)" in first
        assert second.startswith("Nobody can be asked") and is_error
        assert len(of_type(host, "extension_ui_request")) == 1
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "stop"


# Answers do not wait


def test_an_answer_acts_although_the_commands_before_it_wait_for_a_reader(tmp_path: Path) -> None:
    commands = [{"id": number, "type": "get_tools"} for number in range(100)]
    settings = {"output": {"queueBytes": 10_000}}
    with stage(tmp_path, "omp", [ASK, says("ok")], flags=UI, settings=settings, reading=False) as host:
        host.run_lasting_command()
        host.send(PROMPT)
        asked = host.read_frame("extension_ui_request")
        host.send_together(*commands, answer(asked, value="A"), answer(asked, value="B"))
        # An abort_bash acts as it arrives, too, so the answers have arrived when the command has ended.
        host.send_unread({"id": "last", "type": "get_tools"})
        host.start_reading()
        host.until("agent_settled")
        host.response("last")
        assert ends(host) == [("The user answered: A", False)]
        order = [frame.get("id") if frame["type"] == "response" else frame["type"] for frame in host.frames]
        assert order.index("tool_execution_end") < order.index(commands[-1]["id"])
