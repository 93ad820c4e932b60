"""The client for servers of Opal: JSON-RPC 2.0, with many sessions in one process."""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.client.connection import Connection, log
from fairlead.client.decoding import Event, FrameDecoder, UnknownEvent, UnparsedLine, copy_with, decode_value, with_line
from fairlead.client.network import Dial, ServerAddress
from fairlead.client.opal.events import (
    EVENTS,
    AgentAbortEvent,
    AgentEnd,
    Error,
    MessageDelta,
    MessageStart,
    ThinkingDelta,
    ToolOutputEvent,
    UsageUpdate,
)
from fairlead.client.opal.methods import OpalMethods
from fairlead.client.process import Launch, StopTimes
from fairlead.client.serving import call_handler
from fairlead.core import lenient
from fairlead.errors import AgentGone, ClientError, CommandRefused, RunFailed
from fairlead.protocol.opal.opal_events import NOTIFICATION, SERVER_REQUESTS, AskUser, Confirm, Confirmation, Input
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.opal.opal_objects import TokenUsage

TIMEOUT = 30.0
#: Requests that have no time limit by default. The server may answer them after later ones.
LATE = frozenset({"auth/login", "auth/poll", "session/compact"})
#: The code of an error without a better one.
FAILED = -32603

H = TypeVar("H", bound=Callable[[Any], Any])
#: Returns one of the actions of the request, such as "allow", or a `Confirmation` that also has a reason.
ConfirmHandler: TypeAlias = Callable[[Confirm], str | Confirmation | Awaitable[str | Confirmation]]
#: Return the text that the user entered, or None for no answer.
InputHandler: TypeAlias = Callable[[Input], str | Awaitable[str | None] | None]
AskUserHandler: TypeAlias = Callable[[AskUser], str | Awaitable[str | None] | None]


class OpalResult(Struct, kw_only=True):
    """The outcome of a prompt."""

    #: The text of the last answer.
    text: str
    #: The tokens so far; None if the server sent none.
    usage: TokenUsage | None
    #: Whether the run was aborted.
    aborted: bool


class OpalRun:
    """A prompt that the server has accepted. Await it for the result."""

    def __init__(self, session_id: str, waits: Callable[[], AbstractContextManager[Any]]) -> None:
        self.session_id = session_id
        #: Whether the server has accepted the prompt, and whether it waits for a run in progress.
        self.accepted = False
        self.queued = False
        self._parts: list[str] = []
        self._usage: TokenUsage | None = None
        self._waits = waits
        self._result: asyncio.Future[OpalResult] = asyncio.get_running_loop().create_future()
        self._result.add_done_callback(lambda result: result.cancelled() or result.exception())

    def __await__(self) -> Generator[Any, None, OpalResult]:
        """Wait until the run is over. Returns its result. Raises RunFailed or AgentGone."""
        return self.wait().__await__()

    async def wait(self, timeout: float | None = None) -> OpalResult:
        """Wait until the run is over, at most `timeout` seconds. The run continues after a TimeoutError.

        Returns the result. Raises RunFailed if the run failed, and AgentGone if the server ended.
        """
        with self._waits():
            return await asyncio.wait_for(asyncio.shield(self._result), timeout)

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self._result.done()

    def handle(self, event: Event) -> None:
        """Take an event of the session into account."""
        match event:
            case MessageStart():
                self._parts = []
            case MessageDelta():
                self._parts.append(event.delta)
            case UsageUpdate():
                self._usage = event.usage
            case AgentEnd() | AgentAbortEvent() if not self.done:
                usage = event.usage if isinstance(event, AgentEnd) and event.usage else self._usage
                aborted = isinstance(event, AgentAbortEvent)
                self._result.set_result(OpalResult(text="".join(self._parts), usage=usage, aborted=aborted))
            case Error():
                self.fail(RunFailed(event.reason, OpalResult(text="".join(self._parts), usage=self._usage, aborted=False)))
            case _:
                pass

    def fail(self, error: ClientError) -> None:
        if not self.done:
            self._result.set_exception(error)


class _Message(Struct):
    """A line of JSON-RPC."""

    id: Any = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Any = None


class _Merger:
    """Merges the deltas of one answer, and the output of one tool call."""

    def key(self, event: Event) -> object:
        if isinstance(event, ToolOutputEvent):
            return event.session_id, event.call_id
        return (type(event), event.session_id) if isinstance(event, MessageDelta | ThinkingDelta) else None

    def part(self, event: Event) -> str:
        if isinstance(event, ToolOutputEvent):
            return event.chunk
        return event.delta if isinstance(event, MessageDelta | ThinkingDelta) else ""

    def merge(self, last: Event, text: str) -> Event:
        return copy_with(last, **{"chunk" if isinstance(last, ToolOutputEvent) else "delta": text})


class OpalClient(Connection[int], OpalMethods):
    """A server of Opal in another process, or at the other end of two streams.

        async with OpalClient.start(["fairlead", "--mode", "opal"]) as client:
            session = await client.session_start()
            result = await client.ask(session.session_id, "What is in this folder?")

    Without handlers, approvals are denied and questions get no answer, so nothing waits for a user who is not there.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader | None = None,
        writer: asyncio.StreamWriter | None = None,
        *,
        timeout: float | None = TIMEOUT,
        launch: Launch | Dial | None = None,
        stop_times: StopTimes | None = None,
    ) -> None:
        """Talk to a server over two streams. `OpalClient.start` starts a process instead.

        `timeout` is the number of seconds that the server has to answer a request; None means no limit.
        """
        super().__init__(reader, writer, launch, timeout=timeout, stop_times=stop_times or StopTimes(), merger=_Merger())
        self._numbers = itertools.count(1)
        self._decoder = FrameDecoder(EVENTS)
        self._runs: dict[int, OpalRun] = {}
        self._handlers: dict[str, Callable[[Any], Any]] = {}

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
        stop_times: StopTimes | None = None,
    ) -> OpalClient:
        """Return a client that starts a server on entry to `async with`, and ends it on exit.

        `argv` is the command line, such as `["fairlead", "--mode", "opal"]`. `cwd` and `env` are by default those of this
        process. Entering raises AgentGone if the server cannot be started.
        """
        return cls(timeout=timeout, launch=Launch(list(argv), cwd, env), stop_times=stop_times)

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str,
        cwd: str | None = None,
        tls: ssl.SSLContext | None = None,
        insecure: bool = False,
        timeout: float | None = TIMEOUT,
    ) -> OpalClient:
        """Return a client that connects to `fairlead serve` on entry to `async with`.

        The sessions belong to the connection: when that ends, the runs are aborted and saved.
        `cwd` is the working directory on the server. `tls` replaces the default TLS settings. `insecure` allows http to other
        machines. Raises ClientError if the address cannot be used. Entering raises AgentGone if there is no such server or its
        certificate cannot be trusted, and CommandRefused if the server refuses the token or the directory.
        """
        address = ServerAddress(url, token, tls=tls, insecure=insecure)
        return cls(timeout=timeout, launch=Dial(address, "/ws", dialect="opal", cwd=cwd))

    async def prompt(self, session_id: str, text: str, *, timeout: float | UnsetType | None = UNSET) -> OpalRun:
        """Send a prompt. Returns its run when the server has accepted it; await the run for the result.

        If the session is busy, the prompt is queued and becomes part of the run in progress. Raises CommandRefused, NoAnswer and
        AgentGone.
        """
        number = next(self._numbers)
        run = self._runs[number] = OpalRun(session_id, self._waits)
        try:
            await self._request("agent/prompt", {"session_id": session_id, "text": text}, timeout, number)
        except BaseException:
            self._runs.pop(number, None)
            raise
        return run

    async def ask(self, session_id: str, text: str, *, timeout: float | None = None) -> OpalResult:
        """Send a prompt and wait until its run is over. Returns the result.

        Raises what `prompt` and awaiting a run raise. After `timeout` seconds it aborts the run and raises TimeoutError.
        """
        run = await self.prompt(session_id, text)
        try:
            return await run.wait(timeout)
        except TimeoutError:
            await self.agent_abort(session_id)
            raise

    def on_confirm(self, handler: ConfirmHandler) -> ConfirmHandler:
        """Decide about tool calls with a function, sync or async, as a decorator. It returns one of the request's
        `actions`, or a `Confirmation` with one of them and a reason for the model."""
        self._handlers[Confirm.method] = handler
        return handler

    def on_input(self, handler: InputHandler) -> InputHandler:
        """Let a function, sync or async, get a text from the user, as a decorator. None means no answer."""
        self._handlers[Input.method] = handler
        return handler

    def on_ask_user(self, handler: AskUserHandler) -> AskUserHandler:
        """Let a function, sync or async, answer questions of the model, as a decorator. None means no answer."""
        self._handlers[AskUser.method] = handler
        return handler

    async def request(self, method: str, /, *, timeout: float | UnsetType | None = UNSET, **params: Any) -> Any:
        """Send any request. Returns its result as plain JSON values. Raises CommandRefused, NoAnswer and AgentGone."""
        return msgspec.json.decode(await self._request(method, params, timeout))

    # Requests

    async def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        declared = METHODS[name]
        params = msgspec.to_builtins(declared(**fields))
        return decode_value(await self._request(name, params, timeout), declared.result)

    async def _request(
        self, method: str, params: dict[str, Any], timeout: float | UnsetType | None, number: int | None = None
    ) -> Raw:
        number = next(self._numbers) if number is None else number
        line = msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await self._exchange(number, method, line, timeout, late=method in LATE)

    # Lines

    def _handle_line(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line, type=_Message)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            message = _lenient_message(line)
        if message is None:
            text = line.decode("utf-8", "replace")
            self._handle_event(with_line(UnparsedLine(text), {"text": text}))
        elif message.method is UNSET:
            self._handle_response(message, line)
        elif message.id is not UNSET:
            self._start_task(self._answer(message.method, message.id, message.params))
        elif message.method == NOTIFICATION and message.params is not UNSET:
            self._handle_event(cast("Event", self._decoder.decode(bytes(message.params))))
        else:
            self._handle_event(with_line(UnknownEvent(message.method), bytes(line)))

    def _handle_event(self, event: Event) -> None:
        session = getattr(event, "session_id", None)
        for number, run in list(self._runs.items()):
            if run.accepted and run.session_id == session:
                run.handle(event)
                if run.done:
                    del self._runs[number]
        self._hub.put(event, event.size)

    def _handle_response(self, message: _Message, line: bytes) -> None:
        number = message.id
        if number is None and self._requests:  # the server could not read a line; it answers in order
            number = min(self._requests, key=lambda each: (self._requests[each].late, each))
        request = self._requests.get(number) if isinstance(number, int) else None
        if request is None or request.answer.done():
            log.debug("ignored a late response: %s", line[:200])
        elif message.result is not UNSET:
            if (run := self._runs.get(cast("int", number))) is not None:
                run.accepted = True
                run.queued = lenient.decode(bytes(message.result)).get("queued") is True
            request.answer.set_result(message.result)
        else:
            error = cast("dict[str, Any]", message.error or {})
            text, code = str(error.get("message") or f"{request.name} failed"), error.get("code")
            request.answer.set_exception(CommandRefused(text, command=request.name, code=code))

    def _handle_end(self, error: AgentGone) -> None:
        runs, self._runs = self._runs, {}
        for run in runs.values():
            run.fail(error)

    # Questions

    async def _answer(self, method: str, id: Any, params: Raw | UnsetType) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        try:
            answer["result"] = await self._result_of(method, params)
        except Exception as error:
            if not isinstance(error, ClientError):
                log.exception("the handler of %s failed", method)
            answer["error"] = {"code": FAILED, "message": str(error) or type(error).__name__}
        with suppress(ClientError):  # the server is gone
            await self._write(msgspec.json.encode(answer))

    async def _result_of(self, method: str, params: Raw | UnsetType) -> dict[str, str]:
        """Return the answer to a question. Raises ClientError if there is none."""
        declared, handler = SERVER_REQUESTS.get(method), self._handlers.get(method)
        if declared is None:
            raise ClientError(f"Method not found: {method}")
        question = decode_value(params, declared)
        field = declared.result.__struct_fields__[0]
        if handler is not None:
            value = await call_handler(handler, question)
            if isinstance(value, str):
                return {field: value}
            if isinstance(value, Confirmation) and isinstance(question, Confirm):
                return msgspec.to_builtins(value)
        if isinstance(question, Confirm):
            return {field: "deny"}
        raise ClientError("The user did not answer.")


def _lenient_message(line: bytes) -> _Message | None:
    try:
        raw: Any = lenient.decode(line)
    except ValueError:
        return None
    if not isinstance(raw, dict):
        return None
    values = cast("dict[str, Any]", raw)
    encoded = {name: Raw(msgspec.json.encode(values[name])) for name in ("params", "result") if name in values}
    method = values.get("method")
    return _Message(
        id=values.get("id", UNSET),
        method=method if isinstance(method, str) else UNSET,
        params=encoded.get("params", UNSET),
        result=encoded.get("result", UNSET),
        error=values.get("error"),
    )
