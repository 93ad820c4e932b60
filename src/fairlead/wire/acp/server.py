"""Serves one ACP client. Until a session is needed, little is loaded: the first answer comes soon after the start."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlead.protocol.acp import initialization as acp
from fairlead.wire.acp.client import Client
from fairlead.wire.acp.codec import AcpCodec
from fairlead.wire.connection import Connection
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.jsonrpc import OutboundRequests
from fairlead.wire.messages import HostReply, Request, RequestRoute, RouteTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairlead.sessions.common import Common
    from fairlead.wire.acp.auth import Authentication
    from fairlead.wire.acp.sessions import AcpSessions
    from fairlead.wire.dialects import ServeOptions


class AcpServer:
    """Implements `fairlead.wire.process.HostServer` and `fairlead.wire.messages.Service`."""

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
    def sessions(self) -> AcpSessions:
        """The sessions of the client. Raises ConfigError if the command line or the settings cannot be used."""
        from fairlead.sessions.common import common_parts
        from fairlead.wire.acp.sessions import AcpSessions

        common = self._common or common_parts(self._options.agent_options(None))
        self._output.limit = common.settings.output.queue_bytes
        return AcpSessions(common, self._output, self.requests, self.client, self._options.prepare)

    @cached_property
    def authentication(self) -> Authentication:
        from fairlead.wire.acp.auth import Authentication

        sessions = self.sessions
        common = sessions.common
        made = Authentication(
            common.shared, self.requests, self.send, self.client, common.base.provider, lambda: sessions.providers
        )
        self._left.append(made.client_left)
        return made

    @property
    def _opened(self) -> AcpSessions | None:
        """The sessions, if any were needed so far."""
        return self.__dict__.get("sessions")

    # For the dispatcher

    def when_written(self, action: Callable[[], object]) -> None:
        if self._opened is None:
            action()
        else:
            self._opened.when_written(action)

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
        from fairlead.config.process import start_thread

        if self._opened is not None:
            self._opened.warm_up()
        else:
            start_thread(_load, "fairlead-warm-up")

    def clear_leftovers(self) -> None:
        from fairlead.agent import clear_leftovers

        clear_leftovers(None)

    def leave_nothing_behind(self) -> None:
        if self._opened is not None:
            self._opened.leave_nothing_behind()


def _load() -> None:
    from importlib import import_module

    for name in ("handlers", "sessions"):
        import_module(f"fairlead.wire.acp.{name}")


def _initialize(server: AcpServer, params: acp.InitializeRequest) -> acp.InitializeResponse:
    from fairlead.wire.acp.initialize import initialized

    server.client.initialize(params.client_capabilities)
    return initialized(server.client)


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
    import msgspec

    server.dispatcher.cancel(msgspec.json.encode(params.request_id))


def _other_routes() -> Iterable[RequestRoute]:
    from fairlead.wire.acp.handlers import ROUTES

    return ROUTES


FIRST_ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(acp.InitializeRequest, _initialize),
    RequestRoute(acp.CancelNotification, _cancel, urgent=_cancel_now),
    RequestRoute(acp.CancelRequestNotification, _cancel_request, when="now"),
)
