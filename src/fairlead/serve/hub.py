"""The sessions of all clients: opened on demand, shared by any number of clients, and saved and closed when idle.

Sessions of a fleet belong to no server. This one takes the lease of a session when a client acts in it, and hands it back as soon
as nothing happens there: see `hold_seconds`. A session that it does not hold is a `WatchedSession`. Both use the same feed, so
that clients notice nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.model import Model
from fairlead.errors import EntryNotFound
from fairlead.protocol.http import objects as o
from fairlead.protocol.http.events import BranchChanged
from fairlead.serve.feed import Feed, RingBounds
from fairlead.serve.opening import Parked, make_agent, new_conversation, open_session, restore, restore_approval
from fairlead.serve.refusals import Refusal, bad_request, no_session, outside_root, stopping
from fairlead.serve.session import HubSession
from fairlead.serve.spaces import Space
from fairlead.serve.watched import Key, WatchedSession, WatchedSessions, run_by_workers
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore

_log = logging.getLogger("fairlead.serve")

#: How many evicted sessions the hub remembers. Of the others, only what their files hold is kept.
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


class Hub:
    """The open sessions of all users. A user reaches only those of their own space."""

    def __init__(self, spaces: Mapping[str, Space], limits: HubLimits | None = None) -> None:
        self.limits = limits or HubLimits()
        self.spaces = spaces
        self.is_stopping = False
        #: How many sessions were opened and evicted since the start.
        self.opened = self.evicted = 0
        #: How many hosts on WebSockets, each with sessions outside the hub, have left.
        self.hosts_closed = 0
        #: How many listeners were dropped from sessions that are closed.
        self._dropped_before = 0
        #: The session that was not used for longest comes first.
        self._sessions: OrderedDict[Key, HubSession] = OrderedDict()
        self._keys: dict[HubSession, Key] = {}
        self._opening: dict[Key, asyncio.Task[HubSession]] = {}
        self._closing: dict[Key, asyncio.Task[None]] = {}
        self._parked: dict[Key, Parked] = {}
        #: The sessions of a fleet that clients read and this server does not hold.
        self.watched = WatchedSessions(spaces, self.limits.ring)
        #: How many sessions are being opened.
        self._starting = 0

    # Looking

    @property
    def sessions(self) -> list[HubSession]:
        return list(self._sessions.values())

    def sessions_of(self, user: str) -> list[HubSession]:
        return [session for (owner, _), session in self._sessions.items() if owner == user]

    @property
    def dropped_listeners(self) -> int:
        """How many listeners were dropped since the start because they were too slow."""
        return self._dropped_before + sum(session.feed.dropped for session in self.sessions)

    def models(self, user: str) -> list[Model]:
        return self.spaces[user].common.shared.registry.available()

    async def list(self, user: str, cwd: str | None, cursor: str | None) -> o.SessionList:
        """Return a page of the sessions of a user. Raises Refusal and SessionError."""
        space = self.spaces[user]
        saved, next_cursor = await space.saved.page(cwd, cursor)
        found = [self._with_status(user, each) for each in saved if space.admits(Path(each.cwd))]
        if cursor is None:
            listed = {each.id for each in found}
            found[:0] = [
                o.SessionSummary(id=state.id, cwd=state.cwd, title=state.name, updated_at=None, status=state.status)
                for (owner, _), session in self._sessions.items()
                if owner == user and not session.session.history.conversation.is_saved and session.id not in listed
                for state in [session.state()]
                if cwd is None or state.cwd == cwd
            ]
        return o.SessionList(sessions=found, next_cursor=next_cursor)

    def _with_status(self, user: str, summary: o.SessionSummary) -> o.SessionSummary:
        session = self._sessions.get((user, summary.id))
        return summary if session is None else replace(summary, status=session.status, owner=None)

    # Opening

    @asynccontextmanager
    async def using(self, user: str, session_id: str) -> AsyncGenerator[HubSession]:
        """Open a session if it is not open, and keep it open meanwhile. Raises Refusal and FairleadError."""
        session = await self.open(user, session_id)
        session.uses += 1
        try:
            yield session
        finally:
            session.uses -= 1
            session.last_used = time.monotonic()
            key = self._keys.get(session)
            if key is not None:
                self._sessions.move_to_end(key)

    @asynccontextmanager
    async def reading(self, user: str, session_id: str) -> AsyncGenerator[HubSession | WatchedSession]:
        """Do the same for a request that changes nothing: a session of a fleet is not taken from its owner for it."""
        if self.spaces[user].fleet is None:
            async with self.using(user, session_id) as opened:
                yield opened
            return
        session = await self._found(user, session_id)
        session.uses += 1
        try:
            yield session
        finally:
            session.uses -= 1
            if isinstance(session, WatchedSession):
                session.last_used = time.monotonic()

    async def worked_on(self, user: str, session_id: str) -> WatchedSession | None:
        """Return a session if workers run its prompts; None if this server does. Raises Refusal and FairleadError."""
        if self.spaces[user].fleet is None:
            return None
        session = await self._found(user, session_id)
        return session if isinstance(session, WatchedSession) and session.has_jobs else None

    async def _found(self, user: str, session_id: str) -> HubSession | WatchedSession:
        """Return a session of a fleet as it is: held by this server, or up to date with what its owner has written."""
        key = user, session_id
        await self._give_up_if_lost(key)
        if key in self._closing:
            await asyncio.wait([self._closing[key]])
        if key in self._sessions:
            return self._sessions[key]
        self._refuse_if_stopping()
        watched = await self.watched.find(key)
        return self._sessions.get(key, watched)  # which it may have become meanwhile

    async def open(self, user: str, session_id: str) -> HubSession:
        """Return an open session, which was opened for this if need be. Raises Refusal and FairleadError."""
        key = user, session_id
        await self._give_up_if_lost(key)
        if key in self._closing:
            await asyncio.wait([self._closing[key]])
        if key in self._sessions:
            return self._sessions[key]
        self._refuse_if_stopping()  # a client that comes back now must not hear that the session does not exist
        if key not in self._opening:
            task = self._opening[key] = asyncio.create_task(self._reopen(key), name="fairlead-open")
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(self._opening[key])

    async def create(self, user: str, body: o.NewSession) -> HubSession:
        """Begin a session. Raises Refusal and FairleadError."""
        space = self.spaces[user]
        cwd = space.folder(body.cwd)
        if body.name is not None and not body.name.strip():
            raise bad_request("name: expected a name, found an empty string.")
        options: dict[str, object] = {"model": body.model, "thinking": body.thinking}
        given = {name: value for name, value in options.items() if value is not None}
        session = await self._start(user, cwd, new_conversation, given)
        session.set_approval(body.approval or session.session.approvals.mode, is_chosen=body.approval is not None)
        if body.name is not None:
            session.session.history.set_name(body.name, lasting=False)
        await session.session.history.written()
        return session

    async def fork(self, user: str, source: HubSession, body: o.Fork) -> o.Forked:
        """Begin a session with what another one has up to an entry. Raises EntryNotFound, Refusal and FairleadError."""
        history = source.session.history
        if not history.count:
            raise bad_request("This session has no messages yet.")
        text: str | None = None
        if body.position == "before":
            text = dict(history.log.user_messages()).get(body.entry_id or "")
            if text is None:
                raise EntryNotFound(f"Entry {body.entry_id} is not a message of the user.")
        elif body.entry_id is not None:
            history.log.get(body.entry_id)
        before, at = (body.entry_id, None) if body.position == "before" else (None, body.entry_id)
        forked = history.sessions.fork(history.conversation, before=before, at=at)
        cwd = source.session.host.workspace.cwd
        try:
            session = await self._start(user, cwd, lambda _: forked, {})
            session.set_approval(source.session.approvals.mode)
            await session.session.history.written()
        except BaseException:
            forked.close()
            raise
        return o.Forked(session=session.state(), text=text)

    async def _reopen(self, key: Key) -> HubSession:
        user, session_id = key
        space, parked = self.spaces[user], self._parked.get(key)
        if space.fleet is not None:
            return await self._take(key)
        if parked is not None and not parked.is_saved:
            cwd = space.folder(str(parked.cwd))
            session = await self._start(user, cwd, lambda store: store.new(id=session_id), {}, parked)
            if parked.name is not None:
                session.session.history.set_name(parked.name, lasting=False)
            return session
        path, cwd = await self.saved(user, session_id)
        return await self._start(user, cwd, lambda store: store.open(path), {}, parked)

    async def _take(self, key: Key) -> HubSession:
        """Take the lease of a session of a fleet. Raises Refusal, SessionInUse and FairleadError."""
        user, session_id = key
        found = await self._found(user, session_id)
        if isinstance(found, HubSession):
            return found
        if found.has_jobs:
            raise run_by_workers()
        if not await asyncio.to_thread(os.path.isdir, found.cwd):
            text = f"The session works in {found.cwd}, which does not exist on the machine of this server."
            raise Refusal(409, "no_directory", text)
        return await self._start(user, found.cwd, lambda store: store.stored(session_id), {})

    async def saved(self, user: str, session_id: str) -> tuple[Path, Path]:
        """Return the file of a session of a user, and its working directory. Raises Refusal."""
        space = self.spaces[user]
        if space.fleet is not None:
            raise bad_request("session: the sessions of a fleet are served over HTTP.")
        found = await space.files.find(session_id)
        if found is None:
            raise no_session(session_id)
        path, cwd = found
        if cwd is not None and not space.admits(cwd):
            raise outside_root()
        return path, space.folder(None) if cwd is None else cwd

    async def _start(
        self,
        user: str,
        cwd: Path,
        conversation: Callable[[ConversationStore], Conversation],
        options: Mapping[str, object],
        parked: Parked | None = None,
    ) -> HubSession:
        async with self._room():
            return await self._started(user, cwd, conversation, options, parked)

    async def _started(
        self,
        user: str,
        cwd: Path,
        conversation: Callable[[ConversationStore], Conversation],
        options: Mapping[str, object],
        parked: Parked | None,
    ) -> HubSession:
        space = self.spaces[user]
        agent = make_agent(space, cwd, conversation, options)
        try:
            await open_session(agent, self.limits.take_seconds)
            await space.prepare(agent)
            self._refuse_if_stopping()
            if parked is not None:
                restore(agent, parked)
            restore_approval(agent)
            feed = await self._feed_of((user, agent.session.history.id))
            session = HubSession(agent, feed, queue_limit=self.limits.queued, on_replaced=lambda each: self._rename(each))
        except BaseException:
            agent.session.history.conversation.close()
            agent.leave_nothing_behind()
            raise
        if parked is not None:
            session.submissions.known = parked.requests
        key = user, session.id
        self._parked.pop(key, None)
        self.watched.taken(key)
        self._sessions[key] = session
        self._keys[session] = key
        self.opened += 1
        return session

    async def _feed_of(self, key: Key) -> Feed:
        """Return the feed of a session that is being opened. Clients that watch it stay."""
        watched = self.watched.get(key)
        if watched is None:
            return Feed(self.limits.ring)
        await watched.refresh()  # nothing follows any more: the lease is ours
        return watched.feed

    def _refuse_if_stopping(self) -> None:
        if self.is_stopping:
            raise stopping()

    def _rename(self, session: HubSession) -> None:
        """Find a session under the id of the conversation that it has moved to."""
        key = self._keys.pop(session, None)
        if key is not None:
            self._sessions.pop(key, None)
            self._keys[session] = key[0], session.id
            self._sessions[key[0], session.id] = session

    # Closing

    async def delete(self, user: str, session_id: str) -> None:
        """Close a session and delete its file. Raises Refusal and SessionError."""

        key = user, session_id
        if key in self._closing:
            await asyncio.wait([self._closing[key]])
        space, session = self.spaces[user], self._sessions.get(key)
        was_known = session is not None or self._parked.pop(key, None) is not None
        if session is not None:
            await self._close(session)
        if space.fleet is not None:
            was_known = False
            if (await self.watched.find(key)).has_open_jobs:
                raise Refusal(409, "busy", "Jobs of this session have not ended. Abort them first.")
            self.watched.forget(key)
        else:
            found = await space.files.find(session_id)
            if found is not None and found[1] is not None and not space.admits(found[1]):
                raise no_session(session_id)
        if not await space.saved.delete(session_id) and not was_known:
            raise no_session(session_id)

    async def _close(self, session: HubSession, *, ends_feed: bool = True) -> None:
        key = self._keys.pop(session, None)
        if key is None:
            return
        self._sessions.pop(key, None)
        self._dropped_before += session.feed.dropped
        task = self._closing[key] = asyncio.create_task(session.close(ends_feed=ends_feed), name="fairlead-close")
        task.add_done_callback(lambda _: self._closing.pop(key, None))
        await asyncio.shield(task)

    @asynccontextmanager
    async def _room(self) -> AsyncGenerator[None]:
        """Reserve room for one more session. If there is none, evict the session that was idle for longest.

        Raises Refusal if none is idle, or if the server is shutting down.
        """
        self._refuse_if_stopping()
        self._starting += 1
        try:
            while len(self._sessions) + len(self._closing) + self._starting > self.limits.sessions:
                idle = next((each for each in self._sessions.values() if self._may_evict(each)), None)
                if idle is None:
                    raise Refusal(503, "too_many_sessions", f"{self.limits.sessions} sessions are in use.", retry_after=30)
                await self._evict(idle)
            yield
        finally:
            self._starting -= 1

    def _may_evict(self, session: HubSession) -> bool:
        """Whether a session is idle, and can come back: it is empty, or all of it is in its file."""
        conversation = session.session.history.conversation
        return session.is_idle and (conversation.flush() if conversation.is_saved else not conversation.count)

    async def evict_idle(self) -> None:
        """Evict the sessions that were idle for too long, and drop the rings of those that no client listens to."""
        now = time.monotonic()
        for session in self.sessions:
            if session not in self._keys:
                continue  # it was closed meanwhile
            idle = now - session.last_used
            if session.is_stored:
                if session.is_lost or (session.is_quiet and idle > self.limits.hold_seconds):
                    await self._hand_back(session)
            elif idle > self.limits.idle_seconds and self._may_evict(session):
                await self._evict(session)
            elif idle > self.limits.idle_seconds * RING_PART and session.is_idle:
                session.feed.clear()

    async def _evict(self, session: HubSession) -> None:
        key, own = self._keys[session], session.session
        if session.is_stored:
            await self._hand_back(session)
            return
        session.submissions.forget(PARKED_REQUESTS)
        self._parked[key] = Parked(
            cwd=own.host.workspace.cwd,
            name=own.history.name,
            approval=own.approvals.mode,
            model=own.model,
            thinking=own.thinking,
            requests=session.submissions.known,
            is_saved=own.history.conversation.is_saved,
        )
        while len(self._parked) > MOST_PARKED:
            self._parked.pop(next(iter(self._parked)))
        self.evicted += 1
        await self._close(session)

    # Sessions of a fleet

    async def _hand_back(self, session: HubSession) -> None:
        """Let other processes have a session of a fleet. Clients that listen to it stay, and watch it."""
        key, conversation = self._keys[session], session.session.history.conversation
        if session.feed.listeners:
            self.watched.add(key, session.feed, None if session.is_lost else conversation.last_number)
        self.evicted += 1
        await self._close(session, ends_feed=not session.feed.listeners)
        if session.is_lost:  # clients may have seen what its next owner does not know
            session.feed.publish(msgspec.json.encode(BranchChanged(leaf_id=None)))

    async def _give_up_if_lost(self, key: Key) -> None:
        session = self._sessions.get(key)
        if session is not None and session.is_lost:
            await self._hand_back(session)

    async def keep_tidy(self) -> None:
        """Evict idle sessions for as long as the hub lives."""
        interval = min(60.0, max(0.05, self.limits.idle_seconds * RING_PART))
        if any(space.fleet is not None for space in self.spaces.values()):
            interval = min(interval, self.limits.hold_seconds / 3)
        while True:
            await asyncio.sleep(interval)
            try:
                await self.evict_idle()
            except Exception:
                _log.exception("An idle session could not be closed.")

    async def close(self) -> None:
        """Abort all work, save and close all sessions. Takes at most `shutdown_seconds`."""
        self.is_stopping = True
        for session in self.sessions:
            session.questions.close()
            session.session.activity.cancel(resumable=True)
        closing = [asyncio.create_task(self._close(session)) for session in self.sessions]
        waiting = [*closing, *self._closing.values()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self.limits.shutdown_seconds)
            for task in late:
                task.cancel()
        for session in [*self._keys]:
            session.agent.leave_nothing_behind()
        self.watched.close()
