"""Many sessions on one connection: what they share, and what a process does with all of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Agent, Shared, shared_by_agents
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings

#: Threads for blocking work: enough that one session cannot occupy them all.
THREADS = 128


class Common(Struct, frozen=True, kw_only=True):
    """What the sessions of a process have in common."""

    #: The options from the command line.
    base: AgentOptions
    home: Home
    #: The user's settings, without those of any project.
    settings: Settings
    shared: Shared


def common_parts(base: AgentOptions) -> Common:
    """Load what the sessions of a process have in common, and let them use enough threads."""
    from concurrent.futures import ThreadPoolExecutor

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="fairlead"))
    env = os.environ if base.env is None else base.env
    is_shared = base.confinement is not None and base.confinement.shares_home
    home = Home.find(env, isolated=base.isolated, peer=base.peer_home, is_shared=is_shared)
    settings, problems = load_settings(home, home.root)
    told: set[str] = set()

    def warn_once(warning: str) -> None:
        """Warn once: every session finds the same problems in what they share."""
        if base.warn is not None and warning not in told:
            told.add(warning)
            base.warn(warning)

    for problem in problems:
        warn_once(problem)
    own = replace(base.with_own_tools(), warn=warn_once)
    return Common(base=own, home=home, settings=settings, shared=shared_by_agents(base, home, settings))


class ServedSession(Protocol):
    """A session that a client has started."""

    @property
    def agent(self) -> Agent: ...

    def cancel(self) -> None:
        """Stop what is running, without waiting for it."""
        ...

    async def close(self) -> None: ...


S = TypeVar("S", bound=ServedSession)


class ManySessions(Generic[S]):
    """The sessions that clients have started, by id."""

    def __init__(self) -> None:
        self._running: dict[str, S] = {}

    @property
    def running(self) -> Sequence[S]:
        return list(self._running.values())

    @property
    def is_running(self) -> bool:
        """Whether a session has an active run."""
        return any(session.agent.session.activity.is_streaming for session in self.running)

    def find(self, session_id: str) -> S | None:
        return self._running.get(session_id)

    def when_written(self, action: Callable[[], object]) -> None:
        """Call `action` when everything so far is durable in all sessions: now, unless a store keeps one of them."""
        for session in self.running:
            action = partial(session.agent.session.history.when_written, action)
        action()

    def cancel(self, *, resumable: bool = False) -> None:
        for session in self.running:
            session.agent.session.activity.cancel(resumable=resumable)
            session.cancel()

    async def idle(self) -> None:
        for session in self.running:
            await session.agent.session.activity.idle()

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self.running), return_exceptions=True)

    def warm_up(self) -> None:
        for session in self.running[:1]:
            session.agent.warm_up()

    def leave_nothing_behind(self) -> None:
        for session in self.running:
            session.agent.leave_nothing_behind()
