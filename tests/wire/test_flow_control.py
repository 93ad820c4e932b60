"""What waits when the host does not read: the run, its commands, its input. And what comes out once it does."""

from __future__ import annotations

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import SOON, Frame, Host
from tests.support.stage import BEGAN, bash, calls, says, stage

TURNS = 60
#: Little enough to be full after one long message.
SMALL_QUEUE = {"output": {"queueBytes": 10_000}}
#: Fills the pipe and a small queue.
LONG = "x" * 500_000
#: A line of this many bytes is written to a pipe whole or not at all.
ATOMIC = 4096
#: Far more than an agent keeps of what it has not dispatched, which is about a MiB.
OFFERED = 16 << 20
#: Seconds to wait for what must not happen. Too short a wait could only miss a fault, never make one up.
MOMENT = 0.5


def user_texts(host: Host) -> list[str]:
    messages = [frame["message"] for frame in host.frames if frame["type"] == "message_end"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def answered(host: Host) -> list[Any]:
    return [frame["id"] for frame in host.frames if frame["type"] == "response"]


def padded(number: int) -> bytes:
    """A command that is `ATOMIC` bytes long."""
    line = json.dumps({"id": number, "type": "get_last_assistant_text", "padding": ""}).encode()
    return line[:-2] + b"x" * (ATOMIC - 1 - len(line)) + line[-2:] + b"\n"


def fill_input(host: Host) -> int:
    """Send commands until there is no room for another, or all are sent; how many there were."""
    assert host.process.stdin is not None
    descriptor = host.process.stdin.fileno()
    os.set_blocking(descriptor, False)
    sent = 0
    while sent * ATOMIC < OFFERED and select.select([], [descriptor], [], MOMENT)[1]:
        try:
            sent += os.write(descriptor, padded(sent)) == ATOMIC
        except BlockingIOError:
            break
    os.set_blocking(descriptor, True)
    return sent


# The run


def test_a_run_waits_for_a_host_that_does_not_read_and_then_continues(tmp_path: Path) -> None:
    turns = [*(calls(("read", {"path": f"long-{turn}.txt"})) for turn in range(TURNS)), says("done")]
    files = {f"long-{turn}.txt": f"{'y' * 79}\n" * 512 for turn in range(TURNS)}
    prompt: Frame = {"id": "p", "type": "prompt", "message": "go"}
    with (
        stage(tmp_path / "unread", "pi", turns, settings=SMALL_QUEUE, files=files, reading=False) as unread,
        stage(tmp_path / "read", "pi", turns, settings=SMALL_QUEUE, files=files) as read,
    ):
        unread.send(prompt)
        # In the time in which an agent that is read does all of it, the other one does not get beyond a few turns.
        read.send(prompt)
        read.until("agent_settled")
        assert len(read.provider.requests) == TURNS + 1
        assert len(unread.provider.requests) < TURNS / 10
        unread.start_reading()
        unread.until("agent_settled")
        assert len(unread.provider.requests) == TURNS + 1
        assert len(unread.until("agent_end")["messages"]) == 2 * TURNS + 2


def test_a_message_queued_at_the_very_end_of_a_run_is_not_left_behind(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings=SMALL_QUEUE, reading=False) as host:
        host.run_lasting_command()
        host.send({"id": "p", "type": "prompt", "message": LONG})
        host.read_until(b'"type":"agent_end"')  # so far, and no further: the rest fills the queue
        host.send_unread({"id": "f", "type": "follow_up", "message": "late"})
        host.start_reading()
        answer = host.frames.index(host.response("f"))
        # It came too late for the run, and the host can tell.
        assert {"type": "agent_settled", "aborted": False} in host.frames[:answer]
        host.prompt("next")
        assert user_texts(host)[1:] == ["next", "late"]


def test_clearing_the_queue_while_its_messages_are_delivered_takes_nothing_from_the_run(tmp_path: Path) -> None:
    steering = [f"<{number}> {'z' * 100_000}" for number in range(5)]
    settings = {**SMALL_QUEUE, "steeringMode": "all"}
    # Of omp, whose hosts are not told of the queue with each change: that would be more than is delivered.
    with stage(tmp_path, "omp", [says("heard")], settings=settings, reading=False) as host:
        host.run_lasting_command()
        for text in steering:
            host.send({"type": "steer", "message": text})
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.read_until(b"<1>")
        host.send_unread({"id": "c", "type": "clear_queue"})
        host.start_reading()
        host.until("agent_settled")
        assert host.response("c")["data"] == {"steering": [], "followUp": []}
        assert user_texts(host) == ["go", *steering]
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "stop"


def test_updates_of_a_tool_are_dropped_while_the_host_is_behind(tmp_path: Path) -> None:
    turns = [calls(bash("echo all of it")), calls(bash(BEGAN)), says("done")]
    with stage(tmp_path, "pi", turns, reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": LONG})
        host.began.wait()  # the first tool has ended
        host.start_reading()
        host.until("agent_settled")
        first = host.until("tool_execution_end")
        assert first["result"]["content"] == [{"type": "text", "text": "all of it\n"}]
        updates = [frame for frame in host.frames if frame["type"] == "tool_execution_update"]
        assert [frame for frame in updates if frame["toolCallId"] == first["toolCallId"]] == []


# Input


def test_input_is_no_longer_read_when_too_many_commands_wait(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings=SMALL_QUEUE, reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": LONG})
        sent = fill_input(host)
        assert sent * ATOMIC < OFFERED / 4
        host.start_reading()
        for number in range(sent, 2 * sent):
            host.write(padded(number))
        host.response(2 * sent - 1)
        assert answered(host) == ["p", *range(2 * sent)]


def test_input_that_ends_while_it_is_not_read_is_noticed(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings=SMALL_QUEUE, reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": LONG})
        fill_input(host)
        host.close_input()
        assert host.exit_code(patience=SOON) == 0


def test_commands_left_in_the_pipe_when_the_host_leaves_are_answered(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=["--on-eof", "finish"], settings=SMALL_QUEUE, reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": LONG})
        sent = fill_input(host)
        host.close_input()
        with pytest.raises(subprocess.TimeoutExpired):  # it notices, and waits: the host may read yet
            host.exit_code(patience=MOMENT)
        host.start_reading()
        assert host.exit_code() == 0
        assert answered(host) == ["p", *range(sent)]
        assert host.rest == b""
