"""shell: commands that end, that go on, that are talked to and killed. All of them are real processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.opal.opal_desk import Desk
from tests.support.gates import wait_for_exit
from tests.support.host import PATIENCE
from tests.support.slow_sandbox import SlowSandbox

from fairlead.core.runtime import CancelToken
from fairlead.tools.opal import opal_shell as processes


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class Heard:
    """What was told while a command ran, and a way to wait for it."""

    def __init__(self) -> None:
        self.chunks: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, chunk: str) -> None:
        self.chunks.append(chunk)
        self._changed.set()

    async def until(self, text: str) -> None:
        while text not in "".join(self.chunks):
            self._changed.clear()
            await self._changed.wait()


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 (names are enough)


async def when(heard: Heard, text: str, act: Callable[[], object]) -> None:
    await heard.until(text)
    act()


def test_a_command_that_ends_gives_its_output_and_a_status_other_than_0_is_an_error(desk: Desk) -> None:
    assert desk.call("shell", command="echo out; echo err >&2; pwd") == {"ok": True, "output": f"out\nerr\n{desk.cwd}\n"}
    assert desk.call("shell", command="true") == {"ok": True, "output": "(no output)"}
    assert desk.error("shell", command="echo bad; exit 3") == "bad\n\nCommand exited with code 3"


def test_a_command_that_cannot_start_is_an_error_and_leaves_no_process(desk: Desk) -> None:
    desk.workspace.shell = "/no/such/shell"
    assert "does not exist" in desk.error("shell", command="true")
    assert desk.error("shell", action="wait", id="p1") == "There is no process 'p1'. None is running."


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "command: is required for the action run"),
        ({"command": ""}, "command: is required for the action run"),
        ({"action": "wait"}, "id: is required for the action wait"),
        ({"action": "kill", "id": "p7"}, "There is no process 'p7'. None is running."),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(arguments: dict[str, Any], problem: str, desk: Desk) -> None:
    assert desk.error("shell", **arguments) == problem


async def test_a_long_command_continues_in_the_background_and_can_be_awaited(desk: Desk) -> None:
    async with desk.session():
        first = await desk.acall("shell", command="echo one; read line; echo got $line; exit 4", timeout=500)
        assert first["ok"]
        assert first["output"] == (
            "one\n\n[The command is still running after 0.5 seconds, as process p1. Call shell with id p1 and the action"
            " wait, input or kill.]"
        )
        second = await desk.acall("shell", action="wait", id="p1", timeout=0)
        assert second["output"].startswith("[The command is still running after 0 seconds, as process p1.")
        third = await desk.acall("shell", action="input", id="p1", input="hello\n")
        assert third == {"ok": False, "error": "got hello\n\nCommand exited with code 4"}
        gone = await desk.acall("shell", action="wait", id="p1")
        assert gone["error"] == "There is no process 'p1'. None is running."


async def test_a_waiting_cat_is_fed_and_its_input_is_ended(desk: Desk) -> None:
    async with desk.session():
        await desk.acall("shell", command="cat; echo over", timeout=0)
        heard = Heard()
        fed = asyncio.create_task(desk.acall("shell", action="input", id="p1", input="a line\n", timeout=20_000, on_chunk=heard))
        await heard.until("a line\n")
        ended = await desk.acall("shell", action="input", id="p1", input="last\x04")
        results = [ended, await fed]
        # What came is told once, to whichever call ends first.
        assert "".join(result["output"] for result in results).replace("(no output)", "") == "a line\nlastover\n"


async def test_input_of_any_size_reaches_a_command_that_reads_slowly(desk: Desk) -> None:
    async with desk.session():
        await desk.acall("shell", command="read go; wc -c", timeout=0)
        result = await desk.acall("shell", action="input", id="p1", input="go\n" + "x" * 1_000_000 + "\x04")
        assert result["output"].strip() == "1000000"


async def test_input_to_a_command_that_has_closed_it_is_an_error(desk: Desk) -> None:
    async with desk.session():
        await desk.acall("shell", command="cat >/dev/null; sleep 60", timeout=0)
        await desk.acall("shell", action="input", id="p1", input="\x04", timeout=0)
        refused = await desk.acall("shell", action="input", id="p1", input="more\n")
        assert refused["error"] == "The standard input of process p1 is closed."


async def test_a_command_that_ended_unwatched_still_tells_how(desk: Desk) -> None:
    async with desk.session():
        os.mkfifo(desk.cwd / "fifo")
        await desk.acall("shell", command="echo $$ > number; echo > fifo; echo done; exit 5", timeout=0)
        await desk.acall("shell", command="cat fifo")
        await asyncio.to_thread(wait_for_exit, int((desk.cwd / "number").read_text()))
        late = await desk.acall("shell", action="input", id="p1", input="too late\n")
        assert late == {"ok": False, "error": "done\n\nCommand exited with code 5"}


async def test_kill_ends_a_command_and_all_in_its_group(desk: Desk) -> None:
    async with desk.session():
        heard = Heard()
        run = asyncio.create_task(desk.acall("shell", command="sleep 600 & echo $! > child; echo up; wait", on_chunk=heard))
        await heard.until("up")
        killed = await desk.acall("shell", action="kill", id="p1")
        assert killed["ok"]
        assert killed["output"].endswith("[Process p1 was killed.]")
        assert (await run)["error"].endswith("Process p1 was killed meanwhile.")
        await asyncio.to_thread(wait_for_exit, int((desk.cwd / "child").read_text()))


@pytest.mark.parametrize("action", ["run", "wait"])
async def test_an_abort_stops_the_command_that_the_call_waits_for(action: str, desk: Desk) -> None:
    os.mkfifo(desk.cwd / "fifo")
    async with desk.session():
        arguments: dict[str, Any] = {"command": "echo $$ > shell; cat fifo; sleep 600"}
        heard, cancel = Heard(), CancelToken()
        if action == "wait":
            await desk.acall("shell", **arguments, timeout=0)
            arguments = {"action": "wait", "id": "p1"}
        call = asyncio.create_task(desk.acall("shell", **arguments, cancel=cancel, on_chunk=heard))
        await asyncio.to_thread((desk.cwd / "fifo").write_text, "up\n")
        await when(heard, "up", cancel.fire)
        assert await call == {"ok": False, "error": "up\n\nCommand aborted"}
        await asyncio.to_thread(wait_for_exit, int((desk.cwd / "shell").read_text()))


async def test_an_abort_leaves_commands_alone_that_no_call_waits_for(desk: Desk) -> None:
    async with desk.session():
        await desk.acall("shell", command="read line; echo still here", timeout=0)
        heard, cancel = Heard(), CancelToken()
        call = asyncio.create_task(desk.acall("shell", command="echo up; sleep 600", cancel=cancel, on_chunk=heard))
        await when(heard, "up", cancel.fire)
        await call
        assert (await desk.acall("shell", action="input", id="p1", input="\n"))["output"] == "still here\n"


async def test_all_that_a_session_started_ends_with_it(desk: Desk) -> None:
    """One command that still runs, one in the background that holds the output, and one that does not and will not listen."""
    stubborn = "trap '' TERM; echo $BASHPID > c; echo > fifo; while :; do sleep 600; done"
    os.mkfifo(desk.cwd / "fifo")
    async with desk.session():
        await desk.acall("shell", command="echo $$ > a; cat", timeout=0)
        await desk.acall("shell", command="sleep 600 & echo $! > b")
        await desk.acall("shell", command=f"({stubborn}) >/dev/null 2>&1 & cat fifo")
        numbers = [int((desk.cwd / name).read_text()) for name in "abc"]
        for number in numbers:
            os.kill(number, 0)
    for number in numbers:
        await asyncio.to_thread(wait_for_exit, number)


async def test_a_command_is_stopped_after_the_hard_limit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "HARD_LIMIT", 0.2)
    async with desk.session():
        result = await desk.acall("shell", command="echo up; sleep 600")
        assert result["error"].startswith("up\n\nCommand timed out after")


async def test_ten_megabytes_of_output_are_cut_to_their_end_and_logged_in_full(desk: Desk) -> None:
    async with desk.session():
        heard = Heard()
        result = await desk.acall("shell", command="yes 0123456789abcde | head -c 10485760", on_chunk=heard)
        shown, _, notice = result["output"].partition("\n\n[")
        assert len(shown) <= 50 * 1024 and shown.count("\n") < 2000
        log = desk.kept[0]
        assert notice == f"Showing lines 653361-655360 of 655360. Full output: {log}]"
        assert log.stat().st_size == 10_485_760
        assert all(len(chunk) < 51 * 1024 for chunk in heard.chunks)
        assert sum(map(len, heard.chunks)) < 10_485_760


async def test_output_is_streamed_each_piece_once(desk: Desk) -> None:
    async with desk.session():
        heard = Heard()
        call = asyncio.create_task(desk.acall("shell", command="echo one; read a; echo two; read a; echo three", on_chunk=heard))
        await heard.until("one\n")
        for text in ("two\n", "three\n"):
            # Not waited for beyond that: the next call is the one that sees the next piece of output.
            await desk.acall("shell", action="input", id="p1", input="\n", timeout=0)
            await heard.until(text)
        await call
        assert "".join(heard.chunks) == "one\ntwo\nthree\n"


async def test_output_between_two_calls_is_returned_by_the_second(desk: Desk) -> None:
    for name in ("go", "gone"):
        os.mkfifo(desk.cwd / name)
    async with desk.session():
        await desk.acall("shell", command="cat go; echo > gone; sleep 600", timeout=0)
        await desk.acall("shell", command="echo meanwhile > go; cat gone")
        heard, cancel = Heard(), CancelToken()
        call = asyncio.create_task(desk.acall("shell", action="wait", id="p1", cancel=cancel, on_chunk=heard))
        await when(heard, "meanwhile\n", cancel.fire)
        await call


async def test_only_new_output_is_in_the_result_of_a_later_call(desk: Desk) -> None:
    async with desk.session():
        heard = Heard()
        seq = "seq 1 3000; read a; seq 3001 6000; read a"
        call = asyncio.create_task(desk.acall("shell", command=seq, timeout=600_000, on_chunk=heard))
        await heard.until("3000\n")
        middle = await desk.acall("shell", action="wait", id="p1", timeout=0)
        assert "\n3000\n\n[Showing lines 1001-3000 of 3000. Full output:" in middle["output"]
        await desk.acall("shell", action="input", id="p1", input="\n", timeout=0)
        await heard.until("6000\n")
        await desk.acall("shell", action="input", id="p1", input="\n")
        rest = await call
        assert "1\n2\n" not in rest["output"]


async def test_a_call_that_is_cut_off_while_its_sandbox_gets_ready_starts_nothing(desk: Desk) -> None:
    sandbox = desk.workspace.sandbox = SlowSandbox()
    before = open_files()
    call = asyncio.create_task(desk.acall("shell", command="cat; touch made"))
    assert await asyncio.to_thread(sandbox.entering.wait, PATIENCE)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    sandbox.ready.set()
    assert await asyncio.to_thread(sandbox.left.wait, PATIENCE)
    await desk.close()
    assert open_files() == before
    assert sandbox.wrapped_commands == 0
    assert not (desk.cwd / "made").exists()
