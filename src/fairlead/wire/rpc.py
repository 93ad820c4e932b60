"""RPC mode: a host of the pi family on standard input and output."""

from __future__ import annotations

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.wire.connection import Connection
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.server import Server
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
        max_frame_bytes=options.max_frame_bytes,
        on_eof=options.on_eof,
    )
    agent.extensions.on_shutdown = process.leave
    return await process.run()


class AgentServer(Server):
    """Implements `fairlead.wire.process.HostServer`: a host of the pi family has one agent."""

    def __init__(self, connection: Connection, agent: Agent, options: RpcOptions) -> None:
        pacing = Pacing.of(agent.settings.output)
        super().__init__(
            connection,
            agent.session,
            options.profile,
            pacing=pacing,
            updates=options.updates,
            persist=agent.persist,
            logins=lambda: agent.logins,
        )
        self._agent = agent
        self.reload_extensions = agent.reload_extensions

    @property
    def is_running(self) -> bool:
        return self.session.is_streaming

    def cancel(self) -> None:
        self.session.cancel()

    def host_left(self) -> None:
        self.questions.host_left()

    async def idle(self) -> None:
        await self.session.idle()

    async def close(self) -> None:
        await self.session.close()
        self.flush()

    def warm_up(self) -> None:
        self._agent.warm_up()

    def clear_leftovers(self) -> None:
        self._agent.clear_leftovers()

    def leave_nothing_behind(self) -> None:
        self._agent.leave_nothing_behind()
