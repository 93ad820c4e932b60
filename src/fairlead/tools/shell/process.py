"""Runs shell commands, for tools and for others.

A command runs in its own process group, with both output streams in one pipe and a time limit.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.child_guard import child_guard
from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.tools.shell.output import CommandOutput
from fairlead.tools.shell.running import RunningCommand, close_files
from fairlead.tools.truncate import Truncation
from fairlead.tools.workspace import Confined, Sandbox, Workspace

#: Seconds that an aborted command waits for what a sandbox finds, for the same reason; the search continues.
_LAST_CHECK = 0.05
_STILL_CHECKING = "[Sandbox: the working directory is still being looked through for git repositories.]"


class ShellResult(Struct, frozen=True):
    """How a command ended. `exit_code` is None if it was stopped; 128 + n if signal n killed it.

    `full_output_path` names a log of all of the output if `output` is only the end of it. If that log
    could not be written to its end, `log_incomplete` is true, no log is named here, and `output` ends
    with a note that says why and what there is.
    """

    output: str
    exit_code: int | None
    cancelled: bool
    timed_out: bool
    truncation: Truncation
    full_output_path: str | None
    log_incomplete: bool
    #: What a sandbox has to say about the command.
    remarks: tuple[str, ...] = ()


async def run_shell(
    workspace: Workspace,
    command: str,
    *,
    cancel: CancelToken,
    timeout: float | None,
    on_output: Callable[[str], None] | None = None,
    clean: bool = False,
) -> ShellResult:
    """Run `command` until it ends, `cancel` fires or `timeout` seconds have passed.

    `on_output` gets each new piece of text. With `clean`, escape sequences, carriage returns and
    control characters are left out. Raises ToolError if the command cannot be started.
    """
    output = CommandOutput(workspace.log_dir, workspace.keep_log, clean=clean)
    result = await run_into(output, workspace, command, cancel=cancel, timeout=timeout, on_output=on_output)
    if result.log_incomplete:
        result = replace(result, output=f"{result.output}\n\n{output.notice(result.truncation)}")
    return replace(result, output=with_remarks(result.output, result.remarks))


def with_remarks(output: str, remarks: Sequence[str]) -> str:
    """Return the output of a command, with what its sandbox has to say."""
    return "\n\n".join(filter(None, [output.removesuffix("\n"), *remarks])) if remarks else output


async def run_into(
    output: CommandOutput,
    workspace: Workspace,
    command: str,
    *,
    cancel: CancelToken,
    timeout: float | None,
    on_output: Callable[[str], None] | None = None,
    stdin: int | None = None,
    on_start: Callable[[int, Confined | None], None] | None = None,
) -> ShellResult:
    """`run_shell`, for a caller that looks at the output meanwhile and adds its own notes to it, and the remarks.

    `stdin` is a file for the command to read from, which is empty otherwise. `on_start` gets the number of its process group, and
    what it is confined in.
    """
    if cancel.fired:
        return _result(output, None, cancelled=True, timed_out=False)
    confined = None if workspace.sandbox is None else await _enter(workspace.sandbox, workspace.cwd)
    if cancel.fired:  # while the sandbox was made ready
        _leave(confined)
        return _result(output, None, cancelled=True, timed_out=False)
    try:
        process, pipe, info = _start(workspace, command, stdin, confined)
    except BaseException:
        _leave(confined)
        raise
    if on_start is not None:
        on_start(process.pid, confined)
    run = RunningCommand(process, pipe, info, output, on_output, confined)
    try:
        run.watch()
        take_back = cancel.on_fire(run.cancel)
        if timeout is not None:
            run.after(timeout, run.time_out)
        try:
            await run.ended
        finally:
            take_back()
    finally:
        exit_code = run.close()
        rest = output.finish()
        # A caller that is cut off does not wait for it, but it happens.
        checking = None if confined is None else check(confined, output.snapshot().content, ended=True)
    if rest and on_output is not None:
        on_output(rest)
    remarks: Sequence[str] = ()
    if checking is not None:
        await asyncio.wait([checking], timeout=_LAST_CHECK if run.cancelled else None)
        remarks = checking.result() if checking.done() else (_STILL_CHECKING,)
    return _result(output, exit_code, cancelled=run.cancelled, timed_out=run.timed_out, remarks=remarks)


async def _enter(sandbox: Sandbox, cwd: Path) -> Confined:
    """`sandbox.enter`, in a thread. If the caller is cut off meanwhile, the sandbox is left as soon as it is ready."""
    entering = asyncio.get_running_loop().run_in_executor(None, sandbox.enter, cwd)
    try:
        return await asyncio.shield(entering)
    except asyncio.CancelledError:
        entering.add_done_callback(lambda ended: ended.cancelled() or ended.exception() or _leave(ended.result()))
        raise


def _leave(confined: Confined | None) -> None:
    """Leave a sandbox in which no command has run. Nothing waits for it."""
    if confined is not None:
        check(confined, "", ended=True)


def check(confined: Confined, said: str, *, ended: bool) -> asyncio.Future[list[str]]:
    """`confined.check`, in a thread that begins now."""
    return asyncio.get_running_loop().run_in_executor(None, partial(confined.check, said, ended=ended))


def _result(
    output: CommandOutput, exit_code: int | None, *, cancelled: bool, timed_out: bool, remarks: Sequence[str] = ()
) -> ShellResult:
    shown = output.snapshot()
    return ShellResult(
        shown.content,
        None if cancelled or timed_out else exit_code,
        cancelled,
        timed_out,
        shown,
        output.log_path if shown.truncated else None,
        output.log_incomplete,
        tuple(remarks),
    )


def _start(
    workspace: Workspace, command: str, stdin: int | None, confined: Confined | None
) -> tuple[subprocess.Popen[bytes], int, int | None]:
    """Start the shell as the leader of a new session. The read end of its only output pipe comes with it, and that of the pipe on
    which a sandbox says which process group the shell is in."""
    shell = workspace.find_shell()
    if workspace.command_prefix:
        command = f"{workspace.command_prefix}\n{command}"
    if "\0" in command:
        raise ToolError("The command contains a NUL character, which cannot be passed to a shell.")
    if command.startswith(("-", "+")):
        # Most shells would take it for options. fish takes `--` for the command, but a space means nothing to any of them.
        command = f" {command}"
    words = [shell, "-c", command]
    read_end = write_end = info = info_write = calls = -1
    try:
        read_end, write_end = os.pipe()
        if confined is not None and workspace.sandbox is not None:
            info, info_write = os.pipe()
            calls = workspace.sandbox.open_filter()
            words = confined.wrapped(words, info_write, calls)
        child_guard.prepare()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=write_end,
            stderr=write_end,
            cwd=workspace.cwd,
            env=workspace.env,
            start_new_session=True,
            pass_fds=() if info_write < 0 else (info_write, calls),
        )
        child_guard.add(process.pid)
    except BaseException as error:
        close_files(read_end, info)
        if isinstance(error, OSError):
            raise ToolError(_why_not_started(workspace, shell, command, error)) from error
        raise
    finally:
        close_files(write_end, info_write, calls)
    os.set_blocking(read_end, False)
    return process, read_end, None if info < 0 else info


def _why_not_started(workspace: Workspace, shell: str, command: str, error: OSError) -> str:
    if not os.path.isdir(workspace.cwd):
        return f"The working directory {workspace.cwd} does not exist, so no command can run in it."
    if error.errno == errno.E2BIG:
        size = len(command.encode("utf-8", "replace"))
        return f"The command is too long to be passed to a shell ({size} bytes). Write it to a file and run that."
    return f"The shell {shell} could not be started: {error.strerror}."


def problem_of(result: ShellResult, timeout: float | None) -> str | None:
    """Return a sentence that says why a command failed; None if it did not."""
    if result.cancelled:
        return "Command aborted"
    if result.timed_out:
        return f"Command timed out after {timeout:g} seconds"
    if result.exit_code is None:
        return "Command did not end, even after it was killed"
    return f"Command exited with code {result.exit_code}" if result.exit_code else None
