"""The sessions that a front end has open: each is opened once, shared by all who ask for it, and closed in one place.

Another process may have the session that is asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Generic, Protocol, TypeVar

from fairlead.agent import Agent
from fairlead.agent.options import ASK, TASK, TODO_WRITE
from fairlead.errors import SessionInUse


class OpenSession(Protocol):
    """A session that is open."""

    @property
    def agent(self) -> Agent: ...

    def cancel(self) -> None:
        """Stop what is running, without waiting for it."""
        ...

    async def close(self) -> None:
        """Stop everything, save, and let other processes have the session."""
        ...


K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=OpenSession)


class OpenSessions(Generic[K, S]):
    """The open sessions of a front end, by key. The one that was not used for longest comes first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[K, S] = OrderedDict()
        self._keys: dict[S, K] = {}
        self._opening: dict[K, asyncio.Task[S]] = {}
        #: The sessions that are being closed.
        self._closing: dict[S, tuple[K, asyncio.Task[None]]] = {}

    # Looking

    def all(self) -> list[S]:
        return list(self._sessions.values())

    def find(self, key: K) -> S | None:
        return self._sessions.get(key)

    async def get_when_settled(self, key: K) -> S | None:
        """Return an open session, after those under its key that are being closed."""
        closing = [task for closed, task in self._closing.values() if closed == key]
        if closing:
            await asyncio.wait(closing)
        return self._sessions.get(key)

    @property
    def is_running(self) -> bool:
        """Whether a session has an active run."""
        return any(session.agent.session.activity.is_streaming for session in self.all())

    # Opening

    async def open_once(self, key: K, make: Callable[[], Coroutine[Any, Any, S]]) -> S:
        """Open a session, unless that is going on. Who asks meanwhile gets the same one, also if the first has left."""
        if key not in self._opening:
            task = self._opening[key] = asyncio.create_task(make(), name="fairlead-open")
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(self._opening[key])

    def add(self, key: K, session: S) -> None:
        self._sessions[key] = session
        self._keys[session] = key

    def mark_used(self, session: S) -> None:
        """Note that a session was used just now."""
        key = self._keys.get(session)
        if key is not None:
            self._sessions.move_to_end(key)

    def rename(self, session: S, key: K) -> None:
        """Find a session under another key."""
        before = self._keys.pop(session, None)
        if before is not None:
            self._sessions.pop(before, None)
            self.add(key, session)

    # Running

    def call_when_written(self, action: Callable[[], object]) -> None:
        """Call `action` when everything so far is durable in all sessions: now, unless a store keeps one of them."""
        for session in self.all():
            action = partial(session.agent.session.history.call_when_written, action)
        action()

    def cancel(self, *, resumable: bool = False) -> None:
        for session in self.all():
            session.agent.session.activity.cancel(resumable=resumable)
            session.cancel()

    async def idle(self) -> None:
        for session in self.all():
            await session.agent.session.activity.idle()

    def warm_up(self) -> None:
        for session in self.all()[:1]:
            session.agent.warm_up()

    # Closing

    async def end(self, session: S, close: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Close a session, or have `close` do so. It is closed even if the caller is cancelled meanwhile."""
        key = self._keys.pop(session, None)
        if key is None:
            return
        self._sessions.pop(key, None)
        task = asyncio.create_task((close or session.close)(), name="fairlead-close")
        self._closing[session] = key, task
        task.add_done_callback(lambda _: self._closing.pop(session, None))
        await asyncio.shield(task)

    async def close(self, patience: float | None = None) -> None:
        """Close all sessions. After some seconds, the rest is left as it is; None: without a limit."""
        ending = [asyncio.create_task(self.end(session)) for session in self.all()]
        waiting = [*ending, *(task for _, task in self._closing.values())]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=patience)
            for task in late:
                task.cancel()
            for task in ending:
                if task.done() and not task.cancelled():
                    task.exception()  # each session has reported what is wrong

    def kill_children(self) -> None:
        """End the processes of all sessions, because this process ends."""
        for session in (*self._sessions.values(), *self._closing):
            session.agent.kill_children()


T = TypeVar("T")

#: Seconds between two attempts to take a session that another process has.
TAKE_INTERVAL = 0.2


@cache
def with_more_tools(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the tools of a session whose user can be asked and sees todos. All sessions share them."""
    return tuple(dict.fromkeys([*tools, ASK, TODO_WRITE, TASK]))


@asynccontextmanager
async def opening(agent: Agent, patience: float = 0.0) -> AsyncGenerator[None]:
    """Open the session of an agent. If that or the block fails, others can have the session, and no process is left behind.

    Another process that has the session gets some seconds to hand it back. Raises SessionInUse, which names that process, and
    SessionError.
    """
    try:
        await retry_while_leased(agent.open, patience)
        yield
    except BaseException:
        agent.session.history.conversation.close()
        agent.kill_children()
        raise


async def retry_while_leased(call: Callable[[], Awaitable[T]], patience: float, interval: float = TAKE_INTERVAL) -> T:
    """Call a function that takes a session, again and again while another process has it. Raises SessionInUse in the end."""
    end = time.monotonic() + patience
    while True:
        try:
            return await call()
        except SessionInUse:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(interval)
