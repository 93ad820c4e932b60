"""The process of an agent: starts it with pipes, watches it, and ends it with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from msgspec import Struct

from fairlead.errors import AgentGone

#: Bytes that the client reads ahead. The agent waits when it has written this much more than the client has handled.
READ_AHEAD = 1 << 18
#: Bytes of the standard error that are kept for error messages.
STDERR_TAIL = 8 << 10
#: Seconds to read the rest of the output of a process that has ended. A child of it may hold the pipe open.
DRAIN = 0.5


class Launch(Struct, frozen=True):
    """How to start an agent: its command line, working directory and environment (None: those of this process)."""

    argv: Sequence[str]
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None


class StopTimes(Struct, frozen=True):
    """Seconds that an agent has to end: after the end of its input, and after SIGTERM. Then SIGKILL ends it."""

    after_eof: float = 5.0
    after_term: float = 3.0


class AgentProcess:
    """A running agent. It leads its own process group, so that stopping it also reaches what it started."""

    def __init__(self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._process = process
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._stderr = b""
        self._transports: list[asyncio.BaseTransport] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, launch: Launch) -> AgentProcess:
        """Start a process. Raises AgentGone if that is not possible."""
        process = _spawn(launch)
        assert process.stdin and process.stdout and process.stderr
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_AHEAD)
        output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        unread = asyncio.StreamReader()
        transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unread), process.stdin)
        made = cls(process, reader, asyncio.StreamWriter(transport, protocol, None, loop))
        made._transports = [output]
        await made._watch(process.stderr)
        return made

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._exit.result() if self._exit.done() else None

    @property
    def stderr(self) -> str:
        """The end of what the process wrote to its standard error."""
        return self._stderr.decode("utf-8", "replace").strip()

    async def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end of the process and return its exit code, or None if `timeout` seconds pass."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self._exit), timeout)
        return None

    async def stop(self, times: StopTimes) -> int | None:
        """End the process. Returns its exit code. Its last output can still be read, until `release`."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.close()
        if await self.wait(times.after_eof) is None:
            self._signal(signal.SIGTERM)
            if await self.wait(times.after_term) is None:
                self.kill()
                await self.wait()
        return self.exit_code

    def kill(self) -> None:
        """End the process and its group at once."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    async def release(self) -> None:
        """End what is left of the group of a process that has ended, and close the pipes."""
        self.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in self._transports:
            transport.close()
        if self.writer.transport.get_write_buffer_size():
            self.writer.transport.abort()  # the process did not read it
        else:
            self.writer.close()
        await asyncio.sleep(0)  # the transports close their files in the next turn of the loop

    # Inside

    async def _watch(self, stderr: IO[bytes]) -> None:
        loop = asyncio.get_running_loop()
        errors = asyncio.StreamReader(limit=STDERR_TAIL)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), stderr)
        self._transports.append(transport)
        # A thread notices the end of the process without a child watcher, in any event loop.
        threading.Thread(target=self._wait, args=[loop], name="fairlead-agent-exit", daemon=True).start()
        self._tasks = [loop.create_task(self._keep_tail(errors)), loop.create_task(self._end_output())]

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._on_exit, code)

    def _on_exit(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)

    async def _keep_tail(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(STDERR_TAIL):
            self._stderr = (self._stderr + data)[-STDERR_TAIL:]

    async def _end_output(self) -> None:
        """End the output some time after the process, even if a child of it holds the pipe open."""
        await asyncio.shield(self._exit)
        await asyncio.sleep(DRAIN)
        if not self.reader.at_eof():
            self.reader.feed_eof()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            elif self._process.poll() is None:
                self._process.send_signal(number)


def _spawn(launch: Launch) -> subprocess.Popen[bytes]:
    env = None if launch.env is None else dict(launch.env)
    try:
        return subprocess.Popen(
            list(launch.argv),
            cwd=launch.cwd,
            env=env,
            bufsize=0,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        name = launch.argv[0] if launch.argv else ""
        if launch.cwd is not None and not os.path.isdir(launch.cwd):
            raise AgentGone(f"The agent cannot start: {launch.cwd} is not a directory.") from error
        raise AgentGone(f"The agent {name!r} cannot start: {error}. Is it installed, and on the PATH?") from error
