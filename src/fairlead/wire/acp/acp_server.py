"""Serves one ACP client, on standard input and output or another connection.

Until a session is needed, little is loaded: the first answer comes soon after the start. Params of requests are read as leniently
as the official schema: an optional field that is wrong counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Struct

from fairlead.config.settings import OutputSettings
from fairlead.platform.process import start_thread
from fairlead.protocol import explain
from fairlead.protocol.acp import initialization as acp
from fairlead.protocol.schema import json_rpc as acp_schemas
from fairlead.protocol.schema import typescript
from fairlead.sessions import catalogue
from fairlead.wire.acp import acp_handlers
from fairlead.wire.acp.initialize import Client, answer_initialize
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.host_connection import Connection
from fairlead.wire.host_process import HostProcess
from fairlead.wire.jsonrpc import BadParams, JsonRpcCodec, OutboundRequests
from fairlead.wire.routing import HostReply, Request, RequestRoute, RouteTable
from fairlead.wire.stdio import StdioTransport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairlead.sessions.catalogue import Common
    from fairlead.wire.acp.acp_handlers import AcpSessions


class AcpServer:
    """Implements `fairlead.wire.host_process.HostServer` and `fairlead.wire.routing.Service`."""

    def __init__(self, connection: Connection, options: ServeOptions, common: Common | None = None) -> None:
        self.codec = AcpCodec()
        self.routes = RouteTable(lambda declaration: declaration.method, FIRST_ROUTES, _other_routes)
        self.send = connection.output.send
        self.client = Client()
        self.requests = OutboundRequests(self.send, cancel_method=acp.CancelRequestNotification.method)
        self.dispatcher = Dispatcher(connection, self)
        self._output = connection.output
        self._options = options
        #: What its sessions share with those of other connections; None: nothing.
        self._common = common
        self._left: list[Callable[[], None]] = []

    @cached_property
    def sessions(self) -> acp_handlers.AcpSessions:
        """The sessions of the client. Raises ConfigError if the command line or the settings cannot be used."""
        common = self._common or catalogue.common_parts(self._options.agent_options(None))
        self._output.limit = common.settings.output.queue_bytes
        return acp_handlers.AcpSessions(common, self._output, self.requests, self.client, self._options.prepare)

    @cached_property
    def authentication(self) -> acp_handlers.Authentication:
        sessions = self.sessions
        common = sessions.common
        made = acp_handlers.Authentication(
            common.shared, self.requests, self.send, self.client, common.base.provider, lambda: sessions.providers
        )
        self._left.append(made.client_left)
        return made

    @property
    def _opened(self) -> AcpSessions | None:
        """The sessions, if any were needed so far."""
        return self.__dict__.get("sessions")

    # For the dispatcher

    def call_when_written(self, action: Callable[[], object]) -> None:
        if self._opened is None:
            action()
        else:
            self._opened.call_when_written(action)

    def receive_reply(self, reply: HostReply) -> None:
        self.requests.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        return None

    def serving(self, request: Request) -> AbstractContextManager[None]:
        return nullcontext()

    # For the process

    @property
    def is_running(self) -> bool:
        return self._opened is not None and self._opened.is_running

    async def serve(self) -> None:
        await self.dispatcher.serve()

    def cancel(self, *, resumable: bool = False) -> None:
        if self._opened is not None:
            self._opened.cancel(resumable=resumable)

    def host_left(self) -> None:
        self.requests.host_left()
        for call in self._left:
            call()

    async def idle(self) -> None:
        if self._opened is not None:
            await self._opened.idle()

    async def late_answers(self) -> None:
        await self.dispatcher.late_answers()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def warm_up(self) -> None:
        """Load what a session needs, since the client will open one."""
        if self._opened is not None:
            self._opened.warm_up()
        else:
            start_thread(_load, "fairlead-warm-up")

    def clear_leftovers(self) -> None:
        from fairlead.agent import clear_leftovers  # noqa: PLC0415  ACP answers before an agent is loaded

        clear_leftovers(None)

    def kill_children(self) -> None:
        if self._opened is not None:
            self._opened.kill_children()


def _load() -> None:
    import_module("fairlead.wire.acp.acp_handlers")


def _initialize(server: AcpServer, params: acp.InitializeRequest) -> acp.InitializeResponse:
    server.client.initialize(params.client_capabilities)
    return answer_initialize(server.client)


def _cancel(server: AcpServer, params: acp.CancelNotification) -> None:
    session = server.sessions.find(params.session_id)
    if session is not None:
        session.stop()


def _cancel_now(server: AcpServer, request: Request, before: Iterable[Request]) -> bool:
    """Whether a cancellation acts before its turn. It does not if earlier requests may start something that it is meant for."""
    return all(_session_id(each) != _session_id(request) for each in before)


def _session_id(request: Request) -> Any:
    if request.parameters is not None:
        return getattr(request.parameters, "session_id", None)
    match request.body:
        case {"sessionId": session_id}:
            return session_id
        case _:
            return None


def _cancel_request(server: AcpServer, params: acp.CancelRequestNotification) -> None:
    server.dispatcher.cancel(msgspec.json.encode(params.request_id))


def _other_routes() -> Iterable[RequestRoute]:
    return acp_handlers.ROUTES


FIRST_ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(acp.InitializeRequest, _initialize),
    RequestRoute(acp.CancelNotification, _cancel, urgent=_cancel_now),
    RequestRoute(acp.CancelRequestNotification, _cancel_request, when="now"),
)


P = TypeVar("P", bound=Struct)

#: How many wrong fields of one request are left out.
_MOST_LEFT_OUT = 20
#: Where a message from msgspec says the wrong value is. Places in lists and maps have no name.
_PLACE = re.compile(r" - at `\$((?:\.[A-Za-z_]+)+)`$")


class AcpCodec(JsonRpcCodec):
    """Implements `fairlead.wire.routing.Codec`."""

    def parameters(self, request: Request, declaration: type[P]) -> P:
        return decode(declaration, request.body)


def decode(declared: type[P], params: Any) -> P:
    """Decode the params of a request. Raises BadParams if a required one is missing or wrong."""
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    first: msgspec.ValidationError | None = None
    for _ in range(_MOST_LEFT_OUT):
        try:
            return msgspec.convert(given, type=declared)
        except msgspec.ValidationError as error:
            first = first or error
            place = _PLACE.search(str(error))
            if place is None or "missing required field" in str(error):
                break
            given = _without(given, place[1].split(".")[1:])
    raise BadParams(explain.explain(str(first), declared, whole="params"))


def _without(params: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """Return params without one field, wherever it is."""
    copy = dict(params)
    inner = copy
    for name in path[:-1]:
        inner[name] = dict(inner[name])
        inner = inner[name]
    inner.pop(path[-1], None)
    return copy


async def serve(dialect: str, options: ServeOptions) -> int:
    """Serve one client until it leaves. Returns the exit code."""
    output = OutputSettings()
    transport = StdioTransport(options.stdin, options.stdout, line_bytes=output.line_bytes)
    process = HostProcess(
        lambda connection: AcpServer(connection, options), transport, output, on_eof=options.on_eof, tap=options.tap
    )
    return await process.run()


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    return acp_schemas.acp_schema(closed=closed)


def types(dialect: str, title: str) -> str:
    return typescript.acp_types(title)
