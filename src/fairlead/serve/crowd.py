"""Room for connections: those without a login never take that of those with one.

A connection is anonymous until a request on it has shown a right token or cookie. Anonymous connections are limited as a class
and by address. If one too many comes, the one that has waited longest goes: first one whose head has not arrived, of the address
that has the most. So a new connection always gets the moment that it needs to log in.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from typing import Any

import uvicorn

#: Anonymous connections besides half as many as there may be with a login.
MORE_CONNECTIONS = 100
#: The fewest that one address may have.
FEWEST_OF_ONE = 2


class Crowd:
    """Counts the connections of a server. `most` may have a login, and `anonymous` may have none."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.anonymous = anonymous_beside(most)
        #: The anonymous connections of each address: the one that goes first comes first.
        self._waiting: dict[str, OrderedDict[asyncio.BaseTransport, None]] = {}
        self._group_of: dict[asyncio.BaseTransport, str] = {}
        self._known: set[asyncio.BaseTransport] = set()

    @property
    def is_full(self) -> bool:
        """Whether as many connections have a login as may have one."""
        return len(self._known) >= self.most

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Whether a connection may log in, or has done so."""
        return transport in self._known or not self.is_full

    def opened(self, transport: asyncio.Transport, address: str) -> None:
        """Count a new connection, and close another one if it is one too many."""
        group = group_of(address)
        waiting = self._waiting.setdefault(group, OrderedDict())
        waiting[transport] = None
        self._group_of[transport] = group
        if len(waiting) > max(FEWEST_OF_ONE, self.anonymous // 2):
            self._drop(group)
        elif len(self._group_of) > self.anonymous:
            self._drop(max(self._waiting, key=lambda each: len(self._waiting[each])))

    def asked(self, transport: asyncio.BaseTransport) -> None:
        """Note that the head of a request has arrived: those without one go first."""
        group = self._group_of.get(transport)
        if group is not None:
            self._waiting[group].move_to_end(transport)

    def logged_in(self, transport: asyncio.BaseTransport) -> None:
        """Note that a request has shown a right token or cookie."""
        if transport in self._group_of:
            self._forget(transport)
            self._known.add(transport)

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection."""
        self._forget(transport)
        self._known.discard(transport)

    def _drop(self, group: str) -> None:
        oldest: Any = next(iter(self._waiting[group]))
        self._forget(oldest)
        oldest.abort()

    def _forget(self, transport: asyncio.BaseTransport) -> None:
        group = self._group_of.pop(transport, None)
        if group is not None:
            del self._waiting[group][transport]
            if not self._waiting[group]:
                del self._waiting[group]


class ServerConfig(uvicorn.Config):
    """The configuration of uvicorn, with the connections of the server."""

    crowd: Crowd


def anonymous_beside(most: int) -> int:
    """Return how many connections without a login there may be, besides those with one."""
    return most // 2 + MORE_CONNECTIONS


def group_of(address: str) -> str:
    """Return what counts as one client: an address of IPv4, a network of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
