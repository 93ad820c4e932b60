"""Runs that go round in circles, or take too many turns: what ends them, what the model is told before, and what hosts see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.host_tools import ECHO, echo, offer, output, result
from tests.support.opal import opal
from tests.support.stage import Stage, Turn, bash, calls, says, stage

HINT = "This is the same call with the same result as before."
CIRCLE = "The run was stopped because it went round in circles: the model made the same calls"
MISSED: tuple[str, dict[str, Any]] = ("edit", {"path": "f.txt", "edits": [{"oldText": "alpha(1)", "newText": "x"}]})
FILES = {"f.txt": "alpha(2)\n"}
PROMPT: Frame = {"id": "p", "type": "prompt", "message": "go"}

family = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


def of_type(frames: Sequence[Frame], type: str) -> list[Frame]:
    return [frame for frame in frames if frame["type"] == type]


def last_answer(frames: Sequence[Frame]) -> Frame:
    ended = [frame["message"] for frame in of_type(frames, "message_end")]
    return [message for message in ended if message["role"] == "assistant"][-1]


def told_last(host: Stage, request: int) -> list[str]:
    """The texts of the last tool result in a request, from 0."""
    content = host.provider.requests[request].body["messages"][-1]["content"][-1]["content"]
    return [block["text"] for block in content]


# Circles


@family
def test_an_edit_that_fails_again_and_again_gets_a_hint_and_then_ends_the_run(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(MISSED)] * 22, files=FILES) as host:
        frames = host.prompt("go")
        assert len(host.provider.requests) == 4
        assert [any(HINT in text for text in told_last(host, number)) for number in (1, 2, 3)] == [False, True, True]
        answer = last_answer(frames)
        assert (answer["stopReason"], answer["content"]) == ("error", [])
        assert answer["errorMessage"].startswith(f"{CIRCLE} (edit) 4 times in a row")
        assert (len(of_type(frames, "agent_end")), len(of_type(frames, "agent_settled"))) == (1, 1)
        assert not of_type(frames, "auto_retry_start")
        ends = of_type(frames, "tool_execution_end")
        assert [len(end["result"]["content"]) for end in ends] == [1, 2, 2, 2]
        results = [frame["message"] for frame in of_type(frames, "message_end") if frame["message"]["role"] == "toolResult"]
        assert [message["content"] for message in results] == [end["result"]["content"] for end in ends]
        assert host.leave() == 0


def test_the_next_prompt_starts_over_without_the_error(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [*[calls(MISSED)] * 7, says("done")], files=FILES) as host:
        host.prompt("go")
        frames = host.prompt("try again", id="p2")
        assert last_answer(frames)["stopReason"] == "stop"
        assert len(host.provider.requests) == 8
        assert "circles" not in json.dumps(host.provider.requests[4].body)
        assert not any(HINT in text for text in told_last(host, 5))


def test_pi_of_2025_sees_an_error_too(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [calls(bash("echo x; exit 3"))] * 9) as host:
        host.send(PROMPT)
        end = host.until("agent_end")
        assert end["messages"][-1]["errorMessage"].startswith(CIRCLE)
        assert len(host.provider.requests) == 4
        assert host.leave() == 0
        assert len(of_type(host.frames, "agent_end")) == 1


def test_an_opal_client_receives_one_error(tmp_path: Path) -> None:
    wrong = calls(("edit_file", {"path": "f.txt", "start": "1:zz", "new_string": "x"}))
    with opal(tmp_path, [*[wrong] * 4, says("done")], files=FILES) as client:
        session = client.start()
        events = client.prompt(session, "go")
        assert [event["type"] for event in events if event["type"] in ("error", "agent_end", "agent_abort")] == ["error"]
        assert events[-1]["reason"].startswith(f"{CIRCLE} (edit_file)")
        ends = [event["result"]["error"] for event in events if event["type"] == "tool_execution_end"]
        assert [HINT in text for text in ends] == [False, True, True, True]
        assert HINT in json.dumps(client.host.provider.requests[2].body)
        assert client.prompt(session, "again")[-1]["type"] == "agent_end"


def test_an_opal_client_that_waits_for_a_command_is_not_stopped(tmp_path: Path) -> None:
    wait = calls(("shell", {"action": "wait", "id": "p1", "timeout": 150}))
    turns = [calls(("shell", {"command": "sleep 600", "timeout": 0})), *[wait] * 6, says("still at it")]
    with opal(tmp_path, turns) as client:
        assert client.prompt(client.start(), "go")[-1]["type"] == "agent_end"
        assert HINT not in json.dumps(client.host.provider.requests[-1].body)


def test_commands_that_print_nothing_may_be_repeated(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [*[calls(bash("true"))] * 20, says("done")]) as host:
        frames = host.prompt("go")
        assert last_answer(frames)["stopReason"] == "stop"
        assert [end["result"]["content"] for end in of_type(frames, "tool_execution_end")] == [
            [{"type": "text", "text": "(no output)"}]
        ] * 20


def test_a_call_whose_result_changes_may_be_repeated(tmp_path: Path) -> None:
    count = calls(bash("echo x >> f; wc -l < f"))
    with stage(tmp_path, "omp", [*[count] * 12, says("done")]) as host:
        assert last_answer(host.prompt("go"))["stopReason"] == "stop"
        assert HINT not in json.dumps(host.provider.requests[-1].body)


def test_a_retried_model_call_does_not_reset_the_counters(tmp_path: Path) -> None:
    fails = {"status": 529, "error": "Overloaded"}
    turns = [calls(MISSED), calls(MISSED), fails, calls(MISSED), calls(MISSED), says("done")]
    with stage(tmp_path, "pi", turns, files=FILES, settings={"retry": {"baseDelayMs": 1}}) as host:
        assert last_answer(host.prompt("go"))["errorMessage"].startswith(CIRCLE)
        assert len(host.provider.requests) == 5


def test_steering_resets_the_counters(tmp_path: Path) -> None:
    again = calls(bash("echo same"))
    held = calls(bash("echo same"), text="Once more, then.", holdAfter=1)
    with stage(tmp_path, "pi", [again, again, held, again, again, again, says("done")]) as host:
        host.send(PROMPT)
        host.until_asked(3)
        host.update("text_delta", since=host.mark() - 1)
        assert host.request("steer", message="go on")["success"]
        host.provider.release()
        host.until("agent_settled")
        assert last_answer(host.frames)["stopReason"] == "stop"
        assert len(host.provider.requests) == 7


def test_a_follow_up_waits_after_a_circle(tmp_path: Path) -> None:
    held = calls(bash("echo same"), text="Once more, then.", holdAfter=1)
    with stage(tmp_path, "pi", [*[calls(bash("echo same"))] * 3, held, says("done")]) as host:
        host.send(PROMPT)
        host.until_asked(4)
        assert host.request("follow_up", message="and then")["success"]
        host.provider.release()
        host.until("agent_settled")
        assert last_answer(host.frames)["errorMessage"].startswith(CIRCLE)
        assert host.request("get_state")["data"]["pendingMessageCount"] == 1
        assert len(host.provider.requests) == 4


def test_a_host_tool_that_gives_the_same_result_counts(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo())] * 9) as host:
        offer(host, ECHO)
        host.send(PROMPT)
        for number in range(1, 5):
            host.send(result(host.until("host_tool_call", nth=number), output("the same")))
        host.until("agent_settled")
        assert last_answer(host.frames)["errorMessage"].startswith(f"{CIRCLE} (echo)")


def test_a_sub_agent_that_goes_round_in_circles_fails_its_task(tmp_path: Path) -> None:
    task = calls(("task", {"agent": "task", "tasks": [{"id": "look", "description": "look", "assignment": "look here"}]}))
    turns = [task, *[calls(bash("exit 3"))] * 4, says("done")]
    with stage(tmp_path, "omp", turns) as host:
        frames = host.prompt("go")
        (end,) = [frame for frame in of_type(frames, "tool_execution_end") if frame["toolName"] == "task"]
        assert end["isError"] and CIRCLE in end["result"]["content"][0]["text"]
        assert last_answer(frames)["stopReason"] == "stop"
        assert len(host.provider.requests) == 6


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [*[calls(MISSED)] * 9, says("done")], files=FILES, settings={"maxRepeatedCalls": 0}) as host:
        assert last_answer(host.prompt("go"))["stopReason"] == "stop"
        assert HINT not in json.dumps(host.provider.requests[-1].body)


# Turns


def ls(number: int) -> Turn:
    return calls(bash(f"echo {number}"))


@pytest.mark.parametrize(("flags", "settings"), [(["--max-turns", "3"], {"maxTurns": 1}), ([], {"maxTurns": 3})])
def test_a_run_ends_after_as_many_turns_as_it_may_take(tmp_path: Path, flags: list[str], settings: dict[str, Any]) -> None:
    with stage(tmp_path, "pi", [ls(number) for number in range(5)] + [says("x")], flags=flags, settings=settings) as host:
        frames = host.prompt("go")
        assert len(host.provider.requests) == 3
        assert len(of_type(frames, "tool_execution_end")) == 3
        assert last_answer(frames)["errorMessage"].startswith("The run was stopped after 3 turns (maxTurns)")
        assert (len(of_type(frames, "agent_end")), len(of_type(frames, "agent_settled"))) == (1, 1)
        assert not of_type(frames, "auto_retry_start")
        assert last_answer(host.prompt("more", id="p2"))["stopReason"] == "stop"


def test_a_run_ends_when_it_has_cost_as_much_as_it_may(tmp_path: Path) -> None:
    turns = [{**ls(number), "usage": {"input": 100_000, "output": 10}} for number in range(3)]
    with stage(tmp_path, "pi", [*turns, says("x")], flags=["--max-cost", "0.01"]) as host:
        frames = host.prompt("go")
        assert len(host.provider.requests) == 1
        assert "and max_cost is $0.01." in last_answer(frames)["errorMessage"]
        assert len(of_type(frames, "agent_settled")) == 1


def test_as_many_turns_as_a_run_needs_are_enough(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ls(1), says("done")], flags=["--max-turns", "2"]) as host:
        assert last_answer(host.prompt("go"))["stopReason"] == "stop"


def test_a_follow_up_has_turns_of_its_own(tmp_path: Path) -> None:
    held = says("word " * 60, holdAfter=1)
    with stage(tmp_path, "pi", [held, says("done")], flags=["--max-turns", "1"]) as host:
        host.send(PROMPT)
        host.update("text_delta")
        assert host.request("follow_up", message="and then")["success"]
        host.provider.release()
        host.until("agent_settled")
        assert last_answer(host.frames)["stopReason"] == "stop"
        assert len(host.provider.requests) == 2


def test_steering_does_not_give_a_busy_run_more_turns(tmp_path: Path) -> None:
    held = calls(bash("echo a"), text="Let me look.", holdAfter=1)
    with stage(tmp_path, "pi", [held, says("done")], flags=["--max-turns", "1"]) as host:
        host.send(PROMPT)
        host.update("text_delta")
        assert host.request("steer", message="hurry")["success"]
        host.provider.release()
        host.until("agent_settled")
        assert last_answer(host.frames)["errorMessage"].startswith("The run was stopped after 1 turn (maxTurns)")
        assert host.request("get_state")["data"]["pendingMessageCount"] == 1


def test_opal_and_pi_of_2025_have_the_limit_too(tmp_path: Path) -> None:
    shell = [calls(("shell", {"command": f"echo {number}"})) for number in range(5)]
    with opal(tmp_path / "opal", shell, flags=["--max-turns", "2"]) as client:
        error = client.prompt(client.start(), "go")[-1]
        assert (error["type"], error["reason"][:36]) == ("error", "The run was stopped after 2 turns (m")
    with stage(tmp_path / "pi", "pi-2025", [ls(number) for number in range(5)], flags=["--max-turns", "2"]) as host:
        host.send(PROMPT)
        assert host.until("agent_end")["messages"][-1]["errorMessage"].startswith("The run was stopped after 2 turns")
        assert len(host.provider.requests) == 2


def test_a_sub_agent_has_turns_of_its_own(tmp_path: Path) -> None:
    task = calls(("task", {"agent": "task", "tasks": [{"id": "look", "description": "look", "assignment": "look here"}]}))
    turns = [task, ls(1), ls(2), says("done")]
    with stage(tmp_path, "omp", turns, flags=["--max-turns", "2"]) as host:
        frames = host.prompt("go")
        (end,) = [frame for frame in of_type(frames, "tool_execution_end") if frame["toolName"] == "task"]
        assert end["isError"] and "The run was stopped after 2 turns" in end["result"]["content"][0]["text"]
        assert last_answer(frames)["stopReason"] == "stop"
