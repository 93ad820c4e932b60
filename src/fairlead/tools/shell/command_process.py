"""Runs shell commands, for tools and for others.

A command runs in its own process group, with both output streams in one pipe and a time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.platform.process import child_guard
from fairlead.tools.shell.output import CommandOutput
from fairlead.tools.truncate import Truncation
from fairlead.tools.workspace import Confined, Sandbox, Workspace

if TYPE_CHECKING:
    from subprocess import Popen


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
            words = confined.wrap(words, info_write, calls)
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
            raise ToolError(_explain_start_failure(workspace, shell, command, error)) from error
        raise
    finally:
        close_files(write_end, info_write, calls)
    os.set_blocking(read_end, False)
    return process, read_end, None if info < 0 else info


def _explain_start_failure(workspace: Workspace, shell: str, command: str, error: OSError) -> str:
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


#: Seconds between asking a group to end and killing it.
_GRACE = 0.2
#: Seconds that a background child may keep writing after the shell itself has ended.
_DRAIN = 0.1
#: Seconds after SIGKILL when the result is handed over in any case. A run cuts an aborted tool off, and loses its
#: output, 0.4 seconds after the abort: all three steps of a stop have to fit in, with room for a busy machine.
_GIVE_UP = 0.05
#: Seconds until a killed shell is usually gone; one that takes longer is waited for elsewhere.
_REAP = 0.05
_CHUNK = 64 * 1024


class RunningCommand:
    """A started command, from the first byte to the last.

    It has ended when the shell has exited and all write ends of the pipe are closed, or a moment after the exit if a
    background process still holds the pipe.
    """

    def __init__(
        self,
        process: Popen[bytes],
        pipe: int,
        info: int | None,
        output: CommandOutput,
        on_output: Callable[[str], None] | None,
        confined: Confined | None,
    ) -> None:
        self.cancelled = False
        self.timed_out = False
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._process = process
        self._pipe: int | None = pipe
        self._info = info
        self._confined = confined
        #: The process group of a command in a sandbox, once it is known.
        self._group: int | None = None
        self._exit_fd: int | None = None
        self._exited = False
        self._output = output
        self._on_output = on_output
        self._timers: list[asyncio.TimerHandle] = []

    def watch(self) -> None:
        if self._confined is not None:
            self._confined.arm(lambda: self._signal(signal.SIGKILL))
        assert self._pipe is not None
        self._loop.add_reader(self._pipe, self._read)
        try:
            self._exit_fd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or forbidden by a sandbox
            self._watch_in_thread()
        else:
            self._loop.add_reader(self._exit_fd, self._on_exit)

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, callback))

    def cancel(self) -> None:
        if not self._exited:
            self.cancelled = not self.timed_out
            self._stop()
        else:
            self._end()

    def time_out(self) -> None:
        if not self._exited and not self.cancelled:
            self.timed_out = True
            self._stop()

    def close(self) -> int | None:
        """Release everything, and kill the command if it should have stopped. Returns the exit code, if there is one."""
        for timer in self._timers:
            timer.cancel()
        self._close_pipe()
        self._close_exit_fd()
        if self._confined is not None:
            self._confined.disarm()
        if self._confined is not None and (group := self._group_inside()) is not None:
            self._confined.ending(group)
        if self.cancelled or self.timed_out or not self._exited:
            # Before the shell is reaped, so that its number cannot belong to another group yet.
            self._signal(signal.SIGKILL)
        close_files(-1 if self._info is None else self._info)
        child_guard.remove(self._process.pid)
        return _reap(self._process)

    def _stop(self) -> None:
        self._ask_to_end()
        self.after(_GRACE, lambda: self._signal(signal.SIGKILL))
        self.after(_GRACE + _GIVE_UP, self._on_drain)

    def _ask_to_end(self) -> None:
        if self._info is None:
            self._signal(signal.SIGTERM)
        elif (group := self._group_inside()) is not None:
            # Not the sandbox: with it, all that is in it would be killed at once.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGTERM)

    def _group_inside(self) -> int | None:
        if self._group is None and self._info is not None:
            self._group = _group_inside(self._info)
        return self._group

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _read(self) -> bool:
        """Take one chunk from the pipe; False if there was none."""
        if self._pipe is None:
            return False
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._close_pipe()
            if self._exited:
                self._end()
            return False
        if self._confined is not None and self._confined.is_exposed:
            return True  # it may be from a protected file
        text = self._output.feed(data)
        if text and self._on_output is not None:
            self._on_output(text)
        return True

    def _on_exit(self) -> None:
        self._exited = True
        self._close_exit_fd()
        if self._pipe is None:
            self._end()
        else:
            self.after(_DRAIN, self._on_drain)

    def _on_drain(self) -> None:
        # What the shell itself wrote is in the pipe, at most 1 MiB of it; a background child may never stop writing.
        for _ in range(1024 * 1024 // _CHUNK):
            if not self._read():
                break
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def _close_exit_fd(self) -> None:
        if self._exit_fd is not None:
            self._loop.remove_reader(self._exit_fd)
            os.close(self._exit_fd)
            self._exit_fd = None

    def _watch_in_thread(self) -> None:
        def wait() -> None:
            self._process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                self._loop.call_soon_threadsafe(self._on_exit)

        threading.Thread(target=wait, name="fairlead-wait", daemon=True).start()


def _group_inside(info: int) -> int | None:
    """Return the process group of a command in a sandbox; None if it has not been started yet."""
    os.set_blocking(info, False)
    try:
        return msgspec.json.decode(os.read(info, _CHUNK), type=dict[str, int])["child-pid"]
    except (BlockingIOError, msgspec.DecodeError, KeyError):
        return None


def _reap(process: Popen[bytes]) -> int | None:
    try:
        code = process.wait(timeout=_REAP)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name="fairlead-reap", daemon=True).start()
        return None
    return code if code >= 0 else 128 - code


def close_files(*files: int) -> None:
    """Close file descriptors. Negative numbers stand for none."""
    for file in files:
        if file >= 0:
            os.close(file)
