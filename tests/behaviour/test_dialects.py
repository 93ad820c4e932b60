"""What differs between the members of the family, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame, Host
from tests.support.stage import BEGAN, ENDLESS, HELD, WAIT, bash, calls, says, stage
from tests.support.surroundings import rpc, surroundings

from fairlead import __version__

DIALECTS = ("pi", "omp", "xcsh")
LATE_ERRORS = ("omp", "xcsh")

all_dialects = pytest.mark.parametrize("dialect", DIALECTS)


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def responses(frames: list[Frame], ident: Any) -> list[Frame]:
    return [frame for frame in frames if frame["type"] == "response" and frame.get("id") == ident]


# The first frame


def test_pi_says_nothing_unasked(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.request("get_state")
        assert host.leave() == 0
        assert kinds(host.frames) == ["response"]


def test_omp_says_that_it_is_ready(tmp_path: Path) -> None:
    with stage(tmp_path, "omp") as host:
        host.request("get_state")
        assert host.frames[0].items() >= {"type": "ready", "protocolVersion": 1, "maxFrameBytes": 1 << 20}.items()


def test_xcsh_says_that_it_is_ready_and_its_version(tmp_path: Path) -> None:
    with stage(tmp_path, "xcsh") as host:
        host.request("get_state")
        assert host.frames[0] == {"type": "ready", "version": __version__}


# Errors


@pytest.mark.parametrize(("dialect", "echoed"), [("pi", True), ("omp", False), ("xcsh", False)])
def test_an_unknown_command_is_answered_with_its_id_or_without(dialect: str, echoed: bool, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.send({"id": "u", "type": "bogus"})
        answer = host.until("response", command="bogus")
        assert answer["error"] == "Unknown command: bogus"
        assert answer["success"] is False
        assert (answer.get("id") == "u") is echoed
        assert ("id" in answer) is echoed


@all_dialects
def test_other_failures_have_the_id_and_the_command(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request("set_model", provider="nope", modelId="x", id=1) == {
            "type": "response",
            "id": 1,
            "command": "set_model",
            "success": False,
            "error": "Model not found: nope/x",
        }
        assert host.request("set_session_name", id=2).items() >= {"command": "set_session_name", "success": False}.items()


BUSY = {
    "pi": "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
    "omp": "Agent is already processing. Use steer() or followUp() to queue messages, or wait for completion.",
    "xcsh": "Agent is already processing. Use steer() or followUp() to queue messages, or wait for completion.",
}


@all_dialects
def test_a_prompt_to_a_busy_agent_is_refused(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [HELD]) as host:
        host.send({"id": "p", "type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.send({"id": "q", "type": "prompt", "message": "no behaviour"})
        host.request("get_state")
        answers = responses(host.frames, "q")
        assert answers[-1].items() >= {"success": False, "command": "prompt", "error": BUSY[dialect]}.items()
        assert [answer["success"] for answer in answers] == ([True, False] if dialect in LATE_ERRORS else [False])
        assert host.request("get_state")["data"]["queuedMessageCount"] == 0


@all_dialects
def test_a_prompt_without_a_model_is_refused(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, model=None, flags=["--isolated"]) as host:
        assert host.request("get_state")["data"]["model"] is None
        host.send({"id": "p", "type": "prompt", "message": "hi"})
        host.request("get_messages")
        answers = responses(host.frames, "p")
        assert answers[-1]["error"].startswith("No model selected.")
        assert [answer["success"] for answer in answers] == ([True, False] if dialect in LATE_ERRORS else [False])
        assert "agent_start" not in kinds(host.frames)


@all_dialects
def test_a_prompt_without_a_key_is_refused(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, model="anthropic/claude-sonnet-4-5", flags=["--isolated"]) as host:
        host.send({"id": "p", "type": "prompt", "message": "hi"})
        error = host.until("response", id="p", success=False)
        assert "anthropic" in error["error"]
        host.request("get_messages")
        answers = responses(host.frames, "p")
        assert [answer["success"] for answer in answers] == ([True, False] if dialect in LATE_ERRORS else [False])
        assert "agent_start" not in kinds(host.frames)


# Events that only some hosts know


@pytest.mark.parametrize(("dialect", "sent"), [("pi", True), ("omp", False), ("xcsh", False)])
def test_queue_and_level_events_come_before_the_response_or_not_at_all(dialect: str, sent: bool, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("steer", message="left")
        host.request("follow_up", message="later")
        host.request("set_thinking_level", level="low")
        told = [frame for frame in host.frames if frame["type"] not in ("ready", "response", "available_commands_update")]
        assert told == (
            [
                {"type": "queue_update", "steering": ["left"], "followUp": []},
                {"type": "queue_update", "steering": ["left"], "followUp": ["later"]},
                {"type": "thinking_level_changed", "level": "low"},
            ]
            if sent
            else []
        )
        if sent:
            assert kinds(host.frames) == [
                "queue_update",
                "response",
                "queue_update",
                "response",
                "thinking_level_changed",
                "response",
            ]


# The end of work


@pytest.mark.parametrize(
    ("dialect", "end"),
    [
        ("pi", ["agent_end", "agent_settled"]),
        ("omp", ["agent_end", "prompt_result", "session_settled", "agent_settled"]),
        ("xcsh", ["agent_end", "agent_settled"]),
    ],
)
def test_work_ends_in_this_order(dialect: str, end: list[str], tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["--exclude-tools", "todo_write"]) as host:
        frames = host.prompt("hi", id="p")
        assert kinds(frames)[-len(end) :] == end
        assert {kind: kinds(frames).count(kind) for kind in end} == dict.fromkeys(end, 1)
        finished = host.until("agent_end")
        assert [message["role"] for message in finished["messages"]] == ["user", "assistant"]
        assert finished.get("willRetry") == (False if dialect == "pi" else None)
        assert ("willRetry" in finished) is (dialect == "pi")


def test_omp_reports_the_outcome_of_each_prompt(tmp_path: Path) -> None:
    turns = [says("fine"), {"status": 400, "error": "no such thing"}, ENDLESS]
    with stage(tmp_path, "omp", turns) as host:
        host.prompt("one", id={"any": "value"})
        host.prompt("two", id="p2")
        host.send({"type": "prompt", "message": "three"})
        host.update("text_delta", since=host.mark() - 1)
        host.request("abort")
        done, failed, aborted = (frame for frame in host.frames if frame["type"] == "prompt_result")
        common = {"type": "prompt_result", "agentInvoked": True, "sessionSettled": True}
        assert done == common | {"id": {"any": "value"}, "status": "completed"}
        error = failed.pop("error")
        assert failed == common | {"id": "p2", "status": "error"}
        assert "no such thing" in error["message"]
        assert error.items() >= {"provider": "fake", "model": "fake-1", "httpStatus": 400, "retryable": False}.items()
        assert aborted == common | {"status": "aborted"}


def test_omp_tells_that_a_prompt_was_aborted_while_it_waited_for_another_attempt(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [{"status": 529, "error": "Overloaded"}]) as host:
        host.send({"id": "p", "type": "prompt", "message": "hi"})
        host.until("auto_retry_start")
        host.request("abort")
        result = host.until("prompt_result")
        assert result["status"] == "aborted" and "error" not in result
        assert host.until("agent_settled")["aborted"] is True


def test_omp_reports_queued_prompts_together_and_the_first_of_the_run_last(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [HELD, says("A"), says("B")]) as host:
        host.send({"id": "p1", "type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.request("prompt", id="p2", message="steer", streamingBehavior="steer")
        host.request("prompt", id="p3", message="follow", streamingBehavior="followUp")
        host.provider.release()
        host.until("agent_settled")
        assert [frame["id"] for frame in host.frames if frame["type"] == "prompt_result"] == ["p2", "p3", "p1"]


def test_omp_reports_a_prompt_left_queued_by_an_abort_only_on_delivery(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [ENDLESS, says("fine")]) as host:
        host.send({"id": "p1", "type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.request("prompt", id="p2", message="steer", streamingBehavior="steer")
        host.request("abort")
        host.prompt("next", id="p3")
        told = [(frame["id"], frame["status"]) for frame in host.frames if frame["type"] == "prompt_result"]
        assert told == [("p1", "aborted"), ("p2", "completed"), ("p3", "completed")]


def test_omp_does_not_call_a_prompt_completed_that_was_taken_out_of_the_queue(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [HELD]) as host:
        host.send({"id": "p1", "type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.request("prompt", id="p2", message="steer", streamingBehavior="steer")
        assert host.request("clear_queue")["data"] == {"steering": ["steer"], "followUp": []}
        host.provider.release()
        host.until("agent_settled")
        told = {frame["id"]: frame["status"] for frame in host.frames if frame["type"] == "prompt_result"}
        assert told == {"p1": "completed", "p2": "aborted"}


# State


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_thinking_level_of_a_model_without_reasoning(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, model="fake/fake-2") as host:
        state = host.request("get_state")["data"]
        assert state["thinkingLevel"] == "off"
        cycled = host.request("cycle_model")["data"]
        assert cycled["model"]["id"] == "fake-small"
        assert cycled["thinkingLevel"] == "off"
        assert host.request("set_thinking_level", level="high")["data"] == {"level": "off"}
        assert host.request("cycle_thinking_level")["data"] is None
        host.request("set_model", provider="fake", modelId="fake-1")
        assert host.request("set_thinking_level", level="auto")["data"] == {"level": "medium"}
        assert host.request("set_thinking_level", level="max")["data"] == {"level": "high"}


@all_dialects
def test_the_default_level_comes_back_after_a_model_without_thinking_but_not_in_pi(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, model="fake/fake-2") as host:
        host.request("set_model", provider="fake", modelId="fake-1")
        assert host.request("get_state")["data"]["thinkingLevel"] == ("off" if dialect == "pi" else "medium")


@pytest.mark.parametrize(("dialect", "mode"), [("pi", "wait"), ("omp", "immediate"), ("xcsh", "wait")])
def test_the_default_interrupt_mode(dialect: str, mode: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request("get_state")["data"]["interruptMode"] == mode


@all_dialects
def test_the_prompt_and_the_tools_are_in_the_state_on_request_and_always_in_xcsh(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        state = host.request("get_state")["data"]
        assert ("systemPrompt" in state, "dumpTools" in state) == ((True, True) if dialect == "xcsh" else (False, False))
        verbose = host.request("get_state", verbose=True)["data"]
        assert isinstance(verbose["systemPrompt"], str)
        assert verbose["dumpTools"][0].keys() == {"name", "description", "parameters"}


@pytest.mark.parametrize(
    ("dialect", "least"),
    [
        ("pi", {"read", "bash", "edit", "write"}),
        ("omp", {"read", "bash", "edit", "write", "grep", "find", "ls", "task", "todo_write"}),
        ("xcsh", {"read", "bash", "edit", "write", "grep", "find", "ls", "task", "todo_write"}),
    ],
)
def test_the_tools_that_are_active_by_default(dialect: str, least: set[str], tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        active = {tool["name"] for tool in host.request("get_tools")["data"]["tools"] if tool["active"]}
        assert active == least


# bash


@all_dialects
def test_the_fields_of_a_bash_response(dialect: str, tmp_path: Path) -> None:
    counts = {"totalLines": 3, "totalBytes": 4, "outputLines": 3, "outputBytes": 4} if dialect != "pi" else {}
    with stage(tmp_path, dialect) as host:
        assert host.request("bash", command="echo a; echo b >&2; exit 3")["data"] == {
            "output": "a\nb\n",
            "exitCode": 3,
            "cancelled": False,
            "truncated": False,
            **counts,
        }


@all_dialects
def test_a_long_output_is_cut_and_the_whole_of_it_is_in_a_file(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        data = host.request("bash", command="seq 1 5000")["data"]
        assert data["truncated"] is True
        assert data["output"].rstrip("\n").endswith("4999\n5000")
        assert Path(data["fullOutputPath"]).read_text().splitlines() == [str(n) for n in range(1, 5001)]


@all_dialects
def test_a_cancelled_bash_command_says_so(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.send({"id": "b", "type": "bash", "command": f"echo started; {BEGAN}; sleep 60"})
        host.began.wait()
        host.request("abort_bash")
        data = host.response("b")["data"]
        assert data["output"] == ("started\n" if dialect == "pi" else "[Command cancelled]\nstarted\n")
        assert data["cancelled"] is True
        assert "exitCode" not in data


# How the tools of one turn run


def tool_frames(frames: list[Frame]) -> list[str]:
    """Starts, ends and result messages, by the number of their call."""
    shown: list[str] = []
    for frame in frames:
        if frame["type"] in ("tool_execution_start", "tool_execution_end"):
            shown.append(f"{frame['type'][15:]} {frame['toolCallId'][-1]}")
        elif frame["type"] == "message_end" and frame["message"]["role"] == "toolResult":
            shown.append(f"result {frame['message']['toolCallId'][-1]}")
    return shown


def test_pi_runs_the_tools_of_a_turn_together_and_gives_their_results_in_call_order(tmp_path: Path) -> None:
    turn = calls(bash(f"{WAIT}; echo first"), bash(f'echo > "$HOME/go"; {BEGAN}; echo second'))
    with stage(tmp_path, "pi", [turn, says("done")]) as host:
        frames = tool_frames(host.prompt("run both"))
        host.began.wait()
        assert frames[:2] == ["start 0", "start 1"]
        assert sorted(frames[2:4]) == ["end 0", "end 1"]
        assert frames[4:] == ["result 0", "result 1"]


@pytest.mark.parametrize(("dialect", "mode"), [("omp", "wait"), ("omp", "immediate"), ("xcsh", "wait"), ("pi", "immediate")])
def test_tools_that_change_the_machine_run_alone_and_readers_together(dialect: str, mode: str, tmp_path: Path) -> None:
    turn = calls(
        bash("test ! -e later && echo first"),
        ("write", {"path": "later", "content": "x"}),
        ("read", {"path": "later"}),
        ("ls", {}),
        bash("test -e later"),
    )
    with stage(tmp_path, dialect, [turn, says("done")], flags=["--tools", "bash,write,read,ls"]) as host:
        host.request("set_interrupt_mode", mode=mode)
        frames = tool_frames(host.prompt("run all"))
        assert frames[:6] == ["start 0", "end 0", "result 0", "start 1", "end 1", "result 1"]
        assert frames[6:8] == ["start 2", "start 3"]
        assert [frames[8:12]] in ([["end 2", "result 2", "end 3", "result 3"]], [["end 3", "result 3", "end 2", "result 2"]])
        assert frames[12:] == ["start 4", "end 4", "result 4"]
        ends = [frame for frame in host.frames if frame["type"] == "tool_execution_end"]
        assert [frame["isError"] for frame in ends] == [False] * 5


# Which dialect it is


@pytest.mark.parametrize(("chosen", "first"), [(None, "ready"), ("omp", "ready"), ("pi", "response")])
def test_the_environment_chooses_the_dialect_and_omp_is_the_default(chosen: str | None, first: str, tmp_path: Path) -> None:
    around = surroundings(tmp_path, "http://127.0.0.1:9")
    env = dict(around.env) | ({"FAIRLEAD_DIALECT": chosen} if chosen else {})
    argv = [word for word in rpc("pi") if word not in ("--dialect", "pi")]
    with Host(argv, around.cwd, env) as host:
        host.request("get_state")
        assert host.frames[0]["type"] == first
