"""RPC mode: a host of the pi family on standard input and output."""

from __future__ import annotations

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.wire.connection import Connection
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.server import PiServer
from fairlead.wire.pi.updates import Form, Pacing
from fairlead.wire.process import HostProcess, OnEof


class RpcOptions(Struct, kw_only=True):
    profile: Profile
    updates: Form = "full"
    max_frame_bytes: int | None = None
    on_eof: OnEof = "abort"


async def serve(agent: Agent, stdin: int, stdout: int, options: RpcOptions) -> int:
    """Serve one host until it leaves. Returns the exit code."""
    process = HostProcess(
        lambda connection: AgentServer(connection, agent, options),
        stdin,
        stdout,
        agent.settings.output,
        on_eof=options.on_eof,
    )
    agent.extensions.on_shutdown = process.leave
    return await process.run()


class AgentServer:
    """Implements `fairlead.wire.process.HostServer`: a host of the pi family has one agent."""

    def __init__(self, connection: Connection, agent: Agent, options: RpcOptions) -> None:
        server = server_type(options.profile)(
            connection,
            agent.session,
            options.profile,
            pacing=Pacing.of(agent.settings.output),
            updates=options.updates,
            persist=agent.persist,
            logins=lambda: agent.logins,
            max_frame=options.max_frame_bytes,
        )
        server.reload_extensions = agent.reload_extensions
        self.dispatcher = server.dispatcher
        self.serve = server.serve
        self.host_left = server.questions.host_left
        self.late_answers = server.dispatcher.late_answers
        self.cancel = agent.session.cancel
        self.idle = agent.session.idle
        self.warm_up = agent.warm_up
        self.clear_leftovers = agent.clear_leftovers
        self.leave_nothing_behind = agent.leave_nothing_behind
        self._session = agent.session
        self._frames = server.frames

    @property
    def is_running(self) -> bool:
        return self._session.is_streaming

    async def close(self) -> None:
        await self._session.close()
        self._frames.flush()


def server_type(profile: Profile) -> type[PiServer]:
    if profile.form == "2025":
        from fairlead.wire.pi.pi_2025 import Server2025

        return Server2025
    return PiServer
