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
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from fairlead.core.model import Model
from fairlead.errors import EntryNotFound
from fairlead.protocol.http import objects as o
from fairlead.serve.refusals import Refusal, bad_request, no_session, outside_root, stopping
from fairlead.serve.sessions.feed import Feed
from fairlead.serve.sessions.open_sessions import RING_PART, HubLimits, OpenSessions
from fairlead.serve.sessions.opening import Parked, make_agent, open_session, restore, restore_approval
from fairlead.serve.sessions.session import HubSession, check_name
from fairlead.serve.sessions.spaces import Space
from fairlead.serve.sessions.watched import Key, WatchedSession, run_by_workers
from fairlead.serve.sessions.watching import WatchedSessions
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore

_log = logging.getLogger("fairlead.serve")


class Hub:
    """The open sessions of all users. A user reaches only those of their own space."""

    def __init__(self, spaces: Mapping[str, Space], limits: HubLimits | None = None) -> None:
        self.limits = limits or HubLimits()
        self.spaces = spaces
        self.is_stopping = False
        #: How many sessions were opened since the start.
        self.opened = 0
        #: How many hosts on WebSockets, each with sessions outside the hub, have left.
        self.hosts_closed = 0
        self._opening: dict[Key, asyncio.Task[HubSession]] = {}
        #: The sessions of a fleet that clients read and this server does not hold.
        self.watched = WatchedSessions(spaces, self.limits.ring)
        self._open = OpenSessions(self.limits, self.watched)

    # Looking

    @property
    def sessions(self) -> list[HubSession]:
        return self._open.all()

    def sessions_of(self, user: str) -> list[HubSession]:
        return self._open.of(user)

    @property
    def evicted(self) -> int:
        """How many sessions were evicted or handed back since the start."""
        return self._open.evicted

    @property
    def dropped_listeners(self) -> int:
        """How many listeners were dropped since the start because they were too slow."""
        return self._open.dropped_listeners

    def models(self, user: str) -> list[Model]:
        return self.spaces[user].common.shared.registry.available()

    async def list(self, user: str, cwd: str | None, cursor: str | None) -> o.SessionList:
        """Return a page of the sessions of a user. Raises Refusal and SessionError."""
        space = self.spaces[user]
        saved, next_cursor = await space.saved.page(cwd, cursor)
        found = [self._with_status(user, each) for each in saved if space.admits(Path(each.cwd))]
        if cursor is None:
            listed = {each.id for each in found}
            new = [each for each in self._open.of(user) if not each.is_listed and each.id not in listed]
            found[:0] = [
                o.SessionSummary(id=state.id, cwd=state.cwd, title=state.name, updated_at=None, status=state.status)
                for session in reversed(new)  # the last used first
                for state in [session.state()]
                if cwd is None or state.cwd == cwd
            ]
        return o.SessionList(sessions=found, next_cursor=next_cursor)

    def _with_status(self, user: str, summary: o.SessionSummary) -> o.SessionSummary:
        session = self._open.get((user, summary.id))
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
            self._open.used(session)

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
        session = await self._open.settled(key)
        if session is not None:
            return session
        self._refuse_if_stopping()
        watched = await self.watched.find(key)
        return self._open.get(key) or watched  # which it may have become meanwhile

    async def open(self, user: str, session_id: str) -> HubSession:
        """Return an open session, which was opened for this if need be. Raises Refusal and FairleadError."""
        key = user, session_id
        session = await self._open.settled(key)
        if session is not None:
            return session
        self._refuse_if_stopping()  # a client that comes back now must not hear that the session does not exist
        if key not in self._opening:
            task = self._opening[key] = asyncio.create_task(self._reopen(key), name="fairlead-open")
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(self._opening[key])

    async def create(self, user: str, body: o.NewSession) -> HubSession:
        """Begin a session. Raises Refusal and FairleadError."""
        space = self.spaces[user]
        cwd = space.folder(body.cwd)
        check_name(body.name)
        options: dict[str, object] = {"model": body.model, "thinking": body.thinking}
        given = {name: value for name, value in options.items() if value is not None}
        session = await self._start(user, cwd, ConversationStore.begin, given)
        session.set_approval(body.approval or session.session.approvals.mode, is_chosen=body.approval is not None)
        if body.name is not None:
            session.session.history.set_name(body.name)
        await session.session.history.written()
        return session

    async def fork(self, user: str, source: HubSession, body: o.Fork) -> o.Forked:
        """Begin a session with what another one has up to an entry. Raises EntryNotFound, Refusal and FairleadError."""
        history = source.session.history
        if not history.count:
            raise bad_request("This session has no messages yet.")
        text: str | None = None
        if body.position == "before":
            if body.entry_id is None:
                raise bad_request("entryId: expected the message before which the new session ends.")
            text = dict(history.log.user_messages()).get(body.entry_id)
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
        space, parked = self.spaces[user], self._open.parked.get(key)
        if space.fleet is not None:
            return await self._take(key)
        if parked is not None and not parked.is_saved:
            cwd = space.folder(str(parked.cwd))
            session = await self._start(user, cwd, lambda store: store.new(id=session_id), {}, parked)
            if parked.name is not None:
                session.session.history.set_name(parked.name, lasting=False)
            return session
        opener, cwd = await self.saved(user, session_id)
        return await self._start(user, cwd, opener, {}, parked)

    async def _take(self, key: Key) -> HubSession:
        """Take the lease of a session of a fleet. Raises Refusal, SessionInUse and FairleadError."""
        user, session_id = key
        found = await self._found(user, session_id)
        if isinstance(found, HubSession):
            return found
        cwd = await _folder_to_work_in(found)
        return await self._start(user, cwd, lambda store: store.open(session_id), {})

    async def saved(self, user: str, session_id: str) -> tuple[Callable[[ConversationStore], Conversation], Path]:
        """Return what opens a saved session of a user, and its working directory. Raises Refusal and FairleadError."""
        space = self.spaces[user]
        if space.fleet is not None:
            session = await self._found(user, session_id)
            held = isinstance(session, HubSession)  # this server hands it back when it is idle
            cwd = session.session.host.workspace.cwd if held else await _folder_to_work_in(session)
            return lambda store: store.open(session_id), cwd
        path, cwd = await self._file(user, session_id)
        return lambda store: store.open(str(path)), cwd

    async def _file(self, user: str, session_id: str) -> tuple[Path, Path]:
        """Return the file of a session of a user, and its working directory. Raises Refusal."""
        space = self.spaces[user]
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
        self._refuse_if_stopping()
        async with self._open.room():
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
            session = HubSession(agent, feed, queue_limit=self.limits.queued, on_replaced=self._open.rename)
        except BaseException:
            agent.session.history.conversation.close()
            agent.leave_nothing_behind()
            raise
        if parked is not None:
            session.submissions.known = parked.requests
            session.results = parked.results
        self._open.add((user, session.id), session)
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

    # Closing

    async def delete(self, user: str, session_id: str) -> None:
        """Close a session and delete its file. Raises Refusal and SessionError."""
        key = user, session_id
        space, session = self.spaces[user], await self._open.settled(key)
        was_known = session is not None or self._open.parked.pop(key, None) is not None
        if session is not None:
            await self._open.close(session)
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

    async def evict_idle(self) -> None:
        """Evict the sessions that were idle for too long, and drop the rings of those that no client listens to."""
        await self._open.evict_idle()

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
        await self._open.close_all()
        self.watched.close()


async def _folder_to_work_in(session: WatchedSession) -> Path:
    """Return the working directory of a session that this server takes. Raises Refusal if it may not or cannot work there."""
    if session.has_jobs:
        raise run_by_workers()
    if not await asyncio.to_thread(os.path.isdir, session.cwd):
        text = f"The session works in {session.cwd}, which does not exist on the machine of this server."
        raise Refusal(409, "no_directory", text)
    return session.cwd
