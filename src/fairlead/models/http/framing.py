"""Reads HTTP responses: the head, and where the body ends: by length, by chunks, or when the connection closes.

h11 parses the head of a response, but not the body. Providers send one HTTP chunk per event, and h11 spends 6 µs on each, twice
as long as everything else up to the message. `ChunkedBody` spends 0.7 µs and is as strict."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from fairlead.core.secrets import redacted
from fairlead.errors import ProviderError
from fairlead.models.http.http_connection import ConnectionLost

if TYPE_CHECKING:
    import h11


#: The most bytes of a response's head.
LONGEST_HEAD = 65536
#: The most interim responses (1xx) before the final one.
_MOST_INTERIM = 100
#: Compiled when it is first used: a process answers its first command before that.
_SWITCH = rb"HTTP/1\.\d 101\b"
#: What the name of a header consists of, and what its value and a reason may consist of.
IN_NAMES = b"-!#$%&'*+.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
IN_VALUES = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))


class Head(Struct, frozen=True):
    """The head of a response. Its fields have the names that h11 uses."""

    status_code: int
    #: Names in lower case.
    headers: list[tuple[bytes, bytes]]
    http_version: bytes = b"1.1"


class NotHttp(Exception):
    """What arrived is not the head of an HTTP response.

    `received` is what arrived. `problem` says what is wrong with it; None if it just ends.
    """

    def __init__(self, received: bytes, problem: str | None = None) -> None:
        super().__init__(received, problem)
        self.received = received
        self.problem = problem

    def explain(self, sender: str) -> ProviderError:
        """Turn it into an error for the user. `sender` names who sent it."""
        if not self.received.startswith(b"HTTP/1"):
            shown = redacted(self.received[:4096].decode("utf-8", "replace"))[:80]
            return ProviderError(f"{sender} did not answer in HTTP. Its answer begins: {shown!r}")
        if self.problem is not None:
            return ProviderError(f"{sender} gave an answer whose head breaks the rules of HTTP: {self.problem}.")
        return ProviderError(f"Connection error: {sender} closed the connection in the head of its answer.", transient=True)


def plain_head(head: bytes) -> Head | None:
    """Parse the head of an ordinary response; None if h11 has to parse it.

    Nearly all responses are ordinary, and loading h11 takes longer than asking a model on the same machine.
    """
    # Not with a pattern: compiling one takes longer than this, and the first prompt would wait for it.
    first, *lines = head.split(b"\r\n")
    status, space = first[9:12], first[12:13]
    if not first.startswith(b"HTTP/1.1 ") or len(status) != 3 or not status.isdigit() or status[0] not in b"2345":
        return None
    if space not in (b"", b" ") or first.translate(None, IN_VALUES) or lines[-2:] != [b"", b""]:
        return None
    headers: list[tuple[bytes, bytes]] = []
    for line in lines[:-2]:
        name, colon, value = line.partition(b":")
        if not name or not colon or name.translate(None, IN_NAMES) or value.translate(None, IN_VALUES):
            return None
        headers.append((name.lower(), value.strip()))
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1 or not all(map(bytes.isdigit, lengths)) or any(c != b"chunked" for c in codings):
        return None
    return Head(int(status), headers)


def head_end(received: bytes) -> int:
    """Return where the head ends, after its empty line; 0 if that has not arrived. Some servers end lines with LF alone."""
    ends = [at + len(each) for each in (b"\n\r\n", b"\n\n") if (at := received.find(each)) >= 0]
    return min(ends, default=0)


async def receive_head(
    wire: h11.Connection, read: Callable[[], Awaitable[bytes]], received: bytes = b""
) -> tuple[h11.Response, bytes]:
    """Read the head of a response with h11, which gets the head only; `framing` says why.

    Args:
        wire: the h11 connection that the request was sent through.
        read: reads more bytes.
        received: what has been read already.

    Returns:
        The head, and what arrived after it.

    Raises:
        NotHttp: what arrived is not the head of a response.
    """
    import h11  # noqa: PLC0415  takes 5 ms

    interim = 0
    while True:
        end = head_end(received)
        if not end:
            try:
                more = await read()
            except ConnectionLost:
                more = b""
            # Checked before it is added, since a first read may bring the head and much of the body.
            if len(received) > LONGEST_HEAD:
                raise NotHttp(received, f"it is longer than {LONGEST_HEAD >> 10} KiB")
            if not more:
                raise NotHttp(received)
            received += more
            continue
        try:
            wire.receive_data(received[:end])
            answer = wire.next_event()
        except h11.RemoteProtocolError as error:
            problem = (
                "101, a change of protocol that was not requested" if re.match(_SWITCH, received) else redacted(str(error))[:200]
            )
            raise NotHttp(received, problem) from None
        received = received[end:]
        # Anything else is an interim response (1xx), which the final one follows.
        if isinstance(answer, h11.Response):
            return answer, received
        interim += 1
        if interim > _MOST_INTERIM:
            raise NotHttp(b"HTTP/1", f"more than {_MOST_INTERIM} interim responses (1xx) came before it")


#: A size, and extensions, which are ignored. 15 digits keep sizes small enough to calculate with.
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_UNFINISHED_SIZE_LINE = rb"(?:[0-9A-Fa-f]{1,15}[ \t]*(?:;[^\r\n]*)?\r?)?\Z"
_MOST_DIGITS, _HEX_DIGITS = 15, b"0123456789abcdefABCDEF"
_LONGEST_LINE = 4096
_LONGEST_TRAILERS = 65536


class MalformedBody(Exception):
    """The body breaks the rules of HTTP."""


class Body(Protocol):
    """Turns the bytes of the network into the payload."""

    #: Whether the body is complete.
    complete: bool
    #: Whether bytes came after its end. The connection cannot serve another request then.
    surplus: bool

    def feed(self, data: bytes) -> bytes:
        """Return the payload in `data`. Raises MalformedBody."""
        ...

    def end(self) -> None:
        """Note that the server closed the connection. `complete` then says whether the body may end here."""
        ...


class FixedBody:
    """A body with a known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.complete = length == 0
        self.surplus = False

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.surplus = True
            data = data[: self._left]
        self._left -= len(data)
        self.complete = self._left == 0
        return data

    def end(self) -> None:
        pass


class BodyUntilClose:
    """A body that ends with its connection."""

    complete = False
    surplus = False

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> None:
        self.complete = True


class ChunkedBody:
    """A body in chunks of the form `size CRLF data CRLF`. The last has size 0; trailers follow, up to an empty line."""

    def __init__(self) -> None:
        self.complete = False
        self.surplus = False
        #: Bytes still missing from the current chunk, with its closing CRLF.
        self._left = 0
        #: Part of a size line or of a trailer, until the rest arrives.
        self._tail = b""
        self._in_trailers = False
        self._trailer_bytes = 0

    def end(self) -> None:
        pass

    def feed(self, data: bytes) -> bytes:
        """Return the payload in `data`. Raises MalformedBody."""
        if self._tail:
            data = self._tail + data
            self._tail = b""
        pieces: list[bytes] = []
        position = self._rest_of_chunk(data, pieces) if self._left else 0
        while not self._in_trailers and not self._left and position < len(data):
            end = data.find(b"\r\n", position, position + _MOST_DIGITS + 2)
            digits = data[position:end] if end > position else b""
            if digits and not digits.strip(_HEX_DIGITS):
                size, start = int(digits, 16), end + 2
            else:  # a size with extensions, or an unfinished one
                line = _SIZE_LINE.match(data, position)
                if line is None or line.end() - position > _LONGEST_LINE:
                    self._keep_unfinished(data, position)
                    break
                size, start = int(line[1], 16), line.end()
            stop = start + size
            if not size:
                self._in_trailers = True
                position = start
            elif data[stop : stop + 2] == b"\r\n":
                pieces.append(data[start:stop])
                position = stop + 2
            else:
                self._left = size + 2
                position = start + self._rest_of_chunk(data[start:], pieces)
        if self._in_trailers:
            self._read_trailers(data, position)
        return b"".join(pieces)

    def _rest_of_chunk(self, data: bytes, pieces: list[bytes]) -> int:
        """Take what `data` has of the current chunk. Returns how many bytes that was."""
        payload_left = self._left - 2
        if payload_left > 0:
            pieces.append(data[:payload_left])
        taken = min(self._left, len(data))
        closing = data[max(payload_left, 0) : taken]
        if closing != b"\r\n"[max(-payload_left, 0) :][: len(closing)]:
            raise MalformedBody("a chunk is longer than its announced size")
        self._left -= taken
        return taken

    def _keep_unfinished(self, data: bytes, position: int) -> None:
        tail = data[position:]
        if len(tail) > _LONGEST_LINE or re.match(_UNFINISHED_SIZE_LINE, tail) is None:
            raise MalformedBody(f"expected the size of a chunk, found {redacted(tail.decode('latin1'))[:40]!r}")
        self._tail = tail

    def _read_trailers(self, data: bytes, position: int) -> None:
        if self.complete:
            self.surplus = self.surplus or position < len(data)
            return
        while (end := data.find(b"\n", position)) >= 0:
            line = data[position:end].removesuffix(b"\r")
            self._trailer_bytes += len(line)
            position = end + 1
            if self._trailer_bytes > _LONGEST_TRAILERS:
                break
            if not line:
                self.complete = True
                self.surplus = position < len(data)
                return
        self._tail = data[position:]
        if self._trailer_bytes + len(self._tail) > _LONGEST_TRAILERS:
            raise MalformedBody("the trailers after the last chunk do not end")


#: No provider sends such long events. Without a limit, a server that never ends a line would fill the memory.
LONGEST_EVENT = 64 * 1024 * 1024

#: The most lines of one event. Its data is one line, or a few.
MOST_LINES = 65536

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
        #: How many events there were so far, with those that have no data, such as comments.
        self.found = 0

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events that `data` completes, as pairs of name (b"" if absent) and data.

        Raises ProviderError if an event is too long.
        """
        if not self._started:
            data = self._without_bom(data)
        # Not with `in`: for bytes it first tries to read them as a number, and makes an error of that.
        if self._after_cr or data.find(b"\r") >= 0:
            data = self._with_lf_only(data)
        if not data:
            return []
        complete = data.find(b"\n\n") >= 0 or (self._ends_line and data.startswith(b"\n"))
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
        self.found += len(blocks)
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
    first, _, rest = block.partition(b"\n")
    if first.startswith(b"event: ") and rest.startswith(b"data: ") and rest.find(b"\n") < 0:
        return first[7:], rest[6:]  # as nearly all events are
    if block.count(b"\n") > MOST_LINES:
        raise ProviderError(f"The provider sent an event of more than {MOST_LINES:,} lines; the answer was cut off.")
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
