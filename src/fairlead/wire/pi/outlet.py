"""Sends the frames of the pi family. A frame that is too long for the host is sent in chunks."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Protocol

import msgspec

from fairlead.protocol.pi.frames import RpcChunk
from fairlead.wire.connection import HostOutput, Outlet

CHUNK_OVERHEAD = 160


#: The longest piece of a frame, in bytes, that omp's client accepts.
LONGEST_PIECE = 1 << 18


class FrameOutlet(Outlet, Protocol):
    """An outlet with a limit on the length of frames."""

    @property
    def max_frame(self) -> int | None:
        """The most bytes that a frame should have, or None for no limit."""
        ...


class ChunkedOutlet:
    """Implements `FrameOutlet`. It sends a frame longer than `max_frame` as `rpc_chunk` frames, which omp defines."""

    def __init__(self, output: HostOutput, max_frame: int | None = None) -> None:
        self.max_frame = max_frame
        self.when_caught_up = output.when_caught_up
        self._output = output
        self._chunked = 0

    @property
    def behind(self) -> bool:
        return self._output.behind

    def send(self, frame: bytes) -> None:
        if self.max_frame is None or len(frame) <= self.max_frame:
            self._output.send(frame)
            return
        for chunk in self._chunks(frame[:-1], self.max_frame):
            self._output.send(msgspec.json.encode(chunk) + b"\n")

    def _chunks(self, body: bytes, limit: int) -> Iterator[RpcChunk]:
        """Split a frame into base64 pieces, which the host decodes and joins."""
        self._chunked += 1
        size = min(max(3, (limit - CHUNK_OVERHEAD) // 4 * 3), LONGEST_PIECE)
        starts = range(0, len(body), size)
        for index, start in enumerate(starts):
            yield RpcChunk(
                chunk_id=f"rpc-{self._chunked}",
                index=index,
                count=len(starts),
                byte_length=len(body),
                data=base64.b64encode(body[start : start + size]).decode(),
            )
