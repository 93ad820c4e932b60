"""How the process ends: end of input, signals, `shutdown`. It leaves no children behind."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest
from tests.support.host import PATIENCE, Frame
from tests.support.stage import BEGAN, ENDLESS, HELD, Stage, bash, calls, says, stage

#: A shell and a background child of its own; their numbers are in the project folder.
LASTING = f"sleep 600 & echo $! > child; echo $$ > shell; {BEGAN}; wait"


def assert_no_children(host: Stage) -> None:
    for name in ("shell", "child"):
        try:
            process = os.pidfd_open(int((host.around.cwd / name).read_text()))
        except ProcessLookupError:
            continue
        # It was killed before the agent exited; the kernel may need a moment.
        ended, _, _ = select.select([process], [], [], PATIENCE)
        os.close(process)
        assert ended, f"the {name} is still running"


def last_kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames[-4:]]


def run_lasting_tool(host: Stage) -> None:
    host.send({"id": "p", "type": "prompt", "message": "go"})
    host.began.wait()


# End of input


def test_an_idle_process_ends_with_its_input(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.request("get_state")
        host.close_input()
        assert host.exit_code(patience=10) == 0


def test_the_end_of_input_aborts_a_run_cleanly(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.close_input()
        assert host.exit_code(patience=10) == 0
        assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]
        assert host.frames[-4]["message"]["stopReason"] == "aborted"


def test_the_end_of_input_kills_what_a_tool_runs(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        host.close_input()
        assert host.exit_code(patience=10) == 0
        assert_no_children(host)
        assert host.until("tool_execution_end")["isError"] is True
        assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]


def test_the_end_of_input_kills_what_the_host_itself_runs(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.send({"id": "b", "type": "bash", "command": LASTING})
        host.began.wait()
        host.close_input()
        assert host.exit_code(patience=10) == 0
        assert host.response("b")["data"]["cancelled"] is True
        assert_no_children(host)


def test_on_eof_finish_completes_the_run(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD], flags=["--on-eof", "finish"]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.close_input()
        host.provider.release()
        assert host.exit_code() == 0
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "stop"
        assert host.frames[-1] == {"type": "agent_settled"}


def test_a_prompt_that_is_piped_in_gets_its_answer_with_on_eof_finish(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [says("the answer")], flags=["--on-eof", "finish"]) as host:
        host.write(b'{"id":"p","type":"prompt","message":"go"}\n')
        assert host.leave() == 0
        assert [frame["type"] for frame in host.frames[-3:]] == ["prompt_result", "session_settled", "agent_settled"]


# Signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_aborts_and_leaves_no_children(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        host.signal(number)
        assert host.exit_code(patience=10) == code
        assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]
        assert_no_children(host)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_ends_an_idle_process(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.request("get_state")
        host.signal(number)
        assert host.exit_code(patience=10) == code


def test_a_signal_to_end_is_obeyed_when_nobody_reads(tmp_path: Path) -> None:
    turn = calls(bash(LASTING), text="abcdefg " * 20_000)
    with stage(tmp_path, "pi", [turn], reading=False) as host:
        run_lasting_tool(host)
        host.signal(signal.SIGTERM)
        assert host.exit_code(patience=10) == 143
        assert_no_children(host)


def test_an_interrupt_aborts_the_run_and_the_process_lives(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS, says("still here")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.signal(signal.SIGINT)
        host.until("agent_settled")
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"
        host.prompt("again")
        assert host.request("get_last_assistant_text")["data"]["text"] == "still here"


def test_an_interrupt_while_idle_does_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.request("get_state")
        host.signal(signal.SIGINT)
        assert host.request("get_state")["success"] is True


def test_a_second_interrupt_ends_the_process(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        host.signal(signal.SIGINT)
        host.until("tool_execution_end")
        host.signal(signal.SIGINT)
        assert host.exit_code(patience=10) == 130
        assert_no_children(host)


# Shutdown


def test_shutdown_is_answered_and_ends_the_process(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        assert host.request("shutdown")["success"] is True
        assert host.exit_code(patience=10) == 0


def test_shutdown_aborts_the_run_first(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        assert host.request("shutdown")["success"] is True
        assert host.exit_code(patience=10) == 0
        assert last_kinds(host.frames) == ["turn_end", "agent_end", "agent_settled", "response"]
        assert_no_children(host)
