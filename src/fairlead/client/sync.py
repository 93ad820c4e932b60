"""The client for programs that block: the async client on its own thread."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from msgspec import UNSET, UnsetType

from fairlead.client.agent_connection import TIMEOUT
from fairlead.client.client import Client
from fairlead.client.connection import Connection
from fairlead.client.decoding import Event
from fairlead.client.event_stream import EventStream, calling_thread
from fairlead.client.generated.sync_pi import SyncBasicMethods, SyncOmpMethods, SyncSessionMethods
from fairlead.client.process import StopTimes
from fairlead.client.runs import Result, Run, RunStream, text_piece
from fairlead.client.serving import ApprovalHandler, QuestionHandler, UriReader, UriWriter
from fairlead.core.messages import ImageContent
from fairlead.errors import ClientError
from fairlead.protocol.pi.host_requests import ReplyLine

C = TypeVar("C", bound=Connection[Any])


class SyncEvents(Iterator[Event]):
    """Events, one after another. `close` ends the iteration early."""

    def __init__(self, client: SyncConnection[Any], stream: EventStream[Event] | RunStream) -> None:
        self._client = client
        self._stream = stream
        self._ready: list[Event] = []

    def __next__(self) -> Event:
        if not self._ready:
            self._ready = self._client.do(self._stream.batch())[::-1]  # many per change of thread
            if not self._ready:
                raise StopIteration
        return self._ready.pop()

    def close(self) -> None:
        """Stop reading. The events that are left are dropped."""
        self._ready = []
        if isinstance(self._stream, EventStream):
            self._client.do(self._stream.aclose())


class SyncConnection(Generic[C]):
    """An async client of type `C` on its own thread. Several threads may use it."""

    def __init__(self, client: Callable[[], C]) -> None:
        """Run the client that `client` makes, on a new thread. `start` is the usual way."""
        self._make = client
        self._client: C | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # Its life

    def __enter__(self) -> Self:
        """Start the agent. Raises AgentGone if that is not possible."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fairlead-client", daemon=True)
        self._thread.start()

        async def enter() -> C:
            return await self._make().__aenter__()

        try:
            self._client = self.do(enter())
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> int | None:
        """End the agent, as `stop` of the async client does. Returns its exit code."""
        code = None
        if self._client is not None and self._thread is not None:
            code = self.do(self._client.stop())
        self._end_thread()
        return code

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread of the client and return its result. Ctrl-C cancels it."""
        if self._loop is None or self._thread is None:
            work.close()
            raise ClientError("The client is not running. Use it in `with`.")
        if threading.current_thread() is self._thread:
            work.close()
            raise ClientError("A coroutine function cannot use the blocking client that calls it. Make it a plain function.")
        number = threading.get_ident()

        async def as_this_thread() -> T:
            calling_thread.set(number)
            return await work

        future = asyncio.run_coroutine_threadsafe(as_this_thread(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def events(self) -> SyncEvents:
        """Return an iterator of all events from now on, as `events` of the async client does."""

        async def begin() -> EventStream[Event]:
            return self._agent.events()

        return SyncEvents(self, self.do(begin()))

    # Inside

    @property
    def _agent(self) -> C:
        if self._client is None:
            raise ClientError("The client is not running. Use it in `with`.")
        return self._client

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._thread = None
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class SyncRun:
    """A prompt that the agent has accepted."""

    def __init__(self, client: SyncClient, run: Run) -> None:
        self._client = client
        self._run = run

    @property
    def done(self) -> bool:
        """Whether the run has settled or failed."""
        return self._run.done

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the run has settled, at most `timeout` seconds. Returns and raises what `Run.wait` does."""
        return self._client.do(self._run.wait(timeout))


class SyncRunStream(SyncEvents):
    """A run with its events: iterate over them, and call `result`."""

    def __init__(self, client: SyncClient, stream: RunStream) -> None:
        super().__init__(client, stream)
        self.run = SyncRun(client, stream.run)

    def text(self) -> Iterator[str]:
        """Iterate over the text of the answers only, in pieces, instead of all events."""
        return (piece for event in self if (piece := text_piece(event)) is not None)

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result, as `SyncRun.wait` does."""
        return self.run.wait(timeout)


class SyncClient(SyncConnection[Client], SyncBasicMethods, SyncSessionMethods, SyncOmpMethods):
    """An agent in another process, for programs without an event loop.

        with SyncClient.start(["fairlead", "--mode", "rpc", "--dialect", "pi"]) as client:
            print(client.ask("What is in this folder?").text)

    It has the methods of `Client`, which block until they are done. Several threads may use it. Do not call it from a handler
    or tool that is a coroutine function: these run on the thread of the client.
    """

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
        restart: bool = False,
        stop_times: StopTimes | None = None,
        responses: bool = True,
    ) -> SyncClient:
        """Return a client that starts an agent on entry to `with`, and ends it on exit. It takes what `Client.start` takes."""
        return cls(
            lambda: Client.start(
                argv, cwd=cwd, env=env, timeout=timeout, restart=restart, stop_times=stop_times, responses=responses
            )
        )

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str,
        dialect: str = "pi",
        cwd: str | None = None,
        tls: ssl.SSLContext | None = None,
        insecure: bool = False,
        timeout: float | None = TIMEOUT,
    ) -> SyncClient:
        """Return a client that connects to `fairlead serve` on entry to `with`. It takes what `Client.connect` takes."""
        return cls(
            lambda: Client.connect(url, token=token, dialect=dialect, cwd=cwd, tls=tls, insecure=insecure, timeout=timeout)
        )

    # What `Client` does

    def prompt(
        self,
        message: str,
        *,
        images: list[ImageContent] | None = None,
        streaming_behavior: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> SyncRun:
        """Send a prompt. Returns its run when the agent has accepted it. Raises what `Client.prompt` does."""
        prompting = self._agent.prompt(message, images=images, streaming_behavior=streaming_behavior, timeout=timeout)
        return SyncRun(self, self.do(prompting))

    def abort_and_prompt(
        self, message: str, *, images: list[ImageContent] | None = None, timeout: float | UnsetType | None = UNSET
    ) -> SyncRun:
        """Stop the current run, if any, then send a prompt (omp, xcsh and fairlead). Returns the new run."""
        return SyncRun(self, self.do(self._agent.abort_and_prompt(message, images=images, timeout=timeout)))

    def ask(self, message: str, *, images: list[ImageContent] | None = None, timeout: float | None = None) -> Result:
        """Send a prompt and wait until its run has settled. Returns and raises what `Client.ask` does."""
        return self.do(self._agent.ask(message, images=images, timeout=timeout))

    @contextmanager
    def run(
        self, message: str, *, images: list[ImageContent] | None = None, streaming_behavior: str | None = None
    ) -> Generator[SyncRunStream]:
        """Send a prompt, and read the events of its run inside `with`. Leaving the block early aborts the run."""
        block: AbstractAsyncContextManager[RunStream] = self._agent.run(
            message, images=images, streaming_behavior=streaming_behavior
        )
        stream = self.do(_enter(block))
        try:
            yield SyncRunStream(self, stream)
        finally:
            self.do(_exit(block))

    # Serving the agent

    @overload
    def tool(self, function: F) -> F: ...

    @overload
    def tool(
        self, function: None = None, *, name: str | None = None, description: str | None = None, timeout: float | None = None
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: F | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> F | Callable[[F], F]:
        """Offer a function to the model as a tool, as `Client.tool` does."""
        add: Callable[[F], F] = self._agent.tool(name=name, description=description, timeout=timeout)
        return add if function is None else add(function)

    def publish_tools(self) -> None:
        """Send the tools and URI schemes to the agent now, as `Client.publish_tools` does."""
        self.do(self._agent.publish_tools())

    def uri_reader(
        self, scheme: str, *, description: str | None = None, immutable: bool | None = None
    ) -> Callable[[UriReader], UriReader]:
        """Serve the URIs of a scheme with a function, as `Client.uri_reader` does."""
        return self._agent.uri_reader(scheme, description=description, immutable=immutable)

    def uri_writer(self, scheme: str) -> Callable[[UriWriter], UriWriter]:
        """Let the model write to the URIs of a scheme, as `Client.uri_writer` does."""
        return self._agent.uri_writer(scheme)

    def on_question(self, handler: QuestionHandler) -> QuestionHandler:
        """Answer questions to the user with a function, as `Client.on_question` does."""
        return self._agent.on_question(handler)

    def on_approval(self, handler: ApprovalHandler) -> ApprovalHandler:
        """Decide about tool calls with a function, as `Client.on_approval` does."""
        return self._agent.on_approval(handler)

    def request(self, name: str, /, *, timeout: float | UnsetType | None = UNSET, **fields: Any) -> Any:
        """Send any command, as `Client.request` does."""
        return self.do(self._agent.request(name, timeout=timeout, **fields))

    def send(self, line: ReplyLine) -> None:
        """Send an answer to a request of the agent, as `Client.send` does."""
        self.do(self._agent.send(line))

    # Inside

    def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        return self.do(getattr(self._agent, name)(timeout=timeout, **fields))


async def _enter(block: AbstractAsyncContextManager[T]) -> T:
    return await block.__aenter__()


async def _exit(block: AbstractAsyncContextManager[Any]) -> None:
    await block.__aexit__(None, None, None)
