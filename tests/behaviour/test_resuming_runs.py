"""A killed agent is started again, and continues its run: for hosts, on the command line and over HTTP."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import PATIENCE, Command
from tests.support.stage import Stage, another, bash, calls, says, stage

from fairlead.core.calls.turn import INTERRUPTED

DIALECTS = ("pi", "omp", "xcsh")


def start_and_kill(host: Stage) -> Path:
    """Prompt the agent, and kill it while its first command runs. Returns the session's file."""
    file = Path(host.request("get_state")["data"]["sessionFile"])
    host.send({"type": "prompt", "message": "Go."})
    host.began.wait()
    host.request("get_state")  # the agent has seen by now that it started the command, which ends with it
    host.signal(signal.SIGKILL)
    assert host.exit_code() == -signal.SIGKILL
    return file


LASTING_TURN = calls(bash("echo ran >> ledger; echo > $HOME/began; sleep 600"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_host_resumes_the_run_of_an_agent_that_was_killed(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [LASTING_TURN, says("done")]) as host:
        file = start_and_kill(host)
        with another(host, dialect, "--session", str(file)) as next_host:
            assert next_host.request("resume")["success"] is True
            next_host.until("agent_settled" if dialect == "pi" else "agent_end")
            told = next_host.request("get_messages")["data"]["messages"]
            messages = [each for each in told if each["role"] != "custom"]  # xcsh makes the model plan
            assert [each["role"] for each in messages] == ["user", "assistant", "toolResult", "assistant"]
            assert messages[2]["content"][0]["text"] == INTERRUPTED and messages[2]["isError"] is True
            refused = next_host.request("resume")
            assert refused["success"] is False and "no interrupted run" in refused["error"]
            assert next_host.leave() == 0
        assert (host.around.cwd / "ledger").read_text() == "ran\n"


def test_the_command_resumes_a_run(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [LASTING_TURN, says("done"), says("more")]) as host:
        file = start_and_kill(host)
        command = Command(host.provider, host.around)
        done = command("--model", "fake/fake-1", "--session", str(file), "--resume-run", "-p")
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        again = command("--model", "fake/fake-1", "--session", str(file), "--resume-run", "-p")
        assert again.returncode == 1 and "no interrupted run" in again.stderr
        refused = command("--mode", "rpc", "--resume-run")
        assert refused.returncode != 0 and "`resume`" in refused.stderr
        users = [line for line in _lines(file) if line.get("message", {}).get("role") == "user"]
        assert len(users) == 1


def test_the_end_of_the_input_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [LASTING_TURN, says("done")]) as host:
        file = Path(host.request("get_state")["data"]["sessionFile"])
        host.send({"type": "prompt", "message": "Go."})
        host.began.wait()
        assert host.leave() == 0
        with another(host, "omp", "--session", str(file)) as next_host:
            assert next_host.request("resume")["success"] is True
            next_host.until("agent_end")
            assert next_host.request("get_last_assistant_text")["data"]["text"] == "done"


@pytest.mark.parametrize(("number", "outcome"), [(signal.SIGTERM, "done\n"), (signal.SIGINT, "")])
def test_a_command_that_is_asked_to_end_leaves_a_run_that_can_be_resumed(
    tmp_path: Path, number: signal.Signals, outcome: str
) -> None:
    with stage(tmp_path, "omp", [LASTING_TURN, says("done")]) as host:
        command = Command(host.provider, host.around)
        flags = ("--model", "fake/fake-1", "--session-id", "work")
        with command.start(*flags, "-p", "Go.") as process:
            host.began.wait()
            process.send_signal(number)
            assert process.wait(timeout=PATIENCE) == 128 + number
        assert command(*flags, "--resume-run", "-p").stdout == outcome


def test_a_run_that_the_host_aborted_is_not_resumed(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [LASTING_TURN, says("done")]) as host:
        host.send({"type": "prompt", "message": "Go."})
        host.began.wait()
        assert host.request("abort")["success"] is True
        assert host.request("resume")["success"] is False


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
