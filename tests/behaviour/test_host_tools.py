"""Tools that the host runs: how they are called, and all the ways in which they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import SOON
from tests.support.host_tools import (
    ECHO,
    PROMPT,
    begin,
    echo,
    ends,
    of_type,
    offer,
    output,
    result,
    tool,
    update,
)
from tests.support.stage import LASTING, bash, calls, says, stage

DIALECTS = ["pi", "omp", "xcsh"]
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


# A call


@every_dialect
def test_a_call_goes_to_the_host_and_its_result_to_the_model(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(echo("hi")), says("ok")]) as host:
        call = begin(host)
        start = host.until("tool_execution_start")
        assert call == {
            "type": "host_tool_call",
            "id": call["id"],
            "toolCallId": start["toolCallId"],
            "toolName": "echo",
            "arguments": {"text": "hi"},
        }
        assert len(call["id"]) == 16 and int(call["id"], 16)
        image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
        outcome = {"content": [{"type": "text", "text": "hi again"}, image], "details": {"loud": True}}
        host.send(result(call, outcome))
        host.until("agent_settled")
        (end,) = of_type(host, "tool_execution_end")
        assert (end["toolCallId"], end["isError"], end["result"]) == (call["toolCallId"], False, outcome)
        (message,) = [frame["message"] for frame in of_type(host, "message_end") if frame["message"]["role"] == "toolResult"]
        assert (message["content"], message["details"]) == (outcome["content"], outcome["details"])
        (answered,) = host.provider.requests[1].body["messages"][-1]["content"]
        assert (answered["type"], answered["content"][0]["text"]) == ("tool_result", "hi again")


def test_a_result_without_details_has_empty_ones(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        host.send(result(begin(host), output("done")))
        assert host.until("tool_execution_end")["result"] == {**output("done"), "details": {}}


def test_progress_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        call = begin(host)
        for number in (1, 2):
            so_far = output(f"step {number}", details={"step": number})
            host.send(update(call, so_far))
            told_of = host.until("tool_execution_update", nth=number)
            assert told_of["partialResult"] == so_far
            assert (told_of["toolCallId"], told_of["args"]) == (call["toolCallId"], call["arguments"])
        host.send(result(call, output("done")))
        host.until("agent_settled")
        assert ends(host) == [("done", False)]


def test_arguments_are_checked_before_the_host_is_asked(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(("echo", {"text": [5]})), calls(("echo", {})), says("ok")]) as host:
        offer(host, ECHO)
        host.prompt("go")
        (first, _), (second, _) = ends(host)
        assert first.startswith('Validation failed for tool "echo":\n  - text: ')
        assert second.startswith('Validation failed for tool "echo":\n  - text: missing')
        assert of_type(host, "host_tool_call") == []


@every_dialect
def test_parallel_calls_are_asked_at_once_and_answered_in_any_order(tmp_path: Path, dialect: str) -> None:
    texts = ["one", "two", "three"]
    with stage(tmp_path, dialect, [calls(*map(echo, texts)), says("ok")]) as host:
        begin(host)
        asked = [host.until("host_tool_call", nth=number) for number in (1, 2, 3)]
        assert [call["arguments"]["text"] for call in asked] == texts
        assert len({call["id"] for call in asked}) == 3
        for number in (2, 0, 1):
            host.send(result(asked[number], output(f"{texts[number]} again")))
            host.until("tool_execution_end", toolCallId=asked[number]["toolCallId"])
        host.until("agent_settled")
        answers = {end["toolCallId"]: end["result"]["content"][0]["text"] for end in of_type(host, "tool_execution_end")}
        assert answers == {call["toolCallId"]: f"{call['arguments']['text']} again" for call in asked}


def test_host_tools_run_beside_tools_that_only_read_and_apart_from_those_that_change_something(tmp_path: Path) -> None:
    turn = calls(echo(), ("ls", {}), bash("echo run"))
    with stage(tmp_path, "omp", [turn, says("ok")]) as host:
        call = begin(host)
        host.until("tool_execution_end", toolName="ls")
        assert [start["toolName"] for start in of_type(host, "tool_execution_start")] == ["echo", "ls"]
        host.send(result(call, output("done")))
        host.until("agent_settled")
        assert [end["toolName"] for end in of_type(host, "tool_execution_end")] == ["ls", "echo", "bash"]


# Failures


@pytest.mark.parametrize(
    ("outcome", "text", "details"),
    [
        (output("it failed"), "it failed", {}),
        (output("it failed", "badly", details={"code": 7}), "it failed\nbadly", {"code": 7}),
        (output(), "Host tool execution failed", {}),
    ],
    ids=["text", "texts and details", "nothing"],
)
def test_a_failure_is_the_text_that_the_host_gave(tmp_path: Path, outcome: Any, text: str, details: Any) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        host.send(result(begin(host), outcome, isError=True))
        host.until("agent_settled")
        (end,) = of_type(host, "tool_execution_end")
        assert (end["isError"], end["result"]) == (True, output(text, details=details))


MALFORMED: list[tuple[Any, str]] = [
    ({"result": None}, "result: expected an object, got null"),
    ({"result": "done"}, "result: expected an object, got a string"),
    ({"result": {"nocontent": 1}}, "result.content: required, but missing"),
    ({"result": {"content": "done"}}, "result.content: expected a list, got a string"),
    ({"result": {"content": ["done"]}}, "result.content[0]: expected an object, got a string"),
    ({"result": {"content": [{"type": "video"}]}}, 'result.content[0].type: expected "text" or "image", got \'video\''),
    ({"result": {"content": [{"type": "text"}]}}, "result.content[0].text: required, but missing"),
    (
        {"result": {"content": [{"type": "image", "data": "@@", "mimeType": "image/png"}]}},
        "result.content[0].data: expected an image in base64, got '@@'",
    ),
    ({"result": {"content": []}, "isError": "yes"}, "isError: expected true or false, got a string"),
    ({}, "result: required, but missing"),
]


def test_a_malformed_result_is_an_error_that_names_the_problem(tmp_path: Path) -> None:
    turns = [calls(echo(str(number))) for number, _ in enumerate(MALFORMED)]
    with stage(tmp_path, "omp", [*turns, says("ok")]) as host:
        offer(host, ECHO)
        host.send(PROMPT)
        for number, (fields, _) in enumerate(MALFORMED):
            call = host.until("host_tool_call", nth=number + 1)
            host.send({"type": "host_tool_result", "id": call["id"], **fields})
        host.until("agent_settled")
        assert ends(host) == [(f'Host tool "echo" returned a malformed result: {problem}', True) for _, problem in MALFORMED]
        assert of_type(host, "response")[-1]["command"] == "prompt"


def test_text_that_is_not_unicode_is_mended(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        host.write(json.dumps(result(begin(host), output("a\ud800b"))).encode() + b"\n")
        host.until("agent_settled")
        assert ends(host) == [("a\ufffdb", False)]


def test_malformed_progress_is_refused_and_the_call_continues(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        call = begin(host)
        host.send(update(call, {"content": 5}))
        answer = host.response(call["id"])
        assert answer["command"] == "host_tool_update"
        assert (answer["success"], answer["error"]) == (False, "partialResult.content: expected a list, got a number")
        host.send(result(call, output("done")))
        host.until("agent_settled")
        assert ends(host) == [("done", False)]
        assert of_type(host, "tool_execution_update") == []


@pytest.mark.parametrize("ident", [{}, {"id": None}, {"id": 5}], ids=["none", "null", "number"])
def test_an_answer_that_does_not_say_to_what_is_refused(tmp_path: Path, ident: Any) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        call = begin(host)
        since = host.mark()
        host.send({"type": "host_tool_result", "result": output("done"), **ident})
        answer = host.until("response", since=since)
        assert (answer["command"], answer["success"]) == ("host_tool_result", False)
        assert answer["error"] == "id: expected that of the frame which asked, as a string"
        host.send(result(call, output("done")))
        host.until("agent_settled")


@every_dialect
def test_answers_to_nothing_are_ignored(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(echo()), calls(echo()), says("ok")]) as host:
        first = begin(host)
        unknown = {**first, "id": "0123456789abcdef"}
        since = host.mark()
        host.send_together(
            update(unknown, output("who?")),
            result(unknown, output("who?")),
            result(unknown, "malformed, and nobody asked"),
            {"type": "host_uri_result", "id": first["id"], "content": "an answer of another kind"},
            result(first, output("once")),
            result(first, output("twice")),
            update(first, output("late")),
        )
        second = host.until("host_tool_call", nth=2)
        assert second["id"] != first["id"]
        host.send_together(result(first, output("much too late")), result(second, output("done")))
        host.until("agent_settled")
        assert ends(host) == [("once", False), ("done", False)]
        assert [frame for frame in host.frames[since:] if frame["type"] in ("response", "tool_execution_update")] == []


# Time


@every_dialect
def test_a_host_tool_timeout_is_reported_and_the_run_continues(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(("slow", {})), says("ok")]) as host:
        call = begin(host, tool("slow", timeoutMs=50))
        cancel = host.until("host_tool_cancel")
        assert cancel == {"type": "host_tool_cancel", "id": cancel["id"], "targetId": call["id"]}
        assert cancel["id"] != call["id"]
        host.send(result(call, output("late")))
        host.until("agent_settled")
        assert ends(host) == [("slow did not finish within 0.05 seconds and was stopped.", True)]
        assert host.frames.index(cancel) < host.frames.index(host.until("tool_execution_end"))
        assert len(host.provider.requests) == 2


@pytest.mark.parametrize("limit", [{}, {"timeoutMs": 0}, {"timeoutMs": None}], ids=["none", "0", "null"])
def test_a_tool_without_a_limit_of_its_own_has_none(tmp_path: Path, limit: Any) -> None:
    with stage(tmp_path, "omp", [calls(("slow", {})), says("ok")], settings={"tools": {"timeoutSeconds": 0.05}}) as host:
        call = begin(host, tool("slow", **limit))
        # More time than the limit of other tools passes: another agent starts meanwhile.
        with stage(tmp_path / "other", "pi") as other:
            other.request("get_state")
        host.send(result(call, output("done")))
        host.until("agent_settled")
        assert ends(host) == [("done", False)]


# Aborts


@every_dialect
def test_an_abort_takes_all_calls_back(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(echo("one"), echo("two")), says("later")]) as host:
        first = begin(host)
        second = host.until("host_tool_call", nth=2)
        assert host.request("abort", id="a")["success"]
        assert ends(host) == [('Host tool "echo" was aborted', True)] * 2
        cancels = of_type(host, "host_tool_cancel")
        assert [cancel["targetId"] for cancel in cancels] == [first["id"], second["id"]]
        assert len({frame["id"] for frame in (first, second, *cancels)}) == 4
        assert max(map(host.frames.index, cancels)) < host.frames.index(host.until("tool_execution_end"))
        since = host.mark()
        host.send_together(result(first, output("late")), result(second, output("late")))
        host.prompt("go on", id="p2")
        assert [frame for frame in host.frames[since:] if frame["type"].startswith("tool_execution")] == []


def test_an_answer_that_came_before_the_abort_counts(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo())]) as host:
        call = begin(host)
        host.send_together(result(call, output("done")), {"id": "a", "type": "abort"})
        host.response("a")
        assert ends(host) == [("done", False)]
        assert of_type(host, "host_tool_cancel") == []
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"


def test_a_shutdown_takes_calls_back(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo())]) as host:
        call = begin(host)
        host.request("shutdown")
        assert host.exit_code() == 0
        assert host.until("host_tool_cancel")["targetId"] == call["id"]
        assert ends(host) == [('Host tool "echo" was aborted', True)]


# A host that leaves


@every_dialect
def test_a_host_that_leaves_answers_nothing_any_more(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(echo("one"), echo("two"))]) as host:
        begin(host)
        host.until("host_tool_call", nth=2)
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
        assert ends(host) == [("RPC client disconnected before host tool execution completed", True)] * 2
        assert of_type(host, "host_tool_cancel") == []
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"


def test_a_run_that_is_finished_without_its_host_asks_it_nothing(tmp_path: Path) -> None:
    turns = [calls(echo("one")), calls(echo("two")), says("I will do without.")]
    with stage(tmp_path, "pi", turns, flags=["--on-eof", "finish"]) as host:
        begin(host)
        assert host.leave() == 0
        assert ends(host) == [("RPC client disconnected before host tool execution completed", True)] * 2
        assert len(of_type(host, "host_tool_call")) == 1
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "stop"


# Answers do not wait


def test_answers_act_although_the_commands_before_them_wait_for_a_reader(tmp_path: Path) -> None:
    commands = [{"id": number, "type": "get_tools"} for number in range(100)]
    turns = [calls(echo()), says("ok")]
    with stage(tmp_path, "pi", turns, settings={"output": {"queueBytes": 10_000}}, reading=False) as host:
        host.run_lasting_command()
        host.send_together({"type": "set_host_tools", "tools": [ECHO]}, PROMPT)
        call = host.read_frame("host_tool_call")
        host.send_together(*commands, update(call, output("half")), result(call, output("done")), result(call, output("twice")))
        # An abort_bash acts as it arrives, too, so the answers have arrived when the command has ended.
        host.send_unread({"id": "last", "type": "get_tools"})
        host.start_reading()
        host.until("agent_settled")
        host.response("last")
        assert ends(host) == [("done", False)]
        order = [frame.get("id") if frame["type"] == "response" else frame["type"] for frame in host.frames]
        assert order.index("tool_execution_end") < order.index(commands[-1]["id"])
        assert [ident for ident in order if isinstance(ident, int)] == [command["id"] for command in commands]


def test_any_amount_of_answers_is_taken(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        call = begin(host)
        # More than the agent holds of lines whose turn has not come: it must not wait for these to have one.
        for _ in range(50):
            host.send(update(call, output("x" * 50_000)))
        host.send(result(call, output("done")))
        host.until("agent_settled")
        assert ends(host) == [("done", False)]


def test_an_answer_whose_type_is_spelt_in_escapes_is_an_answer(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        line = json.dumps(result(begin(host), output("done"))).encode()
        host.write(line.replace(b'"host_tool', b'"\\u0068ost_tool') + b"\n")
        host.until("agent_settled")
        assert ends(host) == [("done", False)]


def test_a_call_continues_while_the_host_sends_other_commands(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        call = begin(host)
        host.send({"id": "own", "type": "bash", "command": LASTING})
        host.began.wait()
        assert host.request("get_state")["data"]["isStreaming"] is True
        host.send(result(call, output("done")))
        host.until("agent_settled")
        assert ends(host) == [("done", False)]
        host.request("abort_bash")
