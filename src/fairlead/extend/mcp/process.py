"""A server that is a child process: lines of JSON on its standard input and output, its standard error beside ours.

It leads a process group of its own, so that whatever it starts ends with it. The package's own transport for this waits up to
seconds for a server to leave by itself, and does not say how one ended; a process that has to exit cannot wait, and its user
has to know.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.types import JSONRPCMessage

#: Bytes of a line that no server has reason to exceed.
_MAX_LINE_BYTES = 64 * 1024 * 1024
#: Lines that may wait to be handled; while there are more, the server is not read.
_MAX_QUEUED_LINES = 64
#: Seconds that the last output of a server which has ended may take to arrive.
_DRAIN = 0.1
#: Seconds after which a server that has closed its output but has not ended is taken for lost.
_EXIT_WAIT = 0.5


class ServerProcess(asyncio.SubprocessProtocol):
    """A server process. `lost` has the reason, as the end of a sentence, once nothing more can be said to it or heard from it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        #: What it has written, line by line; None is the end.
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._transport: asyncio.SubprocessTransport | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._killed = False
        self._output_ended = False
        #: How it ended, as the end of a sentence.
        self._exit: str | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str], cwd: str) -> ServerProcess:
        """Start a server. Raises ConfigError if that is not possible."""
        if any("\0" in text for text in (*command, *env, *env.values(), cwd)):
            raise ConfigError("its command, environment or working directory contains a NUL character.")
        loop = asyncio.get_running_loop()
        try:
            _, process = await loop.subprocess_exec(
                cls, *command, stderr=None, env=env, cwd=cwd, start_new_session=True, close_fds=True
            )
        except OSError as error:
            raise ConfigError(_why_not_started(command[0], cwd, error)) from error
        return process

    async def next_line(self) -> bytes | None:
        """The next line; None at the end."""
        line = await self.lines.get()
        if self._paused and self.lines.qsize() < _MAX_QUEUED_LINES // 2:
            self._paused = False
            self._stdout().resume_reading()
        return line

    async def write(self, data: bytes) -> None:
        """Write a line. What an ended server is told is lost, as `lost` says."""
        await self._writable.wait()
        transport = self._transport
        pipe = transport.get_pipe_transport(0) if transport is not None else None
        if pipe is not None and not pipe.is_closing():
            cast("asyncio.WriteTransport", pipe).write(data)

    def terminate(self) -> None:
        """Tell it, and everything it has started, to end by itself."""
        if hasattr(signal, "SIGTERM"):
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and everything it has started, at once."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._killed = True
        if self._transport is not None:
            self._transport.close()

    # What asyncio tells of the process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if b"\n" not in data:
            if self._size > _MAX_LINE_BYTES:
                self._set_lost(f"it wrote a line of more than {_MAX_LINE_BYTES >> 20} MiB")
                self.kill()
            return
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._size = [rest], len(rest)
        for line in lines:
            self.lines.put_nowait(line)
        if not self._paused and self.lines.qsize() > _MAX_QUEUED_LINES:
            self._paused = True
            self._stdout().pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != 1:
            self._writable.set()
            return
        self._output_ended = True
        if self._exit is not None:
            self._set_lost(self._exit)
        else:  # its exit, which says more, is usually told of a moment later
            self._loop.call_later(_EXIT_WAIT, self._set_lost, "it closed its output")

    def process_exited(self) -> None:
        assert self._transport is not None
        code = self._transport.get_returncode() or 0
        self._exit = f"it exited with code {code}" if code >= 0 else f"it was ended by {_signal_name(-code)}"
        if self._output_ended:
            self._set_lost(self._exit)
        else:  # something that it started may hold its output open for ever
            self._loop.call_later(_DRAIN, self._set_lost, self._exit)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _signal(self, number: int) -> None:
        if self._transport is None or self._killed:  # afterwards its number may be another's
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._transport.get_pid(), number)
            else:
                self._transport.send_signal(number)

    def _stdout(self) -> asyncio.ReadTransport:
        assert self._transport is not None
        return cast("asyncio.ReadTransport", self._transport.get_pipe_transport(1))

    def _set_lost(self, how: str) -> None:
        self._writable.set()
        if not self.lost.done():
            self.lost.set_result(how)
            self.lines.put_nowait(None)


def process_transport(process: ServerProcess) -> Transport:
    """The child as a transport of the package's. Leaving it ends the child."""
    return cast("Transport", _streams(process))


@asynccontextmanager
async def _streams(process: ServerProcess) -> AsyncGenerator[tuple[Any, Any]]:
    import anyio
    from mcp.shared.message import SessionMessage

    heard, to_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_client, to_say = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        async with heard:
            while (line := await process.next_line()) is not None:
                if not line.strip():
                    continue
                for item in _messages(line):
                    await heard.send(item if isinstance(item, NotAMessage) else SessionMessage(item))

    async def say() -> None:
        async with to_say:
            async for message in to_say:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.write(text.encode() + b"\n")

    async with to_client, from_client, anyio.create_task_group() as group:
        group.start_soon(hear)
        group.start_soon(say)
        try:
            yield to_client, from_client
        finally:
            process.kill()
            group.cancel_scope.cancel()


def _messages(line: bytes) -> list[JSONRPCMessage | NotAMessage]:
    """The message in a line. Of one that breaks the protocol it is told; if it answers a request, whoever waits is told as well,
    since there will be no other answer."""
    from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

    from fairlead.core.lenient import scrub

    try:
        return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
    except ValueError:
        pass
    value: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        # Some servers cut texts within a character, or write NaN.
        value = scrub(json.loads(line.decode("utf-8", "replace"), parse_constant=lambda _: None))
        return [jsonrpc_message_adapter.validate_python(value, by_name=False)]
    found: list[JSONRPCMessage | NotAMessage] = [NotAMessage(line)]
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if isinstance(fields.get("id"), int | str) and "method" not in fields:
        reason = ErrorData(code=INTERNAL_ERROR, message="the server's answer is no message of the protocol")
        found.append(JSONRPCError(jsonrpc="2.0", id=fields["id"], error=reason))
    return found


class NotAMessage(Exception):
    """A server wrote a line on its standard output that is no message of the protocol."""

    def __init__(self, line: bytes) -> None:
        shown = line[:200].decode("utf-8", "replace").strip()
        super().__init__(f"wrote a line that is no JSON-RPC message: {shown}")


def _why_not_started(program: str, cwd: str, error: OSError) -> str:
    from pathlib import Path

    if not Path(cwd).is_dir():
        return f"its working directory {cwd} does not exist."
    if isinstance(error, FileNotFoundError):
        if Path(cwd, program).is_file():
            return f"{program} is there, but the interpreter that its first line names is not."
        return f"there is no program {program}" + ("." if "/" in program else " on the PATH.")
    return f"{program} could not be started: {error.strerror or error}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
