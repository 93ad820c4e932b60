"""A server that runs as a child process: JSON lines on its stdin and stdout, and our stderr as its stderr.

It leads its own process group, so that the programs it starts end with it. The transport in the `mcp` package waits several
seconds for a server to exit and does not say how it ended; a process that must exit cannot wait, and its user has to know.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fairlead.core.lenient import cut_deep_json, read_integer, scrub
from fairlead.errors import ConfigError
from fairlead.extend.mcp import sdk
from fairlead.extend.mcp.limits import MOST_BYTES
from fairlead.platform.process import child_guard

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.types import JSONRPCMessage

#: How many lines, and how many bytes, may be queued before reading from the server pauses.
_MAX_QUEUED_LINES, _MAX_QUEUED_BYTES = 64, 4 * 1024 * 1024
#: How many empty lines a server may write without anything else.
_MAX_EMPTY_LINES = 100_000
#: Seconds to wait for the last output of a server that has exited.
_DRAIN = 0.1
#: Seconds to wait for the exit of a server that has closed its stdout.
_EXIT_WAIT = 0.5


class ServerProcess(asyncio.SubprocessProtocol):
    """A server process. Once it can no longer be used, `lost` holds the reason, worded as the end of a sentence."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        #: Done once the process has ended.
        self.exited: asyncio.Future[None] = self._loop.create_future()
        #: The lines that it has written. None marks the end.
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._transport: asyncio.SubprocessTransport | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._queued_bytes = 0
        self._empty_lines = 0
        self._paused = False
        self._killed = False
        self._output_ended = False
        #: How it ended, worded as the end of a sentence.
        self._exit: str | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str], cwd: str) -> ServerProcess:
        """Start a server. Raises ConfigError if that fails."""
        if any("\0" in text for text in (*command, *env, *env.values(), cwd)):
            raise ConfigError("its command, environment or working directory contains a NUL character.")
        loop = asyncio.get_running_loop()
        child_guard.prepare()
        try:
            _, process = await loop.subprocess_exec(
                cls, *command, stderr=None, env=env, cwd=cwd, start_new_session=True, close_fds=True
            )
        except OSError as error:
            raise ConfigError(_explain_start_failure(command[0], cwd, error)) from error
        if process._transport is not None and process._exit is None:
            child_guard.add(process._transport.get_pid())
        return process

    async def next_line(self) -> bytes | None:
        """Return the next line, or None at the end."""
        line = await self.lines.get()
        self._queued_bytes -= len(line or b"")
        if self._paused and self.lines.qsize() < _MAX_QUEUED_LINES // 2 and self._queued_bytes < _MAX_QUEUED_BYTES:
            self._paused = False
            self._stdout().resume_reading()
        return line

    async def write(self, data: bytes) -> None:
        """Write a line. It is lost if the server has ended."""
        await self._writable.wait()
        transport = self._transport
        pipe = transport.get_pipe_transport(0) if transport is not None else None
        if pipe is not None and not pipe.is_closing():
            cast("asyncio.WriteTransport", pipe).write(data)

    def terminate(self) -> None:
        """Ask the server, and the programs it has started, to exit."""
        if hasattr(signal, "SIGTERM"):
            self._signal(signal.SIGTERM)

    def give_up(self, reason: str) -> None:
        """Kill the server, for a reason that is the end of a sentence."""
        self._set_lost(reason)
        self.kill()

    def kill(self) -> None:
        """Kill the server and the programs it has started."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._killed = True
        if self._transport is not None:
            self._transport.close()

    # Callbacks from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if b"\n" not in data:
            if self._size > MOST_BYTES:
                self.give_up(f"it wrote a line of more than {MOST_BYTES >> 20} MiB")
            return
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._size = [rest], len(rest)
        for line in lines:
            if line.strip():
                self._empty_lines = 0
                self._queued_bytes += len(line)
                self.lines.put_nowait(line)
                continue
            self._empty_lines += 1
            if self._empty_lines > _MAX_EMPTY_LINES:
                self.give_up(f"it wrote more than {_MAX_EMPTY_LINES:,} empty lines")
                return
        if not self._paused and (self.lines.qsize() > _MAX_QUEUED_LINES or self._queued_bytes > _MAX_QUEUED_BYTES):
            self._paused = True
            self._stdout().pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != 1:
            self._writable.set()
            return
        self._output_ended = True
        if self._exit is not None:
            self._set_lost(self._exit)
        else:  # the exit code says more, and usually arrives a moment later
            self._loop.call_later(_EXIT_WAIT, self._set_lost, "it closed its output")

    def process_exited(self) -> None:
        assert self._transport is not None
        self.exited.set_result(None)
        child_guard.remove(self._transport.get_pid())
        code = self._transport.get_returncode() or 0
        self._exit = f"it exited with code {code}" if code >= 0 else f"it was ended by {_signal_name(-code)}"
        if self._output_ended:
            self._set_lost(self._exit)
        else:  # a program that it started may keep its stdout open forever
            self._loop.call_later(_DRAIN, self._set_lost, self._exit)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _signal(self, number: int) -> None:
        if self._transport is None or self._killed:  # after that, its pid may belong to another process
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
    """Return a transport for the `mcp` package. Leaving it kills the process."""
    return cast("Transport", _streams(process))


@asynccontextmanager
async def _streams(process: ServerProcess) -> AsyncGenerator[tuple[Any, Any]]:
    incoming, to_client = sdk.anyio.create_memory_object_stream[sdk.SessionMessage | Exception](0)
    from_client, outgoing = sdk.anyio.create_memory_object_stream[sdk.SessionMessage](0)

    async def receive() -> None:
        async with incoming:
            while (line := await process.next_line()) is not None:
                for item in read_messages(line):
                    await incoming.send(item if isinstance(item, NotAMessage) else sdk.SessionMessage(item))

    async def send() -> None:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.write(text.encode() + b"\n")

    async with to_client, from_client, sdk.anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(send)
        try:
            yield to_client, from_client
        finally:
            process.kill()
            group.cancel_scope.cancel()


def read_messages(line: bytes) -> list[JSONRPCMessage | NotAMessage]:
    """Return the message in a line. Data in it that is too deep for most programs is cut.

    A line that breaks the protocol becomes a `NotAMessage`. If it answers a request, an error response follows, since the caller
    will get no other answer.
    """
    line = cut_deep_json(line)
    try:
        return [sdk.jsonrpc_message_adapter.validate_json(line, by_name=False)]
    except ValueError:
        pass
    value: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        # Some servers cut text in the middle of a character, write NaN, or numbers with thousands of digits.
        text = line.decode("utf-8", "replace")
        value = scrub(json.loads(text, parse_int=read_integer, parse_constant=lambda _: None))
        return [sdk.jsonrpc_message_adapter.validate_python(value, by_name=False)]
    found: list[JSONRPCMessage | NotAMessage] = [NotAMessage(line)]
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if isinstance(fields.get("id"), int | str) and "method" not in fields:
        reason = sdk.ErrorData(code=sdk.INTERNAL_ERROR, message="the server's answer is not a valid message")
        found.append(sdk.JSONRPCError(jsonrpc="2.0", id=fields["id"], error=reason))
    return found


class NotAMessage(Exception):
    """A server wrote a line on its stdout that is not a message of the protocol."""

    def __init__(self, line: bytes) -> None:
        shown = line[:200].decode("utf-8", "replace").strip()
        super().__init__(f"wrote a line that is not a JSON-RPC message: {shown}")


def _explain_start_failure(program: str, cwd: str, error: OSError) -> str:
    if not Path(cwd).is_dir():
        return f"its working directory {cwd} does not exist."
    if isinstance(error, FileNotFoundError):
        if Path(cwd, program).is_file():
            return f"{program} exists, but the interpreter in its first line does not."
        return f"there is no program {program}" + ("." if "/" in program else " on the PATH.")
    return f"{program} could not be started: {error.strerror or error}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
