"""The sessions that are open: how they are made, how many there may be, and which of them are closed because they are idle.

A session in a file is evicted: it comes back when it is used. A session of a fleet is handed back, so that another server may
take it. Clients that listen to it stay, and watch it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.core.model import Model, ThinkingLevel
from fairlead.protocol.http import http_objects as o
from fairlead.protocol.http.http_events import BranchChanged, PromptResult
from fairlead.serve.refusals import Refusal
from fairlead.serve.sessions.feed import RingBounds
from fairlead.serve.sessions.live_session import HubSession
from fairlead.serve.sessions.spaces import Space
from fairlead.serve.sessions.submissions import Requests, noted_approval
from fairlead.serve.sessions.watched import Key
from fairlead.serve.sessions.watching import WatchedSessions
from fairlead.sessions.catalogue import Opener
from fairlead.sessions.open_sessions import OpenSessions, with_more_tools


class Parked(Struct, frozen=True, kw_only=True):
    """What an evicted session has that is not in its file."""

    cwd: Path
    name: str | None
    approval: o.Approval
    model: Model | None
    thinking: ThinkingLevel
    requests: Requests
    results: list[PromptResult]
    #: Whether there is a file. Otherwise it is empty, and begins again under its id.
    is_saved: bool


def make_agent(space: Space, cwd: Path, conversation: Opener, options: Mapping[str, object]) -> Agent:
    """Return the agent of a session. Raises FairleadError."""
    base, registry = space.session_options, space.common.shared.registry
    if not registry.has_usable():
        registry.keys_changed()  # the user may have logged in meanwhile
    tools = with_more_tools(tuple(base.behaviour.default_tools))
    behaviour = replace(base.behaviour, conversation=conversation, default_tools=tools)
    return Agent(replace(base, cwd=cwd, behaviour=behaviour, **options), shared=space.common.shared)


def restore_approval(agent: Agent) -> None:
    """Give a session in a store the approval mode that it notes."""
    if agent.session.history.conversation.is_shared:
        approvals = agent.session.approvals
        approvals.set_mode(noted_approval(agent.session.history.log, approvals.mode))


def restore(agent: Agent, parked: Parked) -> None:
    """Give a session what it had before it was evicted."""
    agent.session.approvals.set_mode(parked.approval)
    if not parked.is_saved and parked.model is not None:
        agent.session.models.set_model(parked.model.provider, parked.model.id)
        agent.session.models.set_thinking(parked.thinking)


#: How many evicted sessions are remembered. Of the others, only what their files hold is kept.
MOST_PARKED = 10_000
#: How many ids of requests an evicted session keeps.
PARKED_REQUESTS = 32
#: The part of the idle time after which a session without clients drops its ring.
RING_PART = 0.05


class HubLimits(Struct, frozen=True, kw_only=True):
    """What the hub allows."""

    #: Open sessions of all users.
    sessions: int = 1000
    #: Messages that wait in one session.
    queued: int = 100
    #: Seconds after which a session that no client uses is evicted.
    idle_seconds: float = 1800
    #: Seconds after which an idle session of a fleet is handed back, even if clients listen to it.
    hold_seconds: float = 3
    #: Seconds that a request waits for a session of a fleet that another process holds.
    take_seconds: float = 5
    #: Seconds that closing all sessions may take at the end.
    shutdown_seconds: float = 10
    ring: RingBounds = RingBounds()


class HubSessions(OpenSessions[Key, HubSession]):
    """The open sessions of all users. Those that are handed back are in `watched` as long as clients listen to them."""

    def __init__(self, limits: HubLimits, watched: WatchedSessions) -> None:
        super().__init__()
        #: How many sessions were evicted or handed back since the start.
        self.evicted = 0
        #: What evicted sessions have that is not in their files.
        self.parked: dict[Key, Parked] = {}
        self._limits = limits
        self._watched = watched
        #: How many sessions are being opened.
        self._starting = 0
        #: How many listeners were dropped from sessions that are closed.
        self._dropped_before = 0

    # Looking

    def of(self, user: str) -> list[HubSession]:
        return [session for (owner, _), session in self._sessions.items() if owner == user]

    async def get_when_settled(self, key: Key) -> HubSession | None:
        """Return an open session. One that is being closed is closed first, and one that was lost is handed back."""
        session = self.find(key)
        if session is not None and session.is_lost:
            await self._hand_back(session)
        return await super().get_when_settled(key)

    @property
    def dropped_listeners(self) -> int:
        """How many listeners were dropped since the start because they were too slow."""
        return self._dropped_before + sum(session.feed.dropped for session in self._sessions.values())

    # Opening

    @asynccontextmanager
    async def room(self) -> AsyncGenerator[None]:
        """Reserve room for one more session. If there is none, evict the session that was idle for longest.

        Raises Refusal if none is idle.
        """
        self._starting += 1
        try:
            while len(self._sessions) + len(self._closing) + self._starting > self._limits.sessions:
                idle = next((each for each in self._sessions.values() if _may_evict(each)), None)
                if idle is None:
                    raise Refusal(503, "too_many_sessions", f"{self._limits.sessions} sessions are in use.", retry_after=30)
                await self._evict(idle)
            yield
        finally:
            self._starting -= 1

    def add(self, key: Key, session: HubSession) -> None:
        self.parked.pop(key, None)
        self._watched.stop_watching(key)
        super().add(key, session)

    def note_move(self, session: HubSession) -> None:
        """Find a session under the id of the conversation that it has moved to."""
        key = self._keys.get(session)
        if key is not None:
            self.rename(session, (key[0], session.id))

    # Closing

    async def end(self, session: HubSession, close: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        if session in self._keys:
            self._dropped_before += session.feed.dropped
        await super().end(session, close)

    async def close_all(self) -> None:
        """Abort all work, save and close all sessions. Takes at most `shutdown_seconds`."""
        self.cancel(resumable=True)
        await self.close(self._limits.shutdown_seconds)
        self.kill_children()

    async def evict_idle(self) -> None:
        """Evict the sessions that were idle for too long, and drop the rings of those that no client listens to."""
        now = time.monotonic()
        for session in self.all():
            if session not in self._keys:
                continue  # it was closed meanwhile
            idle = now - session.last_used
            if session.is_stored:
                if session.is_lost or (session.is_quiet and idle > self._limits.hold_seconds):
                    await self._hand_back(session)
            elif idle > self._limits.idle_seconds and _may_evict(session):
                await self._evict(session)
            elif idle > self._limits.idle_seconds * RING_PART and session.is_idle:
                session.feed.clear()

    async def _evict(self, session: HubSession) -> None:
        key, own = self._keys[session], session.session
        if session.is_stored:
            await self._hand_back(session)
            return
        session.submissions.forget(PARKED_REQUESTS)
        self.parked[key] = Parked(
            cwd=own.host.workspace.cwd,
            name=own.history.name,
            approval=own.approvals.mode,
            model=own.model,
            thinking=own.thinking,
            requests=session.submissions.known,
            results=session.results,
            is_saved=own.history.conversation.is_saved,
        )
        while len(self.parked) > MOST_PARKED:
            self.parked.pop(next(iter(self.parked)))
        self.evicted += 1
        await self.end(session)

    async def _hand_back(self, session: HubSession) -> None:
        """Let other processes have a session of a fleet. Clients that listen to it stay, and watch it."""
        key, conversation = self._keys[session], session.session.history.conversation
        if session.feed.listeners:
            self._watched.add(key, session.feed, None if session.is_lost else conversation.last_number)
        self.evicted += 1
        await self.end(session, partial(session.close, ends_feed=not session.feed.listeners))
        if session.is_lost:  # clients may have seen what its next owner does not know
            session.feed.publish(msgspec.json.encode(BranchChanged(leaf_id=None)))


def _may_evict(session: HubSession) -> bool:
    """Whether a session is idle, and can come back: it is empty, or all of it is in its file."""
    conversation = session.session.history.conversation
    return session.is_idle and (conversation.flush() if conversation.is_saved else not conversation.count)
