"""Commands behind one that takes long: they wait for their turn, but what must not wait acts at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import SMALL_READ, SOON, Frame
from tests.support.stage import BEGAN, ENDLESS, LASTING, WAIT, Stage, bash, calls, says, stage

#: A key that a command prints, once it is let go on. Looking it up stalls the first prompt.
SLOW_KEY = f"!{BEGAN}; {WAIT}; echo sk-fake"
PROMPT: Frame = {"id": "p", "type": "prompt", "message": "go"}
ABORT: Frame = {"id": "a", "type": "abort"}
ABORT_BASH: Frame = {"id": "ab", "type": "abort_bash"}
SHUTDOWN: Frame = {"id": "end", "type": "shutdown"}
#: With these settings these commands fill the output of an agent that nobody reads.
SMALL_QUEUE = {"output": {"queueBytes": 10_000}}
MUCH_TO_ANSWER: list[Frame] = [{"id": number, "type": "get_tools"} for number in range(100)]


def responses(host: Stage) -> list[tuple[Any, bool]]:
    return [(frame["id"], frame["success"]) for frame in host.frames if frame["type"] == "response"]


def send(host: Stage, together: bool, *commands: Frame) -> None:
    """Send commands in one write, or the last one once the first stalls."""
    if together:
        host.send_together(*commands)
        return
    host.send_together(*commands[:-1])
    host.began.wait()
    host.send(commands[-1])


# A key that takes long to be found


@pytest.mark.parametrize("together", [True, False], ids=["together", "later"])
@pytest.mark.parametrize("dialect", ["pi", "omp"])
def test_an_abort_does_not_wait_for_a_key(dialect: str, together: bool, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, api_key=SLOW_KEY) as host:
        send(host, together, PROMPT, ABORT)
        host.response("a")
        assert responses(host) == [("p", True), ("a", True)]
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"
        assert host.provider.requests == []


def test_an_abort_does_not_wait_for_the_key_of_a_prompt_that_had_to_wait_itself(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings=SMALL_QUEUE, api_key=SLOW_KEY, reading=False) as host:
        host.send_together(*MUCH_TO_ANSWER, PROMPT, ABORT)
        host.start_reading()
        host.response("a")
        assert responses(host)[-2:] == [("p", True), ("a", True)]
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"


@pytest.mark.parametrize("together", [True, False], ids=["together", "later"])
def test_a_shutdown_does_not_wait_for_a_key(together: bool, tmp_path: Path) -> None:
    with stage(tmp_path, "pi", api_key=SLOW_KEY) as host:
        send(host, together, PROMPT, SHUTDOWN)
        host.response("end")
        assert host.exit_code(patience=SOON) == 0
        assert responses(host) == [("p", True), ("end", True)]
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"


@pytest.mark.parametrize("together", [True, False], ids=["together", "later"])
def test_an_abort_of_a_command_does_not_wait_for_a_key(together: bool, tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")], api_key=SLOW_KEY) as host:
        host.run_lasting_command()
        send(host, together, PROMPT, ABORT_BASH)
        assert host.response("lasting")["data"]["cancelled"] is True
        host.go.open()
        host.until("agent_settled")
        assert responses(host) == [("lasting", True), ("p", True), ("ab", True)]
        assert host.request("get_last_assistant_text")["data"] == {"text": "ok"}


# One of several commands


def test_a_command_and_its_abort_in_one_write(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.send_together({"id": "b", "type": "bash", "command": "sleep 600"}, ABORT_BASH)
        assert host.response("b")["data"]["cancelled"] is True
        assert host.response("ab")["success"] is True


def test_an_abort_of_a_command_means_the_one_before_it_even_if_that_has_yet_to_start(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS]) as host:
        host.send(PROMPT)
        host.update("text_delta")
        host.send({"id": "running", "type": "bash", "command": f"{BEGAN}; {WAIT}"})
        host.began.wait()
        host.send_together(ABORT, {"id": "waiting", "type": "bash", "command": "sleep 600"}, ABORT_BASH)
        assert host.response("waiting")["data"]["cancelled"] is True
        host.go.open()
        assert host.response("running")["data"]["cancelled"] is False


def test_an_abort_of_a_command_stops_one_however_often_it_has_to_wait(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS]) as host:
        host.send(PROMPT)
        host.update("text_delta")
        for ident, command in (("first", LASTING), ("second", f"{BEGAN}; {WAIT}"), ("third", LASTING)):
            host.send({"id": ident, "type": "bash", "command": command})
            host.began.wait()
        # Each abort waits for the end of a run, and the abort_bash for both.
        host.send_together(ABORT, PROMPT, ABORT, ABORT_BASH)
        assert host.response("third")["data"]["cancelled"] is True
        host.response("ab")
        host.go.open()
        assert host.response("second")["data"]["cancelled"] is False
        host.send(ABORT_BASH)
        assert host.response("first")["data"]["cancelled"] is True


# Output that nobody reads


def test_an_abort_acts_although_what_came_with_it_waits_for_a_reader(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))], settings=SMALL_QUEUE, reading=False) as host:
        host.send(PROMPT)
        host.began.wait()
        host.send_together(*MUCH_TO_ANSWER, ABORT)
        host.lasting_command_ended()
        host.start_reading()
        host.response("a")
        assert responses(host) == [("p", True), *[(number, True) for number in range(len(MUCH_TO_ANSWER))], ("a", True)]


def test_an_abort_of_a_command_acts_although_what_came_with_it_waits_for_a_reader(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings=SMALL_QUEUE, reading=False) as host:
        host.run_lasting_command()
        host.send_together(*MUCH_TO_ANSWER, ABORT_BASH)
        host.lasting_command_ended()
        host.start_reading()
        assert host.response("lasting")["data"]["cancelled"] is True
        host.response("ab")


def test_a_shutdown_works_while_output_is_not_read(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(LASTING))], settings=SMALL_QUEUE, reading=False) as host:
        host.send(PROMPT)
        host.began.wait()
        host.send_together(*MUCH_TO_ANSWER, SHUTDOWN)
        assert host.exit_code(patience=SOON) == 0
        host.lasting_command_ended()


def test_a_shutdown_is_answered_after_all_that_came_before_it_as_long_as_the_host_reads(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings=SMALL_QUEUE) as host:
        host.slow_down(pause=0.01, read_size=SMALL_READ)
        host.send_together(*MUCH_TO_ANSWER)
        host.send(SHUTDOWN)
        assert host.exit_code() == 0
        assert responses(host) == [*[(number, True) for number in range(len(MUCH_TO_ANSWER))], ("end", True)]
        assert host.rest == b""


def test_abort_retry_does_not_wait_for_the_host_to_read(tmp_path: Path) -> None:
    hour = 3_600_000
    settings = {**SMALL_QUEUE, "retry": {"baseDelayMs": hour, "maxAgentDelayMs": hour}}
    with stage(tmp_path, "pi", [{"status": 500, "error": "down"}], settings=settings, reading=False) as host:
        host.run_lasting_command()
        host.send(PROMPT)
        host.read_frame("auto_retry_start")
        # The last command shows that those behind the unread answers have had their chance to act.
        host.send_together(*MUCH_TO_ANSWER, {"id": "ar", "type": "abort_retry"}, ABORT_BASH)
        host.lasting_command_ended()
        host.start_reading()
        host.response("ar")
        told = [frame.get("id", frame["type"]) for frame in host.frames]
        assert told.index("auto_retry_end") < told.index(MUCH_TO_ANSWER[-1]["id"]) < told.index("ar")
