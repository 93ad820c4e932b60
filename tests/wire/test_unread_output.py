"""Hosts that read slowly, or not at all."""

from __future__ import annotations

import fcntl
import select
from pathlib import Path

from tests.support.host import SOON, Host
from tests.support.stage import BEGAN, ENDLESS, bash, calls, says, stage

PIECE = "abcdefg "
#: Bytes that a pipe holds at least.
SMALLEST_PIPE = 4096


def peak_memory(host: Host) -> int:
    """The most memory that the agent ever had, in KiB."""
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def deltas(host: Host) -> str:
    inner = [frame["assistantMessageEvent"] for frame in host.frames if frame["type"] == "message_update"]
    return "".join(event["delta"] for event in inner if event["type"] == "text_delta")


def memory_for_an_unread_answer(root: Path, pieces: int) -> int:
    turn = calls(bash(f"{BEGAN}; sleep 60"), text=PIECE * pieces)
    with stage(root, "pi", [turn], reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()  # the tool runs when all of the answer has arrived
        used = peak_memory(host)
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
        return used


def test_memory_stays_flat_and_the_process_ends_while_output_is_not_read(tmp_path: Path) -> None:
    small = memory_for_an_unread_answer(tmp_path / "small", 20)
    large = memory_for_an_unread_answer(tmp_path / "large", 20_000)
    assert large - small < 32 * 1024


def test_a_host_that_reads_slowly_loses_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says(PIECE * 5_000)], reading=False, read_size=512) as host:
        assert host.process.stdout is not None
        fcntl.fcntl(host.process.stdout, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
        host.start_reading()
        host.prompt("go")
        assert deltas(host) == PIECE * 5_000
        end = host.until("agent_end")
        assert end["messages"][1]["content"][0]["text"] == PIECE * 5_000


def test_a_host_that_reads_only_later_loses_nothing(tmp_path: Path) -> None:
    turn = calls(bash(BEGAN), text=PIECE * 20_000)
    with stage(tmp_path, "pi", [turn, says("done")], reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        host.start_reading()
        host.until("agent_settled")
        end = host.until("agent_end")
        assert [message["role"] for message in end["messages"]] == ["user", "assistant", "toolResult", "assistant"]
        assert deltas(host) == PIECE * 20_000 + "done"


def test_an_abort_acts_while_the_run_waits_for_the_host_to_read(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS], settings={"output": {"queueBytes": 10_000}}, reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": "x" * 500_000})
        host.send({"id": "s", "type": "get_state"})
        host.send({"id": "a", "type": "abort"})
        host.start_reading()
        host.response("a")
        assert host.until("message_end", nth=2)["message"]["stopReason"] == "aborted"
        assert [frame["id"] for frame in host.frames if frame["type"] == "response"] == ["p", "s", "a"]


def test_commands_wait_for_a_host_that_does_not_read_and_are_answered_when_it_does(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings={"output": {"queueBytes": 10_000}}, reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": "x" * 500_000})
        for number in range(200):
            host.send({"id": number, "type": "get_last_assistant_text"})
        host.start_reading()
        host.response(199)
        host.until("agent_settled")
        asked = [frame["id"] for frame in host.frames if frame["type"] == "response"]
        assert asked == ["p", *range(200)]


def test_a_closed_output_ends_the_process(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash(f"echo $$ > pid; {BEGAN}; sleep 60"))], reading=False) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        assert host.process.stdout is not None
        host.process.stdout.close()
        host.send({"id": "s", "type": "get_state"})
        assert host.exit_code(patience=SOON) == 0


def until_it_waits(host: Host) -> None:
    """Return when the agent uses no CPU any more: everything in it waits for a reader."""
    used, quiet = "", 0
    while quiet < 5:
        select.select([], [], [], 0.02)  # a moment for the agent between two looks at it
        now = " ".join(Path(f"/proc/{host.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13])
        quiet = quiet + 1 if now == used else 0
        used = now


def test_a_shutdown_that_arrives_while_the_run_waits_for_a_reader_ends_the_process(tmp_path: Path) -> None:
    settings = {"output": {"queueBytes": 100_000}}
    with stage(tmp_path, "pi", [says(PIECE * 100_000, chunk=1 << 16)], reading=False, settings=settings) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until_asked(1)
        until_it_waits(host)
        host.send({"id": "s", "type": "shutdown"})
        assert host.exit_code(patience=SOON) == 0
