"""A process that serves one host in any dialect, from the first frame to the exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, Protocol, TypeAlias

from fairlead.config.settings import OutputSettings
from fairlead.platform.process import process_is_ending, start_thread
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.host_connection import Connection, FrameTap, Transport

_log = logging.getLogger("fairlead.wire")

#: Seconds that aborted work may take to end (longer than a tool's grace period), and seconds without reading after which a
#: host counts as gone. Together less than a second.
ABORT_PATIENCE, READ_PATIENCE = 0.5, 0.4
#: Seconds from the first answer to the first garbage collection. A prompt that follows at once imports more modules first.
COLLECT_AFTER = 0.2
#: Seconds from the first command to the warm-up.
WARM_UP_AFTER = 0.01
#: Seconds from the start to the warm-up, if no command arrives.
WARM_UP_UNASKED = 0.5
#: Seconds from the warm-up to the removal of what killed processes left behind.
CLEAR_LEFTOVERS_AFTER = 0.2
#: A second SIGINT within this many seconds ends the process.
SECOND_SIGINT = 1.0
#: Signals that end the process, and its exit code then.
_EXIT_CODES = {"SIGTERM": 143, "SIGHUP": 129}

OnEof: TypeAlias = Literal["abort", "finish"]


class HostServer(Protocol):
    """What `HostProcess` needs from the server of a dialect."""

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def is_running(self) -> bool:
        """Whether a run is active."""
        ...

    async def serve(self) -> None:
        """Serve the host until its input ends or it asks to shut down."""
        ...

    def cancel(self, *, resumable: bool = False) -> None:
        """Cancel everything that runs, without waiting for it to end. `resumable`: because the process ends."""
        ...

    def host_left(self) -> None:
        """Stop waiting for answers, because the host can no longer answer questions."""
        ...

    async def idle(self) -> None:
        """Wait until no run is active."""
        ...

    async def late_answers(self) -> None:
        """Wait until the commands that are running are answered."""
        ...

    async def close(self) -> None:
        """Stop everything, and release the session files for other processes."""
        ...

    def warm_up(self) -> None:
        """Do slow imports and prepare TLS in the background, so that the first prompt need not wait for them."""
        ...

    def clear_leftovers(self) -> None:
        """Remove files that killed processes left behind. Called in a separate thread."""
        ...

    def kill_children(self) -> None:
        """Remove everything that would outlive the process."""
        ...


class HostProcess:
    """Runs the server that `make` returns for the connection.

    It decides when the process starts, stops and exits. The server decides everything about frames.
    """

    def __init__(
        self,
        make: Callable[[Connection], HostServer],
        transport: Transport,
        output: OutputSettings,
        *,
        on_eof: OnEof = "abort",
        tap: FrameTap | None = None,
        exit_code: Callable[[], int] = lambda: 0,
        starting: asyncio.Task[None] | None = None,
    ) -> None:
        """Serve a transport. `exit_code` returns the exit code for the case that nothing went wrong with the process itself.

        `starting` is the rest of the start, if the host may be served before it is done. The end of the input counts after it.
        """
        self._on_eof = on_eof
        self._starting = starting
        self._exit_code = exit_code
        self._connection = Connection(transport, queue_bytes=output.queue_bytes, tap=tap)
        self._server = make(self._connection)
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._interrupted_at = float("-inf")
        self._left_alone = False
        self._leaving: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Serve until the host leaves. Returns the exit code. Raises what the start raises."""
        stop_handling_signals = self._handle_signals()
        self._connection.on_broken = lambda: self._finish(0)
        self._connection.on_end = self._on_input_end
        if self._on_eof == "abort":
            self._connection.on_end_seen = process_is_ending
        if self._starting is not None:
            self._starting.add_done_callback(self._on_started)
        self._connection.start()
        serving = asyncio.create_task(self._serve())
        self._server.dispatcher.after_first_answer = self._after_first_answer
        asyncio.get_running_loop().call_later(WARM_UP_UNASKED, self._warm_up_unasked)
        code = await self._over
        serving.cancel()
        await self._wind_down()
        stop_handling_signals()
        if self._starting is not None and self._starting.done():
            self._starting.result()
        return code

    def _on_started(self, starting: asyncio.Task[None]) -> None:
        if starting.cancelled() or starting.exception() is not None:
            self._leaving = asyncio.create_task(self._leave_unstarted())

    async def _leave_unstarted(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(ABORT_PATIENCE):
                await self._server.late_answers()  # those that were acknowledged fail for the same reason
        self._finish(1)

    def leave(self) -> None:
        """End with exit code 0 once everything that runs has ended and was answered."""
        self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        await self._server.idle()
        await self._server.late_answers()
        self._finish(self._exit_code())

    async def _serve(self) -> None:
        try:
            await self._server.serve()
        except Exception:  # a bug in fairlead: better a dead process than a silent one
            _log.exception("A bug in fairlead: the process cannot serve any longer.")
            self._finish(1)
        if self._starting is not None and not self._server.dispatcher.stopping:
            await asyncio.wait({self._starting})
            if self._leaving is not None:
                await self._leaving
        if not self._server.dispatcher.stopping and self._on_eof == "finish":
            await self._server.late_answers()  # a late command may start a run
            await self._server.idle()
        self._finish(self._exit_code())

    def _after_first_answer(self) -> None:
        """Do what had to wait until the first answer was sent."""
        asyncio.get_running_loop().call_later(COLLECT_AFTER, _collect_garbage)
        self._warm_up_soon()

    def _warm_up_soon(self) -> None:
        """Warm up before the first prompt, but without delaying the first answers."""
        asyncio.get_running_loop().call_later(WARM_UP_AFTER, self._warm_up, self._server.dispatcher.handled)

    def _warm_up_unasked(self) -> None:
        if not self._server.dispatcher.handled:
            self._server.warm_up()
            self._clear_leftovers()

    def _warm_up(self, handled: int) -> None:
        if self._server.dispatcher.handled != handled:  # the host has sent more commands: try again later
            self._warm_up_soon()
            return
        if not self._server.is_running:  # an active run loads what it needs itself
            self._server.warm_up()
        self._clear_leftovers()

    def _clear_leftovers(self) -> None:
        """Clear leftovers in a moment: the first prompt, which may already run, must not compete with it."""
        asyncio.get_running_loop().call_later(
            CLEAR_LEFTOVERS_AFTER, start_thread, self._server.clear_leftovers, "fairlead-leftovers"
        )

    def _on_input_end(self) -> None:
        """Handle the end of the input.

        Commands that arrived before it are still served, as long as the host reads or nothing blocks.
        """
        if self._starting is not None and not self._starting.done():
            self._starting.add_done_callback(lambda _: self._on_input_end())
            return
        self._server.host_left()
        if self._on_eof == "abort":
            self._server.cancel(resumable=True)
            self._exit_unless_writing(self._connection.output.total)

    def _exit_unless_writing(self, total: int) -> None:
        now = self._connection.output.total
        if self._over.done():
            return
        if now == total and self._left_alone:
            self._finish(0)
        self._left_alone = now == total
        asyncio.get_running_loop().call_later(READ_PATIENCE / 2, self._exit_unless_writing, now)

    def _finish(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    async def _wind_down(self) -> None:
        """Stop everything that runs, send its last events, and clean up."""
        process_is_ending()
        self._server.cancel(resumable=True)
        self._server.host_left()  # questions outside a run stop waiting for an answer too
        try:
            async with asyncio.timeout(ABORT_PATIENCE):
                await self._server.close()
                await self._server.late_answers()
        except TimeoutError:
            pass
        await self._connection.output.wait_flushed(READ_PATIENCE)
        self._server.kill_children()

    # Signals

    def _handle_signals(self) -> Callable[[], None]:
        """Handle signals on the event loop. Returns a function that restores what handled them before.

        `loop.add_signal_handler` does the same, but loads `inspect` first, which would delay the first answer.
        """
        loop = asyncio.get_running_loop()
        # A signal may arrive in another thread: writing its number here ends the wait of the loop, which then calls the handler.
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        loop.add_reader(reader, reader.recv, 4096)

        def handle(number: int, frame: object) -> None:
            if number != signal.SIGINT:
                process_is_ending()  # the loop may be blocked
            loop.call_soon_threadsafe(self._on_signal, number)

        numbers = [getattr(signal, name) for name in ("SIGINT", *_EXIT_CODES) if hasattr(signal, name)]
        before = {number: signal.signal(number, handle) for number in numbers}

        def stop() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup_before)
            loop.remove_reader(reader)
            reader.close()
            writer.close()

        return stop

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGINT:
            self._interrupt()
        else:
            self._finish(_EXIT_CODES[signal.Signals(number).name])

    def _interrupt(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._interrupted_at < SECOND_SIGINT:
            self._finish(130)
        self._interrupted_at = now
        self._server.cancel()


def _collect_garbage() -> None:
    """Collect garbage from now on. Objects from the start live on: the collector need not visit them."""
    gc.freeze()
    gc.enable()
