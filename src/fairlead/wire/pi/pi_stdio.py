"""Serves a host of the pi family on standard input and output."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.protocol.schema import family, typescript
from fairlead.wire.dialects import ServeOptions, dialect_named
from fairlead.wire.host_connection import Connection, FrameTap
from fairlead.wire.host_process import HostProcess, OnEof
from fairlead.wire.pi import pi_schema
from fairlead.wire.pi.paced_updates import Form, Pacing
from fairlead.wire.pi.pi_server import PiServer
from fairlead.wire.pi.profile import Profile, profile_named
from fairlead.wire.stdio import StdioTransport

if TYPE_CHECKING:
    from fairlead.protocol.schema.family import Lines


#: The server for most dialects; see `server_type`.
SERVER = PiServer


class RpcOptions(Struct, kw_only=True):
    """How to serve a host with an agent."""

    profile: Profile
    updates: Form = "full"
    max_frame_bytes: int | None = None
    on_eof: OnEof = "abort"
    #: The rest of the start, if a prompt may be acknowledged before it is done.
    starting: asyncio.Task[None] | None = None
    #: Sees all lines in both directions.
    tap: FrameTap | None = None


async def serve(dialect: str, options: ServeOptions) -> int:
    """Make an agent and serve one host with it. Returns the exit code."""
    profile = profile_named(dialect, options.version)
    agent = Agent(options.agent_options(profile))
    starting = await _start(agent, options, profile)
    rpc = RpcOptions(
        profile=profile,
        updates=options.updates,
        max_frame_bytes=options.max_frame_bytes,
        on_eof=options.on_eof,
        starting=starting,
        tap=options.tap,
    )
    return await serve_agent(agent, options.stdin, options.stdout, rpc)


async def _start(agent: Agent, options: ServeOptions, profile: Profile) -> asyncio.Task[None] | None:
    """Prepare the agent. Returns the rest of that if it takes long and the host need not wait for it with a prompt."""
    starting = asyncio.create_task(_prepare(agent, options))
    await asyncio.sleep(0)
    if profile.acknowledges_prompts and not starting.done():
        return starting
    await starting
    return None


async def _prepare(agent: Agent, options: ServeOptions) -> None:
    await options.prepare(agent)


def server_type(profile: Profile) -> type[PiServer]:
    """Return the server class for a profile."""
    return cast("Any", dialect_named(profile.name).load()).SERVER


async def serve_agent(agent: Agent, stdin: int, stdout: int, options: RpcOptions) -> int:
    """Serve one host with an agent until the host leaves. Returns the exit code."""
    process = HostProcess(
        lambda connection: AgentServer(connection, agent, options),
        StdioTransport(stdin, stdout, line_bytes=agent.settings.output.line_bytes),
        agent.settings.output,
        on_eof=options.on_eof,
        tap=options.tap,
        starting=options.starting,
    )
    agent.extensions.on_shutdown = process.leave
    return await process.run()


def lines(dialect: str) -> Lines:
    """Return the lines that the host and fairlead may send."""
    return pi_schema.lines(profile_named(dialect))


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    return schema_of(dialect, lines(dialect), closed=closed)


def types(dialect: str, title: str) -> str:
    return types_of(title, lines(dialect))


def schema_of(dialect: str, lines: Lines, *, closed: bool) -> dict[str, Any]:
    return family.family_schema(f"The protocol of {dialect}, as fairlead speaks it", lines, closed=closed)


def types_of(title: str, lines: Lines) -> str:
    return typescript.family_types(title, lines)


class AgentServer:
    """Implements `fairlead.wire.host_process.HostServer`. A host of the pi family has one agent."""

    def __init__(self, connection: Connection, agent: Agent, options: RpcOptions) -> None:
        server = server_type(options.profile)(
            connection,
            agent.session,
            options.profile,
            pacing=Pacing.of(agent.settings.output),
            updates=options.updates,
            persist=agent.persist,
            logins=lambda: agent.logins,
            reload_extensions=agent.reload_extensions,
            max_frame=options.max_frame_bytes,
            starting=options.starting,
        )
        self.dispatcher = server.dispatcher
        self.serve = server.serve
        self.host_left = server.questions.host_left
        self.late_answers = server.dispatcher.late_answers
        self.cancel = agent.session.activity.cancel
        self.idle = agent.session.activity.idle
        self.warm_up = agent.warm_up
        self.clear_leftovers = agent.clear_leftovers
        self.kill_children = agent.kill_children
        self._session = agent.session
        self._frames = server.frames

    @property
    def is_running(self) -> bool:
        return self._session.activity.is_streaming

    async def close(self) -> None:
        await self._session.close()
        self._frames.flush()
