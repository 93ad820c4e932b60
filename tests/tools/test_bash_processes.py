"""The processes of a command: aborts, children in the background, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.host import PATIENCE
from tests.support.slow_sandbox import SlowSandbox
from tests.tools.box import Box, shell

from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.shell.command_process import run_shell


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Poll for something that another process does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        os.sched_yield()
    return False


def abort_when_started(box: Box, command: str):
    """Run `command`, abort at its first output; gives the outcome and the seconds from the abort to the end."""
    cancel = CancelToken()
    fired = 0.0

    def on_update(result: ToolResult) -> None:
        nonlocal fired
        if result.content and not fired:
            fired = time.monotonic()
            cancel.fire()

    async def main():
        return await box.acall("bash", {"command": command}, cancel, on_update)

    done = asyncio.run(main())
    return done, time.monotonic() - fired


def test_abort_ends_the_command_at_once(box: Box) -> None:
    done, seconds = abort_when_started(box, "echo started; sleep 30")
    assert (done.text, done.is_error) == ("started\n\n\nCommand aborted", True)
    assert seconds < 1


def test_abort_lets_a_command_clean_up(box: Box) -> None:
    done, _ = abort_when_started(box, "trap 'echo cleaned; exit' TERM; echo started; while :; do sleep 0.01; done")
    assert done.text.endswith("cleaned\n\n\nCommand aborted")


def test_abort_kills_what_ignores_the_request_to_end(box: Box) -> None:
    done, seconds = abort_when_started(box, "trap '' TERM; echo $$; sleep 30; sleep 30")
    assert done.text.endswith("Command aborted")
    assert seconds < 1
    assert wait_for(lambda: not alive(int(done.text.split()[0])))


def test_abort_reaches_children_in_the_background(box: Box) -> None:
    done, _ = abort_when_started(box, "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait")
    child = int(done.text.split()[0])
    assert wait_for(lambda: not alive(child))


def test_abort_reaches_children_that_left_the_pipe(box: Box) -> None:
    done, _ = abort_when_started(box, "sh -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 & echo $!; wait")
    assert wait_for(lambda: not alive(int(done.text.split()[0])))


def aborted_within_the_grace(box: Box, command: str) -> str:
    """What a run reports of `command`, aborted at its first output."""
    cancel = CancelToken()
    tool = builtin_tools(box.workspace)["bash"]
    context = ToolContext("call", cancel, lambda update: cancel.fire() if update.content else None)

    async def main() -> str:
        with pytest.raises(ToolError) as error:
            await AsyncioRuntime().run_bounded(tool.run({"command": command}, context), cancel, timeout=None, grace=tool.grace)
        return str(error.value)

    return asyncio.run(main())


def test_the_output_of_a_command_that_ignores_an_abort_is_not_lost(box: Box) -> None:
    # What left the group survives, and still holds the pipe.
    escaped = "setsid sh -c 'echo $$; exec sleep 30' &"
    text = aborted_within_the_grace(box, f"trap '' TERM; {escaped} while :; do sleep 0.02; done")
    pid, end = text.split("\n", 1)
    os.kill(int(pid), signal.SIGKILL)
    assert end == "\n\nCommand aborted"


def deaf(group: int, number: int) -> None:
    """Takes the place of os.killpg: no process hears the signal."""


def test_a_process_that_no_signal_ends_is_left_behind_and_reaped_later(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "killpg", deaf)
    begun = time.monotonic()
    text = aborted_within_the_grace(box, "echo $$; exec sleep 30")
    assert time.monotonic() - begun < 0.7
    pid, end = text.split("\n", 1)
    assert end == "\n\nCommand aborted"
    os.kill(int(pid), signal.SIGKILL)
    assert wait_for(lambda: not Path(f"/proc/{pid}").exists())


async def test_abort_before_the_start_runs_nothing(box: Box) -> None:
    cancel = CancelToken()
    cancel.fire()
    done = await box.acall("bash", {"command": "touch ran"}, cancel)
    assert done.text == "Command aborted"
    assert not (box.cwd / "ran").exists()


async def test_a_caller_that_is_cut_off_leaves_no_process(box: Box) -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    run = asyncio.create_task(
        run_shell(
            box.workspace,
            "trap '' TERM; echo $$; sleep 30; sleep 30",
            cancel=CancelToken(),
            timeout=None,
            on_output=lambda text: started.set_result(int(text)),
        )
    )
    pid = await started
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not alive(pid)


def test_a_background_child_does_not_hold_the_result_back(box: Box) -> None:
    begun = time.monotonic()
    done = box.call("bash", command="sleep 30 & echo $!")
    assert time.monotonic() - begun < 5
    child = int(done.text)
    assert alive(child)  # it was meant to stay
    os.kill(child, signal.SIGKILL)


def test_a_background_child_that_floods_does_not_hold_the_result_back(box: Box) -> None:
    done = box.call("bash", command="yes & echo started")
    assert done.text
    assert not done.is_error


def test_without_process_descriptors_a_thread_waits(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert shell(box, "echo hi; exit 6").exit_code == 6
    assert box.call("bash", command="sleep 30", timeout=0.1).text == "Command timed out after 0.1 seconds"


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_descriptor_leaks(box: Box) -> None:
    await box.acall("bash", {"command": "true"})
    before = open_descriptors()
    for _ in range(20):
        await box.acall("bash", {"command": "seq 1 3000; sleep 30 & kill $!"})
    assert open_descriptors() == before


async def test_a_sandbox_that_becomes_ready_for_a_caller_that_has_gone_is_left(box: Box) -> None:
    sandbox = box.workspace.sandbox = SlowSandbox()
    call = asyncio.create_task(run_shell(box.workspace, "touch made", cancel=CancelToken(), timeout=None))
    assert await asyncio.to_thread(sandbox.entering.wait, PATIENCE)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    sandbox.ready.set()
    assert await asyncio.to_thread(sandbox.left.wait, PATIENCE)
    assert sandbox.wrapped_commands == 0


async def test_a_command_that_is_aborted_while_its_sandbox_gets_ready_does_not_start(box: Box) -> None:
    sandbox, cancel = SlowSandbox(), CancelToken()
    box.workspace.sandbox = sandbox
    call = asyncio.create_task(run_shell(box.workspace, "touch made", cancel=cancel, timeout=None))
    assert await asyncio.to_thread(sandbox.entering.wait, PATIENCE)
    cancel.fire()
    sandbox.ready.set()
    assert (await call).cancelled
    assert await asyncio.to_thread(sandbox.left.wait, PATIENCE)
    assert not (box.cwd / "made").exists()
