"""The process of a replay: one host on two file descriptors, from the first frame to the exit code."""

from __future__ import annotations

import asyncio
import signal

from fairlead.replay.lines import format_of
from fairlead.replay.player import Player, ReplayOptions
from fairlead.replay.recording import Recording
from fairlead.wire.connection import Connection
from fairlead.wire.process import READ_PATIENCE
from fairlead.wire.stdio import StdioTransport

_QUEUE_BYTES = 4 << 20
_LINE_BYTES = 64 << 20


async def serve_recording(recording: Recording, stdin: int, stdout: int, options: ReplayOptions) -> int:
    """Play a recording to one host. Returns the exit code."""
    connection = Connection(StdioTransport(stdin, stdout, line_bytes=_LINE_BYTES), queue_bytes=_QUEUE_BYTES)
    player = Player(recording, format_of(recording.header.dialect), connection.output, options)
    connection.on_arrival = player.receive
    connection.on_end = player.end_input
    connection.on_broken = lambda: player.finish(0)
    loop = asyncio.get_running_loop()
    for name, code in (("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)):
        if hasattr(signal, name):
            loop.add_signal_handler(getattr(signal, name), player.finish, code)
    connection.start()
    code = await player.play()
    await connection.output.flushed(READ_PATIENCE)
    return code
