"""The head of a response: where it ends and what it says."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.secrets import redacted
from fairlead.errors import ProviderError
from fairlead.models.http.connection import ConnectionLost

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

    def explained(self, sender: str) -> ProviderError:
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
    import h11

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
