"""Hosts on a WebSocket: the protocols of standard input and output, with one message per line.

A host has the lease of a session for as long as it has the session open. Another process that has it gets some time to hand it
back, as for the requests of clients over HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from starlette.websockets import WebSocket, WebSocketDisconnect

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions
from fairlead.config.settings import OutputSettings
from fairlead.core import events
from fairlead.errors import FairleadError
from fairlead.protocol.http import http_objects as o
from fairlead.serve.guard import refuse
from fairlead.serve.http_api import Metrics
from fairlead.serve.refusals import Refusal, bad_request, outside_root, refusal_for, stopping
from fairlead.serve.sessions.hub import Hub
from fairlead.serve.sessions.spaces import Fleet, Space
from fairlead.serve.sessions.submissions import noted_approval
from fairlead.serve.sessions.watched import run_by_workers
from fairlead.session.approval_mode import note_mode, noted_mode
from fairlead.session.history.conversation import Conversation
from fairlead.sessions.catalogue import Opener
from fairlead.sessions.open_sessions import opening, retry_while_leased
from fairlead.stores import Lease, StoredLines, StoredSession
from fairlead.stores.headers import read_header
from fairlead.stores.paths import is_subagent_id
from fairlead.wire.acp.acp_server import AcpServer
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.host_connection import Connection, Listener
from fairlead.wire.opal.opal_server import OpalServer, defaults_of
from fairlead.wire.pi.pi_stdio import AgentServer, RpcOptions
from fairlead.wire.pi.profile import profile_named

if TYPE_CHECKING:
    from fairlead.wire.host_process import HostServer


_log = logging.getLogger("fairlead.serve")

#: Seconds that aborted work may take to end after the host has left, and seconds to write what is left.
CLOSE_PATIENCE, WRITE_PATIENCE = 5.0, 1.0
#: The dialects that /ws serves.
DIALECTS = ("pi", "omp", "xcsh", "opal")
#: The close codes for an end without a problem and for the end of the server.
NORMAL, GOING_AWAY = 1000, 1001


class WebSocketTransport:
    """Implements `fairlead.wire.host_connection.Transport`. Messages over `line_bytes` are dropped, and reported as such."""

    def __init__(self, websocket: WebSocket, *, line_bytes: int) -> None:
        self._websocket = websocket
        self._line_bytes = line_bytes
        self._frames: deque[bytes] = deque()
        self._has_frames = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, listener: Listener) -> None:
        self._tasks = [asyncio.create_task(self._read(listener)), asyncio.create_task(self._write(listener))]

    def put(self, frame: bytes) -> int:
        self._frames.append(frame)
        self._has_frames.set()
        return 0

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    async def stop(self) -> None:
        """Read and write nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, listener: Listener) -> None:
        # A message is awaited even while reading is paused, so that the end of the connection is noticed.
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            text = message.get("text")
            data = message.get("bytes") or b"" if text is None else text.encode("utf-8", "surrogatepass")
            await self._may_read.wait()
            if data.strip():
                listener.lines_read([None if len(data) > self._line_bytes else data])
        listener.input_ended()

    async def _write(self, listener: Listener) -> None:
        try:
            while True:
                while not self._frames:
                    self._has_frames.clear()
                    await self._has_frames.wait()
                frame = self._frames.popleft()
                await self._websocket.send_text(frame[:-1].decode("utf-8", "replace"))
                listener.bytes_written(len(frame))
        except (WebSocketDisconnect, OSError, RuntimeError):
            listener.output_broke()


class SocketHosts:
    """Serves hosts that connect to /ws and /acp. Each has its own sessions, which end with the connection."""

    def __init__(self, hub: Hub, metrics: Metrics, *, line_bytes: int) -> None:
        self._hub = hub
        self._metrics = metrics
        self._line_bytes = line_bytes
        self._stop = asyncio.Event()
        self._serving: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """Abort all work, save it, and close all connections."""
        self._stop.set()
        if self._serving:
            await asyncio.wait(self._serving, timeout=CLOSE_PATIENCE + WRITE_PATIENCE)

    async def serve_dialect(self, websocket: WebSocket) -> None:
        """Serve a host of the dialect that the query names."""
        await self._serve(websocket, websocket.query_params.get("dialect") or "")

    async def serve_acp(self, websocket: WebSocket) -> None:
        await self._serve(websocket, "acp")

    async def _serve(self, websocket: WebSocket, dialect: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            host = await self._host(websocket, dialect)
            self._metrics.hosts[dialect] += 1
            try:
                await self._talk(websocket, host)
            finally:
                self._metrics.hosts[dialect] -= 1
                self._hub.hosts_closed += 1
        except FairleadError as error:
            await refuse(websocket.scope, websocket.send, refusal_for(error))
        finally:
            self._serving.discard(task)

    async def _host(self, websocket: WebSocket, dialect: str) -> _Host:
        """Prepare to serve a host. Raises FairleadError."""
        if self._hub.is_stopping:
            raise stopping()
        if dialect == "claude":
            raise bad_request(
                "dialect: hosts that use claude-agent-sdk talk over standard input and output. The server does not speak claude."
            )
        if dialect not in (*DIALECTS, "acp"):
            raise bad_request(f"dialect: expected {', '.join(DIALECTS)}, found {dialect[:50]!r}.")
        if len(self._serving) > self._hub.limits.sessions:
            raise Refusal(503, "too_many_hosts", "Too many hosts are connected.", retry_after=30)
        query = websocket.query_params
        space = self._hub.spaces[websocket.state.user]
        updates, session = query.get("updates") or "full", query.get("session")
        sessions = host_sessions(space, self._hub.limits.take_seconds)
        if session is None:
            return await _Host.make(space, dialect, space.folder(query.get("cwd")), updates=updates, sessions=sessions)
        if dialect in ("opal", "acp"):
            raise bad_request("session: hosts of this protocol open sessions with its own requests.")
        conversation, folder = await self._hub.find_saved(websocket.state.user, session)
        return await _Host.make(space, dialect, folder, updates=updates, sessions=sessions, conversation=conversation)

    async def _talk(self, websocket: WebSocket, host: _Host) -> None:
        await websocket.accept()
        transport = WebSocketTransport(websocket, line_bytes=min(self._line_bytes, host.output.line_bytes))
        connection = Connection(transport, queue_bytes=host.output.queue_bytes)
        server = host.start(connection)
        over = asyncio.Event()
        connection.on_broken = connection.on_end = over.set
        connection.start()
        host.on_leave(over.set)
        waits = [asyncio.create_task(each) for each in (server.serve(), over.wait(), self._stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server.cancel(resumable=True)
            server.host_left()
            waits[0].cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_PATIENCE):
                    await server.close()
                    await server.late_answers()
                    await host.close()
            if not over.is_set():
                await connection.output.wait_flushed(WRITE_PATIENCE)
            server.kill_children()
            for task in waits:
                task.cancel()
            served, *_ = await asyncio.gather(*waits, return_exceptions=True)
            if isinstance(served, Exception):
                _log.error("A bug in fairlead: a host could not be served any longer.", exc_info=served)
            await transport.stop()
            with suppress(RuntimeError, OSError, WebSocketDisconnect):
                await websocket.close(GOING_AWAY if self._stop.is_set() else NORMAL)


class _Host:
    """What one host is served with."""

    def __init__(self, output: OutputSettings, start: Callable[[Connection], HostServer], agent: Agent | None = None) -> None:
        self.output = output
        self.start = start
        self._agent = agent

    @classmethod
    async def make(
        cls,
        space: Space,
        dialect: str,
        folder: Path,
        *,
        updates: str,
        sessions: HostSessions,
        conversation: Opener | None = None,
    ) -> _Host:
        """Prepare to serve a host, which begins with a conversation if one is given. Raises FairleadError."""
        if updates not in ("full", "delta"):
            raise bad_request(f"updates: expected full or delta, found {updates[:50]!r}.")

        def options_in(options: AgentOptions) -> AgentOptions:
            return replace(sessions.kept(options), cwd=folder)

        async def prepare(agent: Agent) -> None:
            await space.prepare(agent)
            sessions.opened(agent)

        common = replace(space.common, base=options_in(space.common.base))
        output = common.settings.output
        if dialect == "acp":
            options = ServeOptions(stdin=-1, stdout=-1, agent_options=lambda _: common.base, prepare=prepare)
            return cls(output, lambda connection: AcpServer(connection, options, common))
        if dialect == "opal":
            if space.asks:
                common = replace(common, base=replace(common.base, approval="ask"))
            return cls(output, lambda connection: OpalServer(connection, defaults_of(common, opened=sessions.opened)))

        profile = profile_named(dialect)
        own = options_in(space.agent_options(profile))
        own.behaviour = replace(own.behaviour, conversation=conversation)
        agent = Agent(own, shared=common.shared)
        async with opening(agent):
            await prepare(agent)
        rpc = RpcOptions(profile=profile, updates="delta" if updates == "delta" else "full")
        return cls(agent.settings.output, lambda connection: AgentServer(connection, agent, rpc), agent)

    def on_leave(self, leave: Callable[[], None]) -> None:
        """Call `leave` when an extension asks to shut down."""
        if self._agent is not None:
            self._agent.extensions.on_shutdown = leave

    async def close(self) -> None:
        if self._agent is not None:
            await self._agent.close()


T = TypeVar("T")


class HostStore:
    """Implements `fairlead.stores.SessionStore` with the store of a fleet.

    Sessions that workers run, and those outside the root of the server, cannot be opened or deleted.

    Args:
        fleet: The fleet.
        admits: Whether sessions may work in a directory.
        patience: Seconds that another process has to hand a session back.
    """

    def __init__(self, fleet: Fleet, admits: Callable[[Path], bool], patience: float) -> None:
        self._fleet = fleet
        self._store = fleet.store
        self._admits = admits
        self._patience = patience

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        return await self._store.create(id, header, owner=owner, lease_seconds=lease_seconds, lines=lines)

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        if not self._shows((await self._store.read(id, 0, 1)).header):
            raise outside_root()
        if await self._fleet.jobs.list(session=id):
            raise run_by_workers()
        return await retry_while_leased(lambda: self._store.open(id, owner=owner, lease_seconds=lease_seconds), self._patience)

    async def renew(self, lease: Lease) -> Lease:
        return await self._store.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self._store.release(lease)

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        return await self._store.append(lease, lines, after=after)

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        found = await self._store.read(id, after, limit)
        if not self._shows(found.header):
            raise outside_root()
        return found

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        while True:
            page = await self._store.list(after=after, limit=limit)
            shown = [each for each in page if not is_subagent_id(each.id) and self._shows(each.header)]
            if shown or not page:
                return shown
            after = page[-1].id

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        await self.read(id, 0, 1)
        return await self._store.fork(id, new_id, header, up_to)

    async def delete(self, id: str) -> None:
        await self.read(id, 0, 1)
        if any(not job.has_ended for job in await self._fleet.jobs.list(session=id)):
            raise Refusal(409, "busy", "Jobs of this session have not ended. Abort them first.")
        await retry_while_leased(lambda: self._store.delete(id), self._patience)

    async def close(self) -> None:
        """Do nothing: the store is closed with the server."""

    def _shows(self, line: bytes) -> bool:
        header = read_header(line)
        return header is not None and self._admits(Path(header.cwd))


class HostSessions(Struct, frozen=True):
    """How the sessions of a host are kept."""

    #: Returns options of agents whose sessions are kept there.
    kept: Callable[[AgentOptions], AgentOptions]
    #: Called with each agent when its session is open.
    opened: Callable[[Agent], object]


def host_sessions(space: Space, patience: float) -> HostSessions:
    """Return how the sessions of a host are kept: in files, or in the store of a fleet."""
    match space.fleet:
        case None:
            return HostSessions(lambda options: options, lambda agent: None)
        case fleet:
            return HostSessions(partial(space.with_store, HostStore(fleet, space.admits, patience)), ApprovalNotes)


class ApprovalNotes:
    """Keeps the approval mode with the session of an agent, so that no server is more permissive than the one before.

    Make it when the session is open and the agent has the mode that it has by default.
    """

    def __init__(self, agent: Agent) -> None:
        self._session = agent.session
        self._default: o.Approval = agent.session.approvals.mode
        #: The mode that this object has chosen last, which is not that of a client.
        self._restored: o.Approval | None = None
        #: The conversation that is known to have a note.
        self._noted: Conversation | None = None
        self._restore()
        agent.session.subscribe(self._observe)

    def _observe(self, event: events.Event) -> None:
        conversation = self._session.history.conversation
        match event:
            case events.SessionReplaced():
                self._restore()
            case events.ApprovalModeChanged(mode=mode):
                if mode != self._restored:
                    note_mode(conversation, mode, is_chosen=True)
                self._restored = None
            case events.AgentStart() if conversation is not self._noted:
                self._noted = conversation
                if noted_mode(conversation.log) is None:
                    note_mode(conversation, self._session.approvals.mode, is_chosen=False)
            case _:
                pass

    def _restore(self) -> None:
        conversation, approvals = self._session.history.conversation, self._session.approvals
        mode = noted_approval(conversation.log, self._default) if conversation.is_shared else self._default
        self._restored = mode if mode != approvals.mode else None
        approvals.set_mode(mode)
