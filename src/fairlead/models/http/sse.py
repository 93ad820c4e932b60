"""Decodes server-sent events."""

from __future__ import annotations

from fairlead.errors import ProviderError

#: No provider sends such long events. Without a limit, a server that never ends a line would fill the memory.
LONGEST_EVENT = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Splits a byte stream into events, wherever the network split it. The cost is linear in the length of the stream.

    Lines end with LF, CRLF or CR; an empty line ends an event. `id` and `retry` are not needed and skipped.
    """

    def __init__(self) -> None:
        self._start = b""
        self._started = False
        self._after_cr = False
        #: The unfinished event. It contains no empty line.
        self._unfinished = bytearray()
        self._ends_line = False

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events that `data` completes, as pairs of name (b"" if absent) and data.

        Raises ProviderError if an event is too long.
        """
        if not self._started:
            data = self._without_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._with_lf_only(data)
        if not data:
            return []
        complete = b"\n\n" in data or (self._ends_line and data.startswith(b"\n"))
        self._ends_line = data.endswith(b"\n")
        if not complete:
            self._unfinished += data
            if len(self._unfinished) > LONGEST_EVENT:
                raise ProviderError(f"The provider sent an event of more than {LONGEST_EVENT >> 20} MiB; the answer was cut off.")
            return []
        if self._unfinished:
            data = b"".join((self._unfinished, data))
        *blocks, rest = data.split(b"\n\n")
        self._unfinished = bytearray(rest)
        return [event for event in map(_parse, blocks) if event is not None]

    def end(self) -> list[tuple[bytes, bytes]]:
        """Return the last event, if the server left out the empty line after it, and end the stream."""
        event = _parse(bytes(self._unfinished))
        self._unfinished.clear()
        return [] if event is None else [event]

    def _without_bom(self, data: bytes) -> bytes:
        self._start += data
        if len(self._start) < len(_BOM) and _BOM.startswith(self._start):
            return b""
        self._started = True
        data, self._start = self._start.removeprefix(_BOM), b""
        return data

    def _with_lf_only(self, data: bytes) -> bytes:
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes) -> tuple[bytes, bytes] | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        if line.startswith(b"data:"):
            data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line.startswith(b"event:"):
            name = line[6:].removeprefix(b" ")
        elif line == b"data":
            data.append(b"")
        elif line == b"event":
            name = b""
    if not data:
        return None
    return name, data[0] if len(data) == 1 else b"\n".join(data)
