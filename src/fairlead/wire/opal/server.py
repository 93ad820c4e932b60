"""The dispatcher: lines to requests, requests to handlers, results to responses.

Requests are carried out and answered in the order received, but for those in `handlers.LATE`, and `opal/ping`, which is answered
the moment it arrives. So are the client's answers to what it was asked. While the client does not read, requests wait; only
`agent/abort` does not.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from fairlead.agent import clear_leftovers
from fairlead.core.model import Model
from fairlead.core.runtime import Cancel
from fairlead.errors import FairleadError, LoginFailed
from fairlead.models.registry import Registry
from fairlead.protocol.opal.method import Method
from fairlead.protocol.opal.methods import METHODS, AgentAbort, OfSession, Ping
from fairlead.protocol.opal.params import decode
from fairlead.protocol.opal.shapes import Auth
from fairlead.wire.connection import Connection
from fairlead.wire.opal.auth import probe
from fairlead.wire.opal.handlers import HANDLERS, LATE, Answer, as_rpc_error
from fairlead.wire.opal.jsonrpc import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    NULL,
    Reply,
    Request,
    RpcError,
    error_line,
    read,
    result_line,
)
from fairlead.wire.opal.opal_session import OpalSession
from fairlead.wire.opal.requests import ServerRequests
from fairlead.wire.opal.table import SessionTable, Surroundings

if TYPE_CHECKING:
    from fairlead.models.logins import Logins


class OpalServer:
    """Implements `fairlead.wire.process.HostServer`: one client, many sessions."""

    def __init__(self, connection: Connection, around: Surroundings) -> None:
        self.connection = connection
        self.after_first_command: Callable[[], None] | None = None
        self.handled = 0
        #: The dialect has no request for it: the end of the input says it.
        self.stopping = False
        self.requests = ServerRequests(connection.output.send)
        self.table = SessionTable(around, connection.output, self.requests)
        self._late: set[asyncio.Task[None]] = set()
        self._stalled = False
        #: The session whose next request waits until it has stopped.
        self._held_up: str | None = None
        self._client_left = asyncio.Event()
        connection.on_arrival = self._arrived
        connection.is_urgent = lambda line: _mentions(line, AgentAbort)

    @property
    def registry(self) -> Registry:
        return self.table.around.shared.registry

    @cached_property
    def logins(self) -> Logins:
        from fairlead.models.logins import Logins

        return Logins(self.registry, self.table.around.shared.http)

    def auth(self, model: Model | None, *, in_full: bool = False) -> Auth:
        """Whether there are credentials, for `model` or at all."""
        return probe(self.registry, model or self._usual_model(), in_full=in_full)

    async def pause(self, seconds: float) -> None:
        """Wait, for something that only the client's user can do. Raises LoginFailed if the client leaves meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._client_left.wait()
        except TimeoutError:
            return
        raise LoginFailed("The client has left.")

    def choose_model(self, session: OpalSession) -> None:
        """Give a session that has no model one, now that there may be a key for it."""
        model = self._usual_model()
        if model is not None:
            session.session.selection.set_model(model.provider, model.id)

    def _usual_model(self) -> Model | None:
        return self.registry.default(self.table.around.settings)

    # The process around it

    @property
    def is_running(self) -> bool:
        return any(session.session.is_streaming for session in self.table.running)

    async def serve(self) -> None:
        while True:
            try:
                line = await self.connection.next_line()
            except EOFError:
                return
            work = self._handle(line)
            self.handled += 1
            if work is not None:
                await self._without_stalling(work)
            self._first_is_answered()
            if self.connection.output.paused:
                await self._without_stalling(self.connection.output.wait(Cancel()))

    def _first_is_answered(self) -> None:
        if self.after_first_command is not None:
            self.after_first_command()
            self.after_first_command = None

    def cancel(self) -> None:
        for session in self.table.running:
            session.cancel()

    def host_left(self) -> None:
        self.requests.client_left()
        self._client_left.set()

    async def idle(self) -> None:
        for session in self.table.running:
            await session.session.idle()

    async def late_answers(self) -> None:
        work = self._late.union(*(session.commands for session in self.table.running))
        if work:
            await asyncio.wait(work)

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self.table.running), return_exceptions=True)

    def warm_up(self) -> None:
        for session in self.table.running[:1]:
            session.agent.warm_up()

    def clear_leftovers(self) -> None:
        store = self.table.around.store
        clear_leftovers(store.folder if store.keeps else None)

    def leave_nothing_behind(self) -> None:
        for session in self.table.running:
            session.agent.leave_nothing_behind()

    # Input

    async def _without_stalling(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that may take long, while what must not wait acts as it arrives."""
        task = asyncio.ensure_future(work)
        # It begins before anything that came behind it acts: an abort must find the run that it means.
        await asyncio.sleep(0)
        if task.done():
            return task.result()
        self._stalled = True
        try:
            self.connection.reconsider()
            await task
        finally:
            self._stalled = False

    def _arrived(self, line: bytes) -> bool:
        """Act on a line before its turn, if it must not wait. True if there is nothing left to do with it."""
        if not (_mentions(line, Ping) or (self._stalled and _mentions(line, AgentAbort)) or _may_be_reply(line)):
            return False
        try:
            match read(line):
                case Reply() as reply:
                    self.requests.hear(reply)
                    return True
                case Request(method=Ping.method) as request:
                    self._carry_out(request)
                    self._first_is_answered()
                    return True
                case Request(method=AgentAbort.method) as request if self._stalled and not self._waits_before(line, request):
                    self._carry_out(request)
                    return True
                case _:
                    return False
        except Exception:  # a bug of ours: the line has its turn still, and those behind it arrive
            traceback.print_exc(file=sys.stderr)
            return False

    def _waits_before(self, line: bytes, abort: Request) -> bool:
        """Whether something of the same session has yet to have its turn: that may be what the abort is meant for."""
        match abort.params:
            case {"session_id": str(session_id)}:
                if session_id == self._held_up:
                    return True
                return any(_mentions_session(other, session_id) for other in self.connection.before(line))
            case _:
                return False

    def _handle(self, line: bytes | None) -> Coroutine[Any, Any, None] | None:
        """Act on one line. What takes time, and must be over before the next line's turn, is returned."""
        if line is not None and not line.strip():
            return None
        match read(line):
            case Request() as request:
                return self._carry_out(request)
            case Reply() as reply:
                self.requests.hear(reply)
            case RpcError() as error:
                self._fail(NULL, error)
            case None:
                pass
        return None

    def _carry_out(self, request: Request) -> Coroutine[Any, Any, None] | None:
        with self._answering(request.id):
            declared = METHODS.get(request.method)
            if declared is None:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
            params = decode(declared, request.params)
            stopping = self._stopping(params)
            if stopping is not None:
                return self._after(stopping, request)
            result = HANDLERS[declared](self, params)
            if not isinstance(result, Coroutine):
                self._succeed(request.id, result)
                return None
            if declared not in LATE:
                return self._finish(request.id, result, self._session_of(params))
            task = asyncio.create_task(self._finish(request.id, result))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        return None

    def _stopping(self, params: Method) -> OpalSession | None:
        """The session that a request is about, if something of it has been told to stop and has not ended."""
        session = None if isinstance(params, AgentAbort) else self._session_of(params)
        return session if session is not None and session.is_stopping else None

    async def _after(self, stopping: OpalSession, request: Request) -> None:
        """Carry out a request once its session has stopped. An abort that comes behind it is meant for what it does."""
        self._held_up = stopping.id
        try:
            await stopping.settled()
        finally:
            self._held_up = None
        work = self._carry_out(request)
        if work is not None:
            await self._without_stalling(work)

    def _session_of(self, params: Method) -> OpalSession | None:
        return self.table.find(params.session_id) if isinstance(params, OfSession) else None

    async def _finish(self, id: Raw, work: Coroutine[Any, Any, Struct], session: OpalSession | None = None) -> None:
        with nullcontext() if session is None else session.answering(), self._answering(id):
            self._succeed(id, await work)

    # Output

    @contextmanager
    def _answering(self, id: Raw) -> Generator[None]:
        """Turns an error of a request into its response."""
        try:
            yield
        except RpcError as error:
            self._fail(id, error)
        except FairleadError as error:
            self._fail(id, as_rpc_error(error))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._fail(id, RpcError(INTERNAL_ERROR, "Internal error", f"{type(error).__name__}: {error}"))

    def _succeed(self, id: Raw, result: Struct) -> None:
        if not isinstance(result, Answer):
            self.connection.output.send(result_line(id, result))
            return
        try:
            self.connection.output.send(result_line(id, result.result))
        finally:
            try:
                result.then()
            except Exception:  # a bug of ours. The client has its answer: this must not become another one.
                traceback.print_exc(file=sys.stderr)

    def _fail(self, id: Raw, error: RpcError) -> None:
        self.connection.output.send(error_line(id, error))


def _mentions(line: bytes, method: type[Method]) -> bool:
    """Whether a line may be a request of that method, its slash escaped or not."""
    return method.method.encode() in line or method.method.replace("/", "\\/").encode() in line


def _mentions_session(line: bytes, session_id: str) -> bool:
    """Whether a line may be about a session. Its id may be written with escapes: then the line has to be read."""
    if msgspec.json.encode(session_id) in line:
        return True
    if b"\\" not in line:
        return False
    match read(line):
        case Request(params={"session_id": str(named)}):
            return named == session_id
        case _:
            return False


def _may_be_reply(line: bytes) -> bool:
    return b'"result"' in line or b'"error"' in line
