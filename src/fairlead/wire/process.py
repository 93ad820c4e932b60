"""A process that serves one host: from the first frame to the exit code, whatever dialect the host speaks."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from fairlead.config.process import process_is_ending, start_thread
from fairlead.config.settings import OutputSettings
from fairlead.wire.connection import Connection
from fairlead.wire.dispatcher import Dispatcher

_log = logging.getLogger("fairlead.wire")

#: Seconds that aborted work has to end (longer than a tool's grace), and after which a host that has not read anything
#: counts as gone. Together less than a second.
ABORT_PATIENCE, READ_PATIENCE = 0.5, 0.4
#: Seconds from the first command to the warm-up.
WARM_UP_AFTER = 0.01
#: Seconds from the start to the warm-up, if there is no command.
WARM_UP_UNASKED = 0.5
#: A second SIGINT within this many seconds ends the process.
SECOND_SIGINT = 1.0

OnEof: TypeAlias = Literal["abort", "finish"]


class HostServer(Protocol):
    """The server of a dialect, as the process around it sees it."""

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        ...

    async def serve(self) -> None:
        """Answer the host until its input ends or it asks to shut down."""
        ...

    def cancel(self) -> None:
        """Tell whatever runs to stop, without waiting for it."""
        ...

    def host_left(self) -> None:
        """The host will not answer any question any more."""
        ...

    async def idle(self) -> None:
        """Wait until no run is going."""
        ...

    async def late_answers(self) -> None:
        """Wait for the commands that are still being worked on."""
        ...

    async def close(self) -> None:
        """Stop everything, and let other processes have the session files."""
        ...

    def warm_up(self) -> None:
        """Get slow imports and TLS out of the way of the first prompt, in the background."""
        ...

    def clear_leftovers(self) -> None:
        """Remove what processes that were killed have left. Called in a thread of its own."""
        ...

    def leave_nothing_behind(self) -> None:
        """Remove what would outlive the process."""
        ...


class HostProcess:
    """`make` gives the server for the connection. It decides nothing about frames; this decides nothing else about the host."""

    def __init__(
        self,
        make: Callable[[Connection], HostServer],
        stdin: int,
        stdout: int,
        output: OutputSettings,
        *,
        on_eof: OnEof = "abort",
    ) -> None:
        self._on_eof = on_eof
        self._connection = Connection(stdin, stdout, queue_bytes=output.queue_bytes, line_bytes=output.line_bytes)
        self._server = make(self._connection)
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._interrupted_at = float("-inf")
        self._left_alone = False
        self._leaving: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Serve until the host leaves. Returns the exit code."""
        self._handle_signals()
        self._connection.on_broken = lambda: self._finish(0)
        self._connection.on_end = self._input_ended
        if self._on_eof == "abort":
            self._connection.on_end_seen = process_is_ending
        self._connection.start()
        serving = asyncio.create_task(self._serve())
        self._server.dispatcher.after_first_answer = self._after_first_answer
        asyncio.get_running_loop().call_later(WARM_UP_UNASKED, self._warm_up_unasked)
        code = await self._over
        serving.cancel()
        await self._wind_down()
        return code

    def leave(self) -> None:
        """End, with exit code 0, once what is going on has ended and has been answered."""
        self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        await self._server.idle()
        await self._server.late_answers()
        self._finish(0)

    async def _serve(self) -> None:
        try:
            await self._server.serve()
        except Exception:  # a bug of ours: better a dead process than a silent one
            _log.exception("A bug in fairlead: the process cannot serve any longer.")
            self._finish(1)
        if not self._server.dispatcher.stopping and self._on_eof == "finish":
            await self._server.late_answers()  # what is still worked on may begin a run
            await self._server.idle()
        self._finish(0)

    def _after_first_answer(self) -> None:
        """The first answer is on its way: from here on there is time for other things."""
        gc.freeze()  # what the start has made stays: it need not be looked at again
        gc.enable()
        self._warm_up_soon()

    def _warm_up_soon(self) -> None:
        """Get slow imports and TLS out of the way of the first prompt, but not in the way of the first answers."""
        asyncio.get_running_loop().call_later(WARM_UP_AFTER, self._warm_up, self._server.dispatcher.handled)

    def _warm_up_unasked(self) -> None:
        if not self._server.dispatcher.handled:
            self._server.warm_up()
            self._clear_leftovers()

    def _warm_up(self, handled: int) -> None:
        if self._server.dispatcher.handled != handled:  # the host is busy with something else: later
            self._warm_up_soon()
            return
        if not self._server.is_running:  # a run that has begun loads what it needs by itself, and first
            self._server.warm_up()
        self._clear_leftovers()

    def _clear_leftovers(self) -> None:
        start_thread(self._server.clear_leftovers, "fairlead-leftovers")

    def _input_ended(self) -> None:
        """The host left. What it sent before still gets its turn, as long as the host reads on or nothing blocks."""
        self._server.host_left()
        if self._on_eof == "abort":
            self._server.cancel()
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
        process_is_ending()
        self._server.cancel()
        self._server.host_left()  # what is no part of a run stops waiting for an answer, too
        try:
            async with asyncio.timeout(ABORT_PATIENCE):
                await self._server.close()
                await self._server.late_answers()
        except TimeoutError:
            pass
        await self._connection.output.flushed(READ_PATIENCE)
        self._server.leave_nothing_behind()

    # Signals

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name, code in (("SIGTERM", 143), ("SIGHUP", 129)):
            if hasattr(signal, name):
                loop.add_signal_handler(getattr(signal, name), self._finish, code)
                # The loop hears of the signal all the same, once whatever blocks it has been interrupted.
                signal.signal(getattr(signal, name), lambda number, frame: process_is_ending())
        loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _interrupt(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._interrupted_at < SECOND_SIGINT:
            self._finish(130)
        self._interrupted_at = now
        self._server.cancel()
