"""RPC mode: a host on standard input and output, from the first frame to the exit code."""

from __future__ import annotations

import asyncio
import gc
import signal
import traceback
from typing import Literal

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.wire.connection import Connection
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.server import Server
from fairlead.wire.pi.updates import Form, Pacing

#: Seconds that aborted work has to end (longer than a tool's grace), and after which a host that has not read anything
#: counts as gone. Together less than a second.
ABORT_PATIENCE, READ_PATIENCE = 0.6, 0.3
#: Seconds from the first command to the warm-up.
WARM_UP_AFTER = 0.01
#: A second SIGINT within this many seconds ends the process.
SECOND_SIGINT = 1.0


class RpcOptions(Struct, kw_only=True):
    profile: Profile
    updates: Form = "full"
    max_frame_bytes: int | None = None
    on_eof: Literal["abort", "finish"] = "abort"


async def serve(agent: Agent, stdin: int, stdout: int, options: RpcOptions) -> int:
    """Serve one host until it leaves. Returns the exit code."""
    return await _Process(agent, stdin, stdout, options).run()


class _Process:
    def __init__(self, agent: Agent, stdin: int, stdout: int, options: RpcOptions) -> None:
        self._agent = agent
        self._options = options
        output = agent.settings.output
        self._connection = Connection(
            stdin,
            stdout,
            queue_bytes=output.queue_bytes,
            line_bytes=output.line_bytes,
            max_frame=options.max_frame_bytes,
        )
        self._server = Server(
            self._connection,
            agent.session,
            options.profile,
            pacing=Pacing.of(output),
            updates=options.updates,
            persist=agent.persist,
        )
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._interrupted_at = float("-inf")
        self._left_alone = False

    async def run(self) -> int:
        self._handle_signals()
        self._connection.on_broken = lambda: self._finish(0)
        self._connection.on_end = self._input_ended
        self._connection.start()
        serving = asyncio.create_task(self._serve())
        self._server.after_first_command = self._after_first_command
        code = await self._over
        serving.cancel()
        await self._wind_down()
        return code

    async def _serve(self) -> None:
        try:
            await self._server.serve()
        except Exception:  # a bug of ours: better a dead process than a silent one
            traceback.print_exc()
            self._finish(1)
        if not self._server.stopping and self._options.on_eof == "finish":
            await self._agent.session.idle()
            await self._server.late_answers()
        self._finish(0)

    def _after_first_command(self) -> None:
        """The first answer is on its way: from here on there is time for other things."""
        gc.freeze()  # what the start has made stays: it need not be looked at again
        gc.enable()
        self._warm_up_soon()

    def _warm_up_soon(self) -> None:
        """Get slow imports and TLS out of the way of the first prompt, but not in the way of the first answers."""
        asyncio.get_running_loop().call_later(WARM_UP_AFTER, self._warm_up, self._server.handled)

    def _warm_up(self, handled: int) -> None:
        if self._server.handled != handled:  # the host is busy with something else: later
            self._warm_up_soon()
        elif not self._agent.session.is_streaming:  # a run that has begun loads what it needs by itself, and first
            self._agent.warm_up()

    def _input_ended(self) -> None:
        """The host left. What it sent before still gets its turn, as long as the host reads on or nothing blocks."""
        self._server.questions.host_left()
        if self._options.on_eof == "abort":
            self._agent.session.cancel()
            self._leave_unless_moving(self._connection.output.total)

    def _leave_unless_moving(self, total: int) -> None:
        now = self._connection.output.total
        if self._over.done():
            return
        if now == total and self._left_alone:
            self._finish(0)
        self._left_alone = now == total
        asyncio.get_running_loop().call_later(READ_PATIENCE / 2, self._leave_unless_moving, now)

    def _finish(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    async def _wind_down(self) -> None:
        """Stop what runs, let its last events out, and leave nothing behind."""
        try:
            async with asyncio.timeout(ABORT_PATIENCE):
                await self._agent.session.close()
                await self._server.late_answers()
        except TimeoutError:
            pass
        await self._connection.output.flushed(READ_PATIENCE)
        self._agent.leave_nothing_behind()

    # Signals

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name, code in (("SIGTERM", 143), ("SIGHUP", 129)):
            if hasattr(signal, name):
                loop.add_signal_handler(getattr(signal, name), self._finish, code)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _interrupt(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._interrupted_at < SECOND_SIGINT:
            self._finish(130)
        self._interrupted_at = now
        self._agent.session.cancel()
