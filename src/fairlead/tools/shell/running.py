"""A shell command that has been started: its output, its end, and how it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.config.child_guard import child_guard
from fairlead.tools.shell.output import CommandOutput
from fairlead.tools.workspace import Confined

if TYPE_CHECKING:
    from subprocess import Popen

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
        self.after(_GRACE + _GIVE_UP, self._drained)

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
            self.after(_DRAIN, self._drained)

    def _drained(self) -> None:
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
        import threading

        def wait() -> None:
            self._process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                self._loop.call_soon_threadsafe(self._on_exit)

        threading.Thread(target=wait, name="fairlead-wait", daemon=True).start()


def _group_inside(info: int) -> int | None:
    """Return the process group of a command in a sandbox; None if it has not been started yet."""
    import msgspec

    os.set_blocking(info, False)
    try:
        return msgspec.json.decode(os.read(info, _CHUNK), type=dict[str, int])["child-pid"]
    except (BlockingIOError, msgspec.DecodeError, KeyError):
        return None


def _reap(process: Popen[bytes]) -> int | None:
    import subprocess

    try:
        code = process.wait(timeout=_REAP)
    except subprocess.TimeoutExpired:
        import threading

        threading.Thread(target=process.wait, name="fairlead-reap", daemon=True).start()
        return None
    return code if code >= 0 else 128 - code


def close_files(*files: int) -> None:
    """Close file descriptors. Negative numbers stand for none."""
    for file in files:
        if file >= 0:
            os.close(file)
