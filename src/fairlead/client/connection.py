"""A connection to an agent: reads lines, matches answers to requests, and ends cleanly. The protocol is up to subclasses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.client.decoding import Event, LineSplitter
from fairlead.client.event_stream import EventHub, EventStream, Merger, caller
from fairlead.client.process import DRAIN, READ_AHEAD, AgentProcess, Launch, StopTimes
from fairlead.errors import AgentGone, ClientError, NoAnswer

if TYPE_CHECKING:
    from fairlead.client.network import Dial, WebSocketStream

#: Bytes of the longest line that a client accepts.
LONGEST_LINE = 256 << 20
#: Seconds to learn the exit code of a process that has closed its output.
EXIT_PATIENCE = 2.0

K = TypeVar("K")
log = logging.getLogger("fairlead.client")


class Request(Struct, eq=False):
    """A request that waits for its answer. `late` requests may take long, so later ones may be answered first."""

    name: str
    answer: asyncio.Future[Any]
    caller: object
    late: bool


class ByteReader(Protocol):
    """The part of `asyncio.StreamReader` that a connection uses."""

    async def read(self, n: int = -1, /) -> bytes: ...


class ByteWriter(Protocol):
    """The part of `asyncio.StreamWriter` that a connection uses. Each write is one line."""

    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...
    @property
    def transport(self) -> asyncio.WriteTransport: ...


class Connection(ABC, Generic[K]):
    """What the clients of all protocols share. A subclass handles lines and encodes requests. `K` is the type of request ids."""

    def __init__(
        self,
        reader: ByteReader | None,
        writer: ByteWriter | None,
        launch: Launch | Dial | None,
        *,
        timeout: float | None,
        stop_times: StopTimes,
        merger: Merger,
    ) -> None:
        self._reader: ByteReader | None = reader
        self._writer: ByteWriter | None = writer
        self._launch = launch
        self._socket: WebSocketStream | None = None
        self._timeout = timeout
        self._stop_times = stop_times
        self._process: AgentProcess | None = None
        self._requests: dict[K, Request] = {}
        #: Callers that wait for the end of a run.
        self._waiting: list[object] = []
        self._hub: EventHub[Event] = EventHub(merger, self._is_waiting)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._stopping = False
        self._gone: AgentGone | None = None

    # Its life

    async def __aenter__(self) -> Self:
        """Start the agent, if this client does that, and begin to read."""
        await self._open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    @property
    def pid(self) -> int | None:
        """The process that this client started, if any."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of that process, if it has ended."""
        return self._process.exit_code if self._process else None

    async def stop(self) -> int | None:
        """End the connection, and the process if this client started it: first by the end of its input, then by signals.

        Returns the exit code of the process. Requests and runs that are still waiting raise AgentGone. Calling it again does
        nothing.
        """
        if not self._stopping:
            self._stopping = True
            self._hub.on_take()
            try:
                code = await self._process.stop(self._stop_times) if self._process else None
            except BaseException:
                if self._process is not None:
                    self._process.kill()  # the caller has no more time
                raise
            if self._writer is not None and self._process is None:
                self._writer.close()
            if self._socket is not None:
                with contextlib.suppress(OSError, TimeoutError):
                    await asyncio.wait_for(self._socket.wait_closed(), DRAIN)
            if self._reading is not None:
                if self._process is not None:
                    await asyncio.wait([self._reading], timeout=2 * DRAIN)  # for the last events
                    await self._process.release()
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)
            self._end(AgentGone("The client was stopped.", exit_code=code), expected=True)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.exit_code

    def events(self) -> EventStream[Event]:
        """Return an iterator of all events from now on. Several iterators are independent of each other.

        No event is lost. The iterator ends when the client is stopped, and raises AgentGone if the agent ends by itself. A slow
        reader slows down the agent: see `fairlead.client`.
        """
        return self._hub.stream()

    # For subclasses

    @abstractmethod
    def _handle_line(self, line: bytes) -> None:
        """Handle a line from the agent."""

    def _handle_end(self, error: AgentGone) -> None:
        """Tell everything but the requests that the agent has ended."""

    async def _handle_exit(self, error: AgentGone) -> None:
        """React to an agent that ended by itself."""
        self._end(error)

    async def _open(self) -> None:
        if isinstance(self._launch, Launch):
            self._process = await AgentProcess.start(self._launch)
            self._reader, self._writer = self._process.reader, self._process.writer
        elif self._launch is not None:
            self._socket = self._reader = self._writer = await self._launch.open(self._timeout)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _exchange(self, id: K, name: str, line: bytes, timeout: float | UnsetType | None, *, late: bool) -> Any:
        """Send a request and wait for its answer. Raises what the answer says, NoAnswer or AgentGone."""
        seconds = (None if late else self._timeout) if timeout is UNSET else timeout
        request = self._requests[id] = Request(name, asyncio.get_running_loop().create_future(), caller(), late)
        self._hub.on_take()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                try:
                    await self._write(line)
                except AgentGone:
                    if not self._will_restart():
                        raise
                return await request.answer  # which raises once the agent was restarted
        except TimeoutError:
            if limit.expired():
                raise NoAnswer(f"The agent did not answer {name} within {seconds:g} seconds.") from None
            raise
        finally:
            self._requests.pop(id, None)

    def _will_restart(self) -> bool:
        """Whether the agent that has just died is started again. Requests that waited for it are settled after that."""
        return False

    async def _write(self, line: bytes) -> None:
        """Send a line. Raises AgentGone if the agent no longer reads."""
        if self._gone is not None:
            raise self._gone.with_traceback(None)
        if self._writer is None:
            raise ClientError("The client is not connected. Use it in `async with`.")
        try:
            self._writer.write(line + b"\n")
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            if self._reading is not None:
                await asyncio.wait([self._reading], timeout=EXIT_PATIENCE)
            if self._gone is not None:
                raise self._gone from error
            raise AgentGone("The agent has closed its input.") from error

    def _start_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @contextlib.contextmanager
    def _waits(self) -> Any:
        """While the caller waits for a run, the client reads on even if the caller's stream is full."""
        who = caller()
        self._waiting.append(who)
        self._hub.on_take()
        try:
            yield
        finally:
            self._waiting.remove(who)

    # Inside

    def _is_waiting(self, who: object) -> bool:
        """Whether only further reading can help: any short request waits, or this caller waits for anything."""
        if self._stopping or who in self._waiting:
            return True
        return any(not request.late or request.caller == who for request in self._requests.values())

    async def _read(self) -> None:
        assert self._reader is not None
        problem = await self._read_lines(self._reader)
        if self._stopping:
            return
        process = self._process
        code = await process.wait(EXIT_PATIENCE) if process else None
        if process is not None and code is None:
            process.kill()
            code = await process.wait()
        await self._handle_exit(_make_gone_error(problem, process, code))

    async def _read_lines(self, reader: ByteReader) -> str:
        """Handle lines until the output ends. Returns what is wrong with the output, or an empty string."""
        splitter = LineSplitter(LONGEST_LINE)
        try:
            while data := await reader.read(READ_AHEAD):
                for line in splitter.split(data):
                    self._handle_line(line)
                    if self._hub.is_full:
                        await self._hub.room()
        except (OSError, ValueError) as error:
            return str(error)
        except Exception as error:  # a mistake in this client must not leave its callers waiting
            log.exception("the client failed to handle a line")
            return f"the client failed: {error!r}"
        if rest := splitter.rest().strip():
            self._handle_line(rest)
        return ""

    def _end(self, error: AgentGone, *, expected: bool = False) -> None:
        if self._gone is not None:
            return
        self._gone = error
        self._fail_requests(self._requests, error)
        self._handle_end(error)
        self._hub.end(None if expected else error)

    def _fail_requests(self, requests: dict[K, Request], error: AgentGone) -> None:
        for request in list(requests.values()):
            settle(request.answer, lambda answer: answer.set_exception(error))


def settle(future: asyncio.Future[Any], how: Callable[[asyncio.Future[Any]], object]) -> None:
    """Give a future its result, unless its caller has stopped waiting."""
    if not future.done():
        how(future)


def _make_gone_error(problem: str, process: AgentProcess | None, code: int | None) -> AgentGone:
    if process is None:
        return AgentGone(problem or "The agent has closed the connection.")
    text = f"The agent has ended with exit code {code}"
    if problem:
        text = f"The client has ended the agent, because {problem}"
    stderr = process.stderr
    return AgentGone(f"{text}: {stderr.splitlines()[-1]}" if stderr else f"{text}.", exit_code=code, stderr=stderr)
