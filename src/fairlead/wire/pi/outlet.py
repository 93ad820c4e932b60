"""Where the frames of the family go: frames that are too long for the host leave in chunks."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Protocol

import msgspec

from fairlead.protocol.pi.frames import RpcChunk
from fairlead.wire.connection import Outlet, Output

CHUNK_OVERHEAD = 160


#: omp's client accepts no longer pieces of a frame than this.
LONGEST_PIECE = 1 << 18


class FrameOutlet(Outlet, Protocol):
    """Where the frames of the family go."""

    @property
    def max_frame(self) -> int | None:
        """The most bytes that a frame should have; None for any number."""
        ...


class ChunkedOutlet:
    """Implements `FrameOutlet`. A frame longer than `max_frame` leaves as omp's `rpc_chunk` frames."""

    def __init__(self, output: Output, max_frame: int | None = None) -> None:
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
        """A frame that is too long, in base64 pieces to join and decode."""
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
