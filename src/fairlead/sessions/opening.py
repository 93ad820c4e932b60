"""Opens the sessions of agents, which another process may have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import TypeVar

from fairlead.agent import Agent
from fairlead.agent.options import ASK, TASK, TODO_WRITE
from fairlead.errors import SessionInUse

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
        await when_free(agent.open, patience)
        yield
    except BaseException:
        agent.session.history.conversation.close()
        agent.leave_nothing_behind()
        raise


async def when_free(call: Callable[[], Awaitable[T]], patience: float, interval: float = TAKE_INTERVAL) -> T:
    """Call a function that takes a session, again and again while another process has it. Raises SessionInUse in the end."""
    end = time.monotonic() + patience
    while True:
        try:
            return await call()
        except SessionInUse:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(interval)
