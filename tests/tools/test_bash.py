"""bash: output, ends, updates, aborts, floods."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import PATIENCE
from tests.support.slow_sandbox import SlowSandbox
from tests.tools.box import Box

from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.runtime import AsyncioRuntime
from fairlead.tools import builtin_tools
from fairlead.tools.shell.process import ShellResult, run_shell


def shell(box: Box, command: str, **options: Any) -> ShellResult:
    options = {"cancel": CancelToken(), "timeout": None, **options}
    return asyncio.run(run_shell(box.workspace, command, **options))


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


def texts(updates: list[ToolResult]) -> list[str]:
    return ["".join(block.text for block in update.content if isinstance(block, TextContent)) for update in updates]


def test_both_streams_come_in_the_order_written(box: Box) -> None:
    done = box.call("bash", command="echo one; echo two >&2; echo three")
    assert (done.text, done.details, done.is_error) == ("one\ntwo\nthree\n", None, False)


@pytest.mark.parametrize("interpreter", ["bash", "dash", "sh", "zsh", "fish"])
@pytest.mark.parametrize("name", ["-c", "-s", "--version", "+x", "-x"])
def test_a_command_that_begins_like_an_option_is_still_a_command(box: Box, tmp_path: Path, interpreter: str, name: str) -> None:
    found = shutil.which(interpreter)
    if found is None:
        pytest.skip(f"there is no {interpreter}")
    (tmp_path / name).write_text("#!/bin/sh\necho ran with $1\n")
    (tmp_path / name).chmod(0o755)
    box.workspace.shell = found
    box.workspace.env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for command in (f"{name} this", f"{name} this\ntrue"):
        assert (shell(box, command).output, shell(box, command).exit_code) == ("ran with this\n", 0)
    box.workspace.command_prefix = f"{name} prefix"
    assert shell(box, "true").output == "ran with prefix\n"


def test_nothing_written_is_said(box: Box) -> None:
    assert box.call("bash", command="true").text == "(no output)"


def test_a_failure_gives_output_then_status(box: Box) -> None:
    done = box.call("bash", command="echo out; exit 3")
    assert (done.text, done.details, done.is_error) == ("out\n\n\nCommand exited with code 3", {}, True)
    assert box.call("bash", command="exit 4").text == "(no output)\n\nCommand exited with code 4"


def test_a_shell_killed_by_a_signal_has_the_code_shells_give(box: Box) -> None:
    assert box.call("bash", command="kill -SEGV $$").text.endswith("Command exited with code 139")


def test_a_time_limit_stops_the_command(box: Box) -> None:
    done = box.call("bash", command="sleep 30", timeout=0.2)
    assert (done.text, done.is_error) == ("Command timed out after 0.2 seconds", True)
    assert box.call("bash", command="echo hi; sleep 30", timeout=1).text == "hi\n\n\nCommand timed out after 1 seconds"


def test_a_time_limit_of_zero_is_none(box: Box) -> None:
    assert box.call("bash", command="echo hi", timeout=0).text == "hi\n"


def test_updates_begin_empty_and_end_with_all_output(box: Box) -> None:
    done = box.call("bash", command="for i in 1 2 3; do echo line $i; done")
    assert done.updates[0] == ToolResult([])
    assert texts(done.updates)[-1] == "line 1\nline 2\nline 3\n"
    assert done.updates[-1].details == {}


def test_a_silent_command_has_one_update(box: Box) -> None:
    assert box.call("bash", command="true").updates == [ToolResult([])]


async def test_updates_are_cumulative_and_paced(box: Box) -> None:
    seen: list[float] = []
    done = await box.acall(
        "bash",
        {"command": "for i in $(seq 1 40); do echo $i; sleep 0.01; done"},
        on_update=lambda _: seen.append(time.monotonic()),
    )
    shown = texts(done.updates)
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    assert shown[-1] == "".join(f"{i}\n" for i in range(1, 41))
    # The first two and the last are not paced.
    assert all(later - earlier > 0.09 for earlier, later in pairwise(seen[1:-1]))


def test_long_output_is_cut_to_its_last_lines_and_saved(box: Box) -> None:
    done = box.call("bash", command="seq 1 5000")
    expected = "\n".join(str(i) for i in range(3001, 5001))
    (log,) = box.kept
    assert done.text == f"{expected}\n\n[Showing lines 3001-5000 of 5000. Full output: {log}]"
    assert done.details == {
        "truncation": {
            "content": expected,
            "truncated": True,
            "truncatedBy": "lines",
            "totalLines": 5000,
            "totalBytes": 23893,
            "outputLines": 2000,
            "outputBytes": 9999,
            "lastLinePartial": False,
            "firstLineExceedsLimit": False,
            "maxLines": 2000,
            "maxBytes": 51200,
        },
        "fullOutputPath": str(log),
    }
    assert log.read_text() == "".join(f"{i}\n" for i in range(1, 5001))
    assert log.stat().st_mode & 0o777 == 0o600


def test_long_lines_are_cut_by_bytes(box: Box) -> None:
    done = box.call("bash", command="for i in $(seq 1 600); do printf '%0100d\\n' $i; done")
    assert "[Showing lines 95-600 of 600 (50.0KB limit). Full output: " in done.text
    assert done.text.startswith(f"{95:0100d}\n")


def test_one_endless_line_is_cut_inside(box: Box) -> None:
    done = box.call("bash", command="head -c 200000 /dev/zero | tr '\\0' x")
    assert done.text.startswith("x" * 51200 + "\n\n[Showing last 50.0KB of line 1 (line is 195.3KB). Full output: ")
    assert done.details["truncation"]["lastLinePartial"] is True


def test_a_cut_never_splits_a_character(box: Box) -> None:
    done = box.call("bash", command="printf 'é%.0s' $(seq 1 40000); printf x")
    shown = done.details["truncation"]
    assert shown["content"] == "é" * 25599 + "x"
    assert shown["outputBytes"] == 51199


def test_short_output_leaves_no_log(box: Box) -> None:
    box.call("bash", command="seq 1 2000")
    assert not box.logs.exists()
    assert box.kept == []


def test_a_failing_command_with_long_output_names_the_log(box: Box) -> None:
    done = box.call("bash", command="seq 1 5000; exit 2")
    assert done.is_error
    assert done.text.endswith(f"Full output: {box.kept[0]}]\n\nCommand exited with code 2")
    assert done.details["fullOutputPath"] == str(box.kept[0])


def test_half_characters_are_put_together_and_invalid_bytes_replaced(box: Box) -> None:
    done = box.call("bash", command=r"printf '\xc3'; sleep 0.05; printf '\xa9 \xff end\xe2\x82'")
    assert done.text == "é \ufffd end\ufffd"


def test_standard_input_is_empty(box: Box) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"the host's own input\n")
    os.close(write_end)
    own = os.dup(0)
    os.dup2(read_end, 0)
    try:
        assert box.call("bash", command="cat; echo end").text == "end\n"
    finally:
        os.dup2(own, 0)
        os.close(own)
        os.close(read_end)


def test_it_runs_in_the_workspace_with_its_environment(box: Box) -> None:
    box.workspace.env = {"PATH": os.environ["PATH"], "FLAVOUR": "plum"}
    assert box.call("bash", command='echo "$PWD $FLAVOUR"').text == f"{box.cwd} plum\n"


def test_the_prefix_runs_first(box: Box) -> None:
    box.workspace.command_prefix = "greet() { echo hello $1; }"
    assert box.call("bash", command="greet you").text == "hello you\n"


def test_a_chosen_shell_is_used_and_a_missing_one_named(box: Box) -> None:
    box.workspace.shell = "/bin/sh"
    assert box.call("bash", command="echo $0").text == "/bin/sh\n"
    box.workspace.shell = "/nowhere/fish"
    done = box.call("bash", command="true")
    assert done.is_error
    assert "/nowhere/fish" in done.text


def test_without_bash_on_path_sh_is_used(box: Box, tmp_path: Path) -> None:
    box.workspace.env = {"PATH": str(tmp_path)}
    assert box.call("bash", command="echo $0").text == "/bin/sh\n"


def test_a_missing_working_directory_is_named(box: Box) -> None:
    box.cwd.rmdir()
    done = box.call("bash", command="true")
    assert done.text == f"The working directory {box.cwd} does not exist, so no command can run in it."


def test_commands_no_shell_can_take_are_refused(box: Box) -> None:
    assert "NUL" in box.call("bash", command="echo \0").text
    assert "too long" in box.call("bash", command="true " + "x" * 200_000).text


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
            await AsyncioRuntime().bounded(tool.run({"command": command}, context), cancel, timeout=None, grace=tool.grace)
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


def test_a_shell_that_closes_its_output_is_still_waited_for(box: Box) -> None:
    assert box.call("bash", command="exec >&- 2>&-; sleep 0.2; exit 5").text.endswith("exited with code 5")


def test_without_process_descriptors_a_thread_waits(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert shell(box, "echo hi; exit 6").exit_code == 6
    assert box.call("bash", command="sleep 30", timeout=0.1).text == "Command timed out after 0.1 seconds"


def test_a_flood_keeps_memory_flat_and_the_loop_alive(box: Box) -> None:
    script = f"""
import asyncio, resource, sys
from pathlib import Path
from fairlead.core.runtime import CancelToken
from fairlead.tools import Workspace
from fairlead.tools.shell.process import run_shell
async def main():
    logs = Path({str(box.cwd)!r})
    workspace = Workspace(logs, {{"PATH": {os.environ["PATH"]!r}}}, log_dir=lambda: logs, keep_log=lambda path: None)
    turns = 0
    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1
    counting = asyncio.create_task(count())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await run_shell(workspace, "head -c 200000000 /dev/zero | tr '\\\\0' y", cancel=CancelToken(), timeout=None)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    counting.cancel()
    assert result.truncation.total_bytes == 200_000_000, result.truncation.total_bytes
    assert Path(result.full_output_path).stat().st_size == 200_000_000
    assert grown < 20_000, grown
    assert turns > 500, turns
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_full_disk_stops_the_log_and_not_the_command(box: Box) -> None:
    # A limit on file sizes makes the log's writes fail; the command writes to a pipe and is not affected.
    script = f"""
import asyncio, resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from box import Box
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
box = Box(Path({str(box.cwd / "inner")!r}), Path({str(box.cwd / "logs")!r}))
done = box.call("bash", command="seq 1 100000; echo the end")
assert not done.is_error
(log,) = box.kept
assert log.stat().st_size == 60_000
notice = done.text.splitlines()[-1]
assert notice == f"[Showing lines 98002-100001 of 100001. Full output: {{log}} (incomplete: File too large)]", notice
assert "fullOutputPath" not in done.details
assert done.text.splitlines()[-3] == "the end"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_shell_result_says_that_its_log_is_incomplete(box: Box) -> None:
    script = f"""
import asyncio, resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from box import Box
from pathlib import Path
from fairlead.core.runtime import CancelToken
from fairlead.tools.shell.process import run_shell
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
box = Box(Path({str(box.cwd / "inner")!r}), Path({str(box.cwd / "logs")!r}))
result = asyncio.run(run_shell(box.workspace, "seq 1 100000", cancel=CancelToken(), timeout=None, clean=True))
(log,) = box.kept
assert (result.log_incomplete, result.full_output_path, result.exit_code) == (True, None, 0), result
assert result.output == (
    result.truncation.content
    + f"\\n\\n[Showing lines 98001-100000 of 100000. Full output: {{log}} (incomplete: File too large)]"
), result.output[-300:]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_shell_result_says_that_there_is_no_log(box: Box) -> None:
    box.logs.write_text("not a folder")
    result = shell(box, "seq 1 5000")
    assert (result.log_incomplete, result.full_output_path) == (True, None)
    assert result.output.endswith("\n5000\n\n[Showing lines 3001-5000 of 5000. The full output could not be saved: File exists]")


def test_a_complete_log_is_named_without_a_note(box: Box) -> None:
    result = shell(box, "seq 1 5000")
    assert (result.log_incomplete, result.full_output_path) == (False, str(box.kept[0]))
    assert result.output.endswith("\n5000")
    assert shell(box, "true").log_incomplete is False


def test_a_log_that_cannot_be_made_is_no_failure(box: Box) -> None:
    box.logs.write_text("not a folder")
    done = box.call("bash", command="seq 1 5000")
    assert done.text.endswith("\n\n[Showing lines 3001-5000 of 5000. The full output could not be saved: File exists]")
    assert "fullOutputPath" not in done.details


def test_run_shell_reports_everything(box: Box) -> None:
    pieces: list[str] = []
    result = shell(box, "echo hello; echo err >&2; exit 2", on_output=pieces.append)
    assert (result.output, result.exit_code, result.cancelled, result.timed_out) == ("hello\nerr\n", 2, False, False)
    assert "".join(pieces) == "hello\nerr\n"
    assert not result.truncation.truncated
    assert (result.truncation.total_lines, result.full_output_path) == (2, None)


def test_clean_output_has_no_terminal_control(box: Box) -> None:
    result = shell(box, r"printf '\033[31mred\033[0m\r\n\x01bin \033]0;title\007tab\tend\033(B'", clean=True)
    assert result.output == "red\nbin tab\tend"


def test_escape_sequences_in_pieces_are_still_stripped(box: Box) -> None:
    pieces: list[str] = []
    pieces_written = (r"a\033", "[3", r"1mb\033]0;ti", r"tle\033", r"\\c")
    command = "; sleep 0.05; ".join(f"printf '{piece}'" for piece in pieces_written)
    assert shell(box, command, clean=True, on_output=pieces.append).output == "abc"
    assert "".join(pieces) == "abc"


def test_a_clean_log_is_clean(box: Box) -> None:
    result = shell(box, r"for i in $(seq 1 3000); do printf '\033[1m%d\033[0m\r\n' $i; done", clean=True)
    assert result.full_output_path is not None
    assert Path(result.full_output_path).read_text() == "".join(f"{i}\n" for i in range(1, 3001))


def test_a_timed_out_shell_has_no_exit_code(box: Box) -> None:
    result = shell(box, "echo hi; sleep 30", timeout=0.2)
    assert (result.output, result.exit_code, result.timed_out, result.cancelled) == ("hi\n", None, True, False)


def test_no_shell_raises(box: Box) -> None:
    box.workspace.shell = "/nowhere/sh"
    with pytest.raises(ToolError):
        shell(box, "true")


async def test_commands_run_at_the_same_time(box: Box) -> None:
    waiting = box.acall("bash", {"command": "until [ -e flag ]; do sleep 0.01; done; echo seen", "timeout": 20})
    assert (await asyncio.gather(waiting, box.acall("bash", {"command": "touch flag"})))[0].text == "seen\n"


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
