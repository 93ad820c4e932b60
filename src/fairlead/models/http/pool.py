"""Connections that agents share without being told to.

Connections belong to an event loop, so loops never share them. Within a loop, all agents that trust the same certificates use the
same pool. That is safe between agents with different keys: a key is a header of each request, and a proxy with its user is part
of the route that a connection is kept for. What is kept here is only found through its users, and goes with the last of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakSet, WeakValueDictionary

from fairlead.models.http.exchange import HttpRoute
from fairlead.models.http.http_connection import HttpConnection, TlsContext


class ConnectionPool:
    """The idle connections of one event loop, by route."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.kept: dict[HttpRoute, list[HttpConnection]] = {}
        #: Tasks that read the rest of a response, so that its connection can be kept.
        self.lingering: set[asyncio.Task[None]] = set()
        self.users: WeakSet[object] = WeakSet()

    async def leave(self, user: object) -> None:
        """Remove a user. The last one closes all connections, and waits until they are closed unless another loop has them."""
        self.users.discard(user)
        if self.users:
            return
        if self.loop is not asyncio.get_running_loop():
            self._abort_from_outside()
            return
        closing = self._abort()
        await asyncio.gather(*self.lingering, *(connection.closed for connection in closing), return_exceptions=True)

    def desert(self, user: object) -> None:
        """Remove a user that continues on another loop."""
        self.users.discard(user)
        if not self.users:
            self._abort_from_outside()

    def _abort_from_outside(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nothing can be done for its connections
            self.loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> list[HttpConnection]:
        for task in self.lingering:
            task.cancel()
        connections = [connection for kept in self.kept.values() for connection in kept]
        self.kept.clear()
        for connection in connections:
            connection.abort()
        return connections


_lock = threading.Lock()
#: A pool keeps its loop alive, so that no other loop gets the same id while the pool exists.
_pools: WeakValueDictionary[tuple[int, int], ConnectionPool] = WeakValueDictionary()
_contexts: WeakValueDictionary[tuple[str | None, str | None], TlsContext] = WeakValueDictionary()


def get_shared_tls(env: Mapping[str, str]) -> TlsContext:
    """Return the TLS context for the certificates that SSL_CERT_FILE and SSL_CERT_DIR name. Loops and threads may share it."""
    key = (env.get("SSL_CERT_FILE") or None, env.get("SSL_CERT_DIR") or None)
    with _lock:
        found = _contexts.get(key)
        if found is None:
            found = _contexts[key] = TlsContext(*key)
        return found


def join_pool(user: object, tls: TlsContext) -> ConnectionPool:
    """Return the pool of the running event loop for connections with this TLS context, and count `user` among its users.

    The caller keeps both alive.
    """
    loop = asyncio.get_running_loop()
    key = (id(loop), id(tls))
    with _lock:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = ConnectionPool(loop)
    pool.users.add(user)
    return pool
