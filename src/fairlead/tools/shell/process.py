"""Runs shell commands, for the bash tool and for others.

A command runs in its own process group, with both output streams in one pipe and a time limit. The bash tool (`run_bash`) shows
its output while it runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.config.child_guard import child_guard
from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import StructuredResult, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.shell.output import CommandOutput
from fairlead.tools.shell.running import RunningCommand, close_files
from fairlead.tools.truncate import Truncation
from fairlead.tools.workspace import Confined, Sandbox, Workspace

if TYPE_CHECKING:
    from subprocess import Popen

#: Seconds that an aborted command waits for what a sandbox finds, for the same reason; the search continues.
_LAST_CHECK = 0.05
_STILL_CHECKING = "[Sandbox: the working directory is still being looked through for git repositories.]"


@dataclass(frozen=True, slots=True)
class ShellResult:
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
) -> tuple[Popen[bytes], int, int | None]:
    """Start the shell as the leader of a new session. The read end of its only output pipe comes with it, and that of the pipe on
    which a sandbox says which process group the shell is in."""
    import subprocess

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
    import errno

    if not os.path.isdir(workspace.cwd):
        return f"The working directory {workspace.cwd} does not exist, so no command can run in it."
    if error.errno == errno.E2BIG:
        size = len(command.encode("utf-8", "replace"))
        return f"The command is too long to be passed to a shell ({size} bytes). Write it to a file and run that."
    return f"The shell {shell} could not be started: {error.strerror}."


#: Seconds between two updates.
_PACE = 0.1
#: How many bytes of the output a host gets as data.
_MOST_STRUCTURED = 1 << 20
#: In seconds: about thirty years.
_LONGEST_TIMEOUT = 1e9


async def run_bash(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    timeout: float | None = min(arguments.get("timeout") or 0, _LONGEST_TIMEOUT) or None
    output = CommandOutput(workspace.log_dir, workspace.keep_log)
    updates = _Updates(output, context)
    began = time.monotonic()
    try:
        result = await run_into(
            output, workspace, arguments["command"], cancel=context.cancel, timeout=timeout, on_output=updates.changed
        )
    finally:
        updates.stop()
    updates.flush()
    structured = partial(_structured, output, result, time.monotonic() - began)
    text = result.output
    details: dict[str, Any] | None = None
    if result.truncation.truncated:
        text += f"\n\n{output.notice(result.truncation)}"
        details = _details(result.truncation, result.full_output_path)
    text = with_remarks(text, result.remarks)
    problem = problem_of(result, timeout)
    if problem is None:
        return StructuredResult([TextContent(text or "(no output)")], details, structured=structured)
    if result.exit_code is not None:
        text = text or "(no output)"
    said = structured if result.exit_code is not None else None
    raise ToolError(f"{text}\n\n{problem}" if text else problem, details, structured=said)


def _structured(output: CommandOutput, result: ShellResult, seconds: float) -> dict[str, Any]:
    """The result as data, in the form of pi 1.5."""
    text, is_cut = output.whole(_MOST_STRUCTURED)
    structured: dict[str, Any] = {"output": text, "truncated": is_cut}
    if is_cut and result.full_output_path is not None:
        structured["full_output_path"] = result.full_output_path
    return {**structured, "exit_code": result.exit_code, "wall_time_seconds": round(seconds, 1)}


def problem_of(result: ShellResult, timeout: float | None) -> str | None:
    """Return a sentence that says why a command failed; None if it did not."""
    if result.cancelled:
        return "Command aborted"
    if result.timed_out:
        return f"Command timed out after {timeout:g} seconds"
    if result.exit_code is None:
        return "Command did not end, even after it was killed"
    return f"Command exited with code {result.exit_code}" if result.exit_code else None


def _details(shown: Truncation, log_path: str | None) -> dict[str, Any]:
    if not shown.truncated:
        return {}
    details: dict[str, Any] = {"truncation": shown.as_details()}
    if log_path is not None:
        details["fullOutputPath"] = log_path
    return details


class _Updates:
    """Shows the host the end of the output: an empty update at once, the first text as it comes, then at a steady pace."""

    def __init__(self, output: CommandOutput, context: ToolContext) -> None:
        self._output = output
        self._update = context.update
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._dirty = False
        self._not_before = 0.0
        self._update(ToolResult([]))

    def changed(self, _: str) -> None:
        self._dirty = True
        if self._timer is not None:
            return
        now = self._loop.time()
        if now >= self._not_before:
            self.flush()
        else:
            self._timer = self._loop.call_at(self._not_before, self.flush)

    def flush(self) -> None:
        self._timer = None
        if not self._dirty:
            return
        self._dirty = False
        self._not_before = self._loop.time() + _PACE
        shown = self._output.snapshot()
        self._update(ToolResult([TextContent(shown.content)], _details(shown, self._output.log_path)))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
