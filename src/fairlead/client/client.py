"""A client for the agents of the pi family: fairlead, pi, omp and xcsh."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

import msgspec
from msgspec import UNSET, UnsetType

from fairlead.client.agent_connection import TIMEOUT, AgentConnection
from fairlead.client.generated.pi import BasicMethods, OmpMethods, SessionMethods
from fairlead.client.network import Dial, ServerAddress
from fairlead.client.process import Launch, StopTimes
from fairlead.client.runs import Result, Run, RunStream
from fairlead.client.serving import ApprovalHandler, HostCall, QuestionHandler, UriReader, UriWriter
from fairlead.core.functions import FunctionTool
from fairlead.core.messages import ImageContent

F = TypeVar("F", bound=Callable[..., Any])


class Client(AgentConnection, BasicMethods, SessionMethods, OmpMethods):
    """An agent in another process, or at the other end of two streams.

        async with Client.start(["fairlead", "--mode", "rpc", "--dialect", "pi"]) as client:
            result = await client.ask("What is in this folder?")

    Every command of the protocol is a method. Use the client in one event loop.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader | None = None,
        writer: asyncio.StreamWriter | None = None,
        *,
        timeout: float | None = TIMEOUT,
        launch: Launch | Dial | None = None,
        restart: bool = False,
        stop_times: StopTimes | None = None,
        responses: bool = True,
    ) -> None:
        """Talk to an agent over two streams. `Client.start` starts a process instead, and `Client.connect` uses the network.

        `timeout` is the number of seconds that the agent has to answer a command; None means no limit. Commands that take long
        by nature (prompt, bash, compact and some more) have none unless a call says so. `responses` is False for agents that send
        no responses: pi of 2025, and `fairlead --dialect pi-2025`.
        """
        super().__init__(
            reader, writer, launch, timeout=timeout, restart=restart, stop_times=stop_times or StopTimes(), responses=responses
        )

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
    ) -> Client:
        """Return a client that starts an agent on entry to `async with`, and ends it on exit.

        `argv` is the command line, such as `["fairlead", "--mode", "rpc", "--dialect", "pi"]`. `cwd` and `env` are by default
        those of this process. With `restart`, an agent that dies is started again and resumes its session: see `fairlead.client`.
        `timeout` and `responses` are explained at `Client`.
        Entering raises AgentGone if the agent cannot be started.
        """
        return cls(
            timeout=timeout, launch=Launch(list(argv), cwd, env), restart=restart, stop_times=stop_times, responses=responses
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
    ) -> Client:
        """Return a client that connects to `fairlead serve` on entry to `async with`.

            async with Client.connect("https://host:8787", token=token) as client:
                ...

        The session belongs to the connection: when that ends, the run is aborted and saved. `dialect` is `pi`, `omp` or `xcsh`.
        `cwd` is the working directory on the server. `tls` replaces the default TLS settings. `insecure` allows http to other
        machines. Raises ClientError if the address cannot be used. Entering raises AgentGone if there is no such server or its
        certificate cannot be trusted, and CommandRefused if the server refuses the token or the directory.
        """
        address = ServerAddress(url, token, tls=tls, insecure=insecure)
        return cls(timeout=timeout, launch=Dial(address, "/ws", dialect=dialect, updates="delta", cwd=cwd))

    # Prompting

    async def prompt(
        self,
        message: str,
        *,
        images: list[ImageContent] | None = None,
        streaming_behavior: str | None = None,
        locale: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Run:
        """Send a prompt. Returns its run when the agent has accepted it; await the run for the result.

        While a run is in progress, `streaming_behavior` says how to queue the message: `steer` or `followUp`. Raises
        CommandRefused if the agent refuses the prompt, NoAnswer and AgentGone.
        """
        fields = {"message": message, "images": images, "streaming_behavior": streaming_behavior, "locale": locale}
        return await self._prompt("prompt", fields, timeout)

    async def abort_and_prompt(
        self, message: str, *, images: list[ImageContent] | None = None, timeout: float | UnsetType | None = UNSET
    ) -> Run:
        """Stop the current run, if any, then send a prompt (omp, xcsh and fairlead). Returns the new run, as `prompt` does."""
        self._tracker.abort_asked()
        return await self._prompt("abort_and_prompt", {"message": message, "images": images}, timeout)

    async def ask(self, message: str, *, images: list[ImageContent] | None = None, timeout: float | None = None) -> Result:
        """Send a prompt and wait until its run has settled. Returns the result.

        Raises what `prompt` and awaiting a run raise. After `timeout` seconds it aborts the run and raises TimeoutError.
        Cancelling it aborts the run, too.
        """
        try:
            run = await self.prompt(message, images=images)
            try:
                return await run.wait(timeout)
            except TimeoutError:
                await self.abort()
                raise
        except asyncio.CancelledError:
            self._abort_in_background()
            raise

    @asynccontextmanager
    async def run(
        self, message: str, *, images: list[ImageContent] | None = None, streaming_behavior: str | None = None
    ) -> AsyncGenerator[RunStream]:
        """Send a prompt, and read the events of its run inside `async with`.

            async with client.run("Tell me a story.") as run:
                async for event in run:
                    ...
            result = await run

        Leaving the block early aborts the run. Raises what `prompt` raises.
        """
        made: list[Run] = []
        stream = self._hub.stream(lambda event: bool(made) and made[0].done)
        try:
            run = await self.prompt(message, images=images, streaming_behavior=streaming_behavior)
            made.append(run)
            run.on_done(stream.finish)
            try:
                yield RunStream(run, stream)
            except BaseException:
                if not run.done:
                    self._abort_in_background()
                raise
            if not run.done:
                await self.abort()
        finally:
            stream.close()

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
        """Offer a function to the model as a tool, as a decorator with or without arguments.

        The schema comes from the type hints and the docstring. The function may be async; other functions run on a thread. A
        parameter of type `HostCall` gets the call, to report progress and to notice a cancellation. `timeout` seconds after its
        start the agent cancels a call. The agent gets the tools with the next prompt, or at `publish_tools`. Raises TypeError if
        the function cannot be a tool.
        """

        def add(function: F) -> F:
            self._services.add_tool(FunctionTool(function, [HostCall], name=name, description=description), timeout)
            return function

        return add if function is None else add(function)

    def uri_reader(
        self, scheme: str, *, description: str | None = None, immutable: bool | None = None
    ) -> Callable[[UriReader], UriReader]:
        """Serve the URIs of a scheme with a function, sync or async, as a decorator.

            @client.uri_reader("notes")
            def read_note(uri: str) -> str:
                return NOTES[uri]

        The function gets the URI and returns its content: a text, or a `UriContent` that says more. An exception is the error
        that the model sees. `immutable` says that the content never changes. The agent gets the schemes with the next prompt, or
        at `publish_tools`.
        """

        def add(function: UriReader) -> UriReader:
            self._services.uris.add_reader(scheme, function, description, immutable)
            return function

        return add

    def uri_writer(self, scheme: str) -> Callable[[UriWriter], UriWriter]:
        """Let the model write to the URIs of a scheme, with a function that gets the URI and its new content, as a decorator."""

        def add(function: UriWriter) -> UriWriter:
            self._services.uris.add_writer(scheme, function)
            return function

        return add

    async def publish_tools(self) -> None:
        """Send the tools and URI schemes to the agent now.

        Raises CommandRefused if the agent has no host tools or URIs, or refuses one of these.
        """
        await self._publish()

    def on_question(self, handler: QuestionHandler) -> QuestionHandler:
        """Answer questions to the user with a function, sync or async, as a decorator.

        It gets the request and returns a text, true or false for `confirm`, or None for no answer. Without it, no question
        gets an answer.
        """
        self._services.on_question = handler
        return handler

    def on_approval(self, handler: ApprovalHandler) -> ApprovalHandler:
        """Decide about tool calls with a function, sync or async, as a decorator.

        It gets an `Approval` and returns `fairlead.Allow`, `fairlead.Deny`, "allow", "allow_session", "deny", or true or false.
        Without it, approvals go to the handler of questions, and without that they are denied.
        """
        self._services.on_approval = handler
        return handler

    # Anything else

    async def request(self, name: str, /, *, timeout: float | UnsetType | None = UNSET, **fields: Any) -> Any:
        """Send any command, with fields as the protocol names them. Returns the data of the response as plain JSON values.

        For commands and fields that are not declared. Raises CommandRefused, NoAnswer and AgentGone.
        """
        data = await self._command(name, fields, timeout)
        return None if data is UNSET else msgspec.json.decode(data)
