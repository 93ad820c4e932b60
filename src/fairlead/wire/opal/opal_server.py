"""Serves one Opal client with many sessions, on standard input and output or another connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlead.agent import Agent, clear_leftovers
from fairlead.agent.options import AgentOptions
from fairlead.core.model import Model
from fairlead.errors import LoginFailed
from fairlead.models import logins
from fairlead.models.registry import Registry
from fairlead.protocol.opal.opal_methods import AgentAbort, OfSession
from fairlead.protocol.opal.opal_objects import Auth
from fairlead.protocol.schema import json_rpc, typescript
from fairlead.sessions.catalogue import Common, common_parts
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.host_connection import Connection, FrameTap
from fairlead.wire.host_process import HostProcess, OnEof
from fairlead.wire.jsonrpc import OutboundRequests
from fairlead.wire.opal.opal_codec import OpalCodec, credentials
from fairlead.wire.opal.opal_handlers import ROUTES
from fairlead.wire.opal.opal_session import OpalSession
from fairlead.wire.opal.session_table import OpalSettings, SessionDefaults, SessionTable, opal_catalogue
from fairlead.wire.routing import HostReply, Request, RouteTable
from fairlead.wire.stdio import StdioTransport

if TYPE_CHECKING:
    pass


class OpalServer:
    """Implements `fairlead.wire.host_process.HostServer` and `fairlead.wire.routing.Service`."""

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
    def logins(self) -> logins.Logins:
        return logins.Logins(self.registry, self.table.defaults.shared.http)

    def auth(self, model: Model | None, *, in_full: bool = False) -> Auth:
        """The credentials for `model`, or for the model of a new session."""
        return credentials(self.registry, model or self.table.usual_model(), in_full=in_full)

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
        model = self.table.usual_model()
        if model is not None:
            session.session.models.set_model(model.provider, model.id)

    # For the dispatcher

    def call_when_written(self, action: Callable[[], object]) -> None:
        self.table.call_when_written(action)

    def receive_reply(self, reply: HostReply) -> None:
        self.questions.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        """Return the end of what an abort has stopped in the session of the request."""
        if isinstance(request.parameters, AgentAbort):
            return None
        session = self._session_of(request)
        return session.wait_settled() if session is not None and session.is_stopping else None

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

    def kill_children(self) -> None:
        self.table.kill_children()


async def serve(dialect: str, options: ServeOptions) -> int:
    base = options.agent_options(None)
    return await serve_sessions(base, options.stdin, options.stdout, on_eof=options.on_eof, tap=options.tap)


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    return json_rpc.opal_schema()


def types(dialect: str, title: str) -> str:
    return typescript.opal_types(title)


async def serve_sessions(
    base: AgentOptions, stdin: int, stdout: int, *, on_eof: OnEof = "abort", tap: FrameTap | None = None
) -> int:
    """Serve one client until it leaves. `base` holds the defaults for its sessions. Returns the exit code."""
    defaults = session_defaults(base)
    output = defaults.settings.output
    transport = StdioTransport(stdin, stdout, line_bytes=output.line_bytes)
    process = HostProcess(lambda connection: OpalServer(connection, defaults), transport, output, on_eof=on_eof, tap=tap)
    return await process.run()


def session_defaults(base: AgentOptions) -> SessionDefaults:
    """What all sessions of a process have in common."""
    return defaults_of(common_parts(base))


def defaults_of(common: Common, *, opened: Callable[[Agent], object] | None = None) -> SessionDefaults:
    """What all sessions of a client have in common, with parts that they share with other clients.

    `opened` is called with each agent when its session is open.
    """
    catalogue, keeps = opal_catalogue(common)
    return SessionDefaults(
        base=common.base,
        catalogue=catalogue,
        keeps=keeps,
        saved=OpalSettings(common.home),
        opened=opened,
        shared=common.shared,
        settings=common.settings,
    )
