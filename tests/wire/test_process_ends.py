"""How the process ends: end of input, signals, `shutdown`. It leaves no children behind."""

from __future__ import annotations

import fcntl
import signal
import sys
from pathlib import Path

import pytest
from tests.support.gates import wait_for_exit
from tests.support.host import SMALL_READ, SOON, Frame, Host
from tests.support.stage import BEGAN, ENDLESS, HELD, Stage, bash, calls, says, stage
from tests.support.surroundings import surroundings

from fairlead.testing import ProviderServer

#: A shell and a background child of its own; their numbers are in the project folder.
LASTING = f"sleep 600 & echo $! > child; echo $$ > shell; {BEGAN}; wait"


def assert_no_children(host: Stage) -> None:
    for name in ("shell", "child"):
        # It was killed before the agent exited; the kernel may need a moment.
        wait_for_exit(int((host.around.cwd / name).read_text()))


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
        assert host.exit_code(patience=SOON) == 0


def test_the_end_of_input_aborts_a_run_cleanly(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
        assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]
        assert host.frames[-4]["message"]["stopReason"] == "aborted"


def test_the_end_of_input_kills_what_a_tool_runs(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
        assert_no_children(host)
        assert host.until("tool_execution_end")["isError"] is True
        assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]


def test_the_end_of_input_kills_what_the_host_itself_runs(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.send({"id": "b", "type": "bash", "command": LASTING})
        host.began.wait()
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
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
        assert host.frames[-1] == {"type": "agent_settled", "aborted": False}


def test_a_prompt_that_is_piped_in_gets_its_answer_with_on_eof_finish(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [says("the answer")], flags=["--on-eof", "finish"]) as host:
        host.write(b'{"id":"p","type":"prompt","message":"go"}\n')
        assert host.leave() == 0
        assert [frame["type"] for frame in host.frames[-3:]] == ["prompt_result", "session_settled", "agent_settled"]


# About a second for the answer, much more than a host that does not read at all is given. A little of it is read
# every few milliseconds, so that even on a busy machine it can be seen that somebody reads.
@pytest.mark.parametrize(
    ("size", "pause", "read_size"), [(20 << 20, 0.003, 1 << 16), (200_000, 0.02, SMALL_READ)], ids=["long", "short and slow"]
)
def test_a_host_that_leaves_and_reads_on_gets_the_whole_answer(size: int, pause: float, read_size: int, tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        assert host.process.stdout is not None
        host.prompt("x" * size)
        host.slow_down(pause, read_size)
        fcntl.fcntl(host.process.stdout, fcntl.F_SETPIPE_SZ, read_size)
        host.send({"id": "m", "type": "get_messages"})
        host.close_input()
        assert host.exit_code() == 0
        assert host.response("m")["data"]["messages"][0]["content"][0]["text"] == "x" * size
        assert host.rest == b""


def test_a_host_that_leaves_and_reads_on_gets_the_answers_to_commands_that_had_to_wait(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings={"output": {"queueBytes": 10_000}}) as host:
        host.slow_down(0.01, SMALL_READ)
        host.send_together(*[{"id": number, "type": "get_tools"} for number in range(100)])
        host.close_input()
        assert host.exit_code() == 0
        assert [frame["id"] for frame in host.frames] == list(range(100))
        assert host.rest == b""


def test_a_host_that_leaves_and_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings={"output": {"queueBytes": 10_000}}, reading=False) as host:
        host.send_together(*[{"id": number, "type": "get_tools"} for number in range(100)])
        host.read_until(b'"id":0')
        host.close_input()
        assert host.exit_code(patience=SOON) == 0


# A tool that does not end when it is told to


#: An agent with a tool that does not listen to an abort, served to a host of pi.
DEAF = """
import asyncio
from fairlead.agent import Agent
from fairlead.core.tool import Tool, ToolResult
from fairlead.wire.pi.profile import PI
from fairlead.wire.pi.pi_stdio import RpcOptions, serve_agent
from fairlead.wire.stdio import take_over

async def never_end(arguments, context):
    context.update(ToolResult.text("began"))
    await asyncio.Event().wait()

async def main():
    deaf = Tool(name="deaf", description="", parameters={"type": "object"}, run=never_end)
    agent = Agent(model="fake/fake-1", extra_tools=[deaf])
    return await serve_agent(agent, *take_over(), RpcOptions(profile=PI))

raise SystemExit(asyncio.run(main()))
"""


@pytest.mark.parametrize("end", ["end of input", "SIGTERM"])
def test_an_endless_tool_is_cut_off_and_the_run_emits_its_end(end: str, tmp_path: Path) -> None:
    with ProviderServer([calls(("deaf", {}))]) as provider:
        around = surroundings(tmp_path, provider.url)
        with Host([sys.executable, "-c", DEAF], around.cwd, around.env) as host:
            host.send({"id": "p", "type": "prompt", "message": "go"})
            host.until("tool_execution_update")
            if end == "SIGTERM":
                host.signal(signal.SIGTERM)
            else:
                host.close_input()
            assert host.exit_code(patience=SOON) == (143 if end == "SIGTERM" else 0)
            assert host.until("tool_execution_end")["isError"] is True
            assert host.until("turn_end")["toolResults"][0]["content"][0]["text"] == "Command aborted"
            assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]


# Signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_aborts_and_leaves_no_children(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        host.signal(number)
        assert host.exit_code(patience=SOON) == code
        assert last_kinds(host.frames) == ["message_end", "turn_end", "agent_end", "agent_settled"]
        assert_no_children(host)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_ends_an_idle_process(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.request("get_state")
        host.signal(number)
        assert host.exit_code(patience=SOON) == code


def test_sigterm_ends_the_process_while_output_is_not_read(tmp_path: Path) -> None:
    turn = calls(bash(LASTING), text="abcdefg " * 20_000)
    with stage(tmp_path, "pi", [turn], reading=False) as host:
        run_lasting_tool(host)
        host.signal(signal.SIGTERM)
        assert host.exit_code(patience=SOON) == 143
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
        assert host.exit_code(patience=SOON) == 130
        assert_no_children(host)


# Shutdown


def test_shutdown_is_answered_and_ends_the_process(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        assert host.request("shutdown")["success"] is True
        assert host.exit_code(patience=SOON) == 0


def test_shutdown_aborts_the_run_first(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))]) as host:
        run_lasting_tool(host)
        assert host.request("shutdown")["success"] is True
        assert host.exit_code(patience=SOON) == 0
        assert last_kinds(host.frames) == ["turn_end", "agent_end", "agent_settled", "response"]
        assert_no_children(host)
