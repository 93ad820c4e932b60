"""Serves one Opal client with many sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlead.agent import clear_leftovers
from fairlead.core.model import Model
from fairlead.errors import LoginFailed
from fairlead.models.registry import Registry
from fairlead.protocol.opal.methods import AgentAbort, OfSession
from fairlead.protocol.opal.objects import Auth
from fairlead.wire.connection import Connection
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.jsonrpc import OutboundRequests
from fairlead.wire.messages import HostReply, Request, RouteTable
from fairlead.wire.opal.codec import OpalCodec
from fairlead.wire.opal.encode import credentials
from fairlead.wire.opal.handlers import ROUTES
from fairlead.wire.opal.opal_session import OpalSession
from fairlead.wire.opal.table import SessionDefaults, SessionTable

if TYPE_CHECKING:
    from fairlead.models.logins import Logins


class OpalServer:
    """Implements `fairlead.wire.process.HostServer` and `fairlead.wire.messages.Service`."""

    def __init__(self, connection: Connection, defaults: SessionDefaults) -> None:
        self.codec = OpalCodec()
        self.routes = RouteTable(lambda declaration: declaration.method, ROUTES)
        self.send = connection.output.send
        self.questions = OutboundRequests(self.send)
        self.table = SessionTable(defaults, connection.output, self.questions)
        self.dispatcher = Dispatcher(connection, self)
        self._client_left = asyncio.Event()

    @property
    def registry(self) -> Registry:
        return self.table.defaults.shared.registry

    @cached_property
    def logins(self) -> Logins:
        from fairlead.models.logins import Logins

        return Logins(self.registry, self.table.defaults.shared.http)

    def auth(self, model: Model | None, *, in_full: bool = False) -> Auth:
        """The credentials for `model`, or for any model."""
        return credentials(self.registry, model or self._usual_model(), in_full=in_full)

    async def pause(self, seconds: float) -> None:
        """Wait while the user logs in elsewhere. Raises LoginFailed if the client leaves meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._client_left.wait()
        except TimeoutError:
            return
        raise LoginFailed("The client has left.")

    def choose_model(self, session: OpalSession) -> None:
        """Choose a model for a session that has none: there may be a key by now."""
        model = self._usual_model()
        if model is not None:
            session.session.models.set_model(model.provider, model.id)

    def _usual_model(self) -> Model | None:
        return self.registry.default(self.table.defaults.settings)

    # For the dispatcher

    def when_written(self, action: Callable[[], object]) -> None:
        self.table.when_written(action)

    def receive_reply(self, reply: HostReply) -> None:
        self.questions.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        """Return the end of what an abort has stopped in the session of the request."""
        if isinstance(request.parameters, AgentAbort):
            return None
        session = self._session_of(request)
        return session.settled() if session is not None and session.is_stopping else None

    def serving(self, request: Request) -> AbstractContextManager[None]:
        session = self._session_of(request)
        return nullcontext() if session is None else session.answering()

    def _session_of(self, request: Request) -> OpalSession | None:
        params = request.parameters
        return self.table.find(params.session_id) if isinstance(params, OfSession) else None

    # For the process

    @property
    def is_running(self) -> bool:
        return self.table.is_running

    async def serve(self) -> None:
        await self.dispatcher.serve()

    def cancel(self, *, resumable: bool = False) -> None:
        self.table.cancel(resumable=resumable)

    def host_left(self) -> None:
        self.questions.host_left()
        self._client_left.set()

    async def idle(self) -> None:
        await self.table.idle()

    async def late_answers(self) -> None:
        await self.dispatcher.late_answers()
        commands = [task for session in self.table.all() for task in session.commands]
        if commands:
            await asyncio.wait(commands)

    async def close(self) -> None:
        await self.table.close()

    def warm_up(self) -> None:
        self.table.warm_up()

    def clear_leftovers(self) -> None:
        defaults = self.table.defaults
        clear_leftovers(defaults.catalogue.archive.place(defaults.catalogue.cwd) if defaults.keeps else None)

    def leave_nothing_behind(self) -> None:
        self.table.leave_nothing_behind()
