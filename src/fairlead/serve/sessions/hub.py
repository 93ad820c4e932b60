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
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fairlead.core.model import Model
from fairlead.errors import BadCommand
from fairlead.protocol.http import http_objects as o
from fairlead.serve.refusals import Refusal, bad_request, no_session, outside_root, stopping
from fairlead.serve.sessions.feed import Feed
from fairlead.serve.sessions.hub_sessions import RING_PART, HubLimits, HubSessions, Parked, make_agent, restore, restore_approval
from fairlead.serve.sessions.live_session import HubSession, check_name
from fairlead.serve.sessions.served import ServedSession
from fairlead.serve.sessions.spaces import Space
from fairlead.serve.sessions.watched import Key, WatchedSession, run_by_workers
from fairlead.serve.sessions.watching import WatchedSessions
from fairlead.session.history.archive import Saved
from fairlead.session.history.current import ConversationStore
from fairlead.sessions.catalogue import Opener, opener
from fairlead.sessions.open_sessions import opening
from fairlead.stores.paths import iso

_log = logging.getLogger("fairlead.serve")

#: How many characters of a first message are the title of a session.
LONGEST_TITLE = 80


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
        #: The sessions of a fleet that clients read and this server does not hold.
        self.watched = WatchedSessions(spaces, self.limits.ring)
        self._open = HubSessions(self.limits, self.watched)

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
        try:
            page = await space.catalogue.page(cwd, cursor)
        except BadCommand as error:
            raise bad_request(f"{error}.") from None
        found = [self._summary(user, each) for each in page.sessions if space.admits(Path(each[0].cwd))]
        if cursor is None:
            listed = {each.id for each in found}
            new = [each for each in self._open.of(user) if not each.is_listed and each.id not in listed]
            found[:0] = [
                o.SessionSummary(
                    id=state.id,
                    cwd=state.cwd,
                    title=state.name,
                    updated_at=None,
                    status=state.status,
                    waiting=state.waiting,
                )
                for session in reversed(new)  # the last used first
                for state in [session.state()]
                if cwd is None or state.cwd == cwd
            ]
        return o.SessionList(sessions=found, next_cursor=page.next, has_jobs=space.fleet is not None)

    def _summary(self, user: str, saved: Saved) -> o.SessionSummary:
        info, owner = saved
        session = self._open.find((user, info.id))
        return o.SessionSummary(
            id=info.id,
            cwd=info.cwd,
            title=info.title(LONGEST_TITLE) or None,
            updated_at=iso(info.modified),
            status="saved" if session is None else session.status,
            waiting=session is not None and session.is_waiting,
            owner=(owner or None) if session is None else None,
        )

    # Opening

    @asynccontextmanager
    async def using(self, user: str, session_id: str) -> AsyncGenerator[ServedSession]:
        """Keep a session meanwhile for a request that acts in it. Unless workers run it, it is opened.

        Raises Refusal and FairleadError.
        """
        session = await self._acting(user, session_id)
        session.uses += 1
        try:
            yield session
        finally:
            session.uses -= 1
            session.last_used = time.monotonic()
            if isinstance(session, HubSession):
                self._open.mark_used(session)

    @asynccontextmanager
    async def reading(self, user: str, session_id: str) -> AsyncGenerator[ServedSession]:
        """Do the same for a request that changes nothing: a session of a fleet is not taken from its owner for it."""
        if self.spaces[user].fleet is None:
            async with self.using(user, session_id) as opened:
                yield opened
            return
        session = await self._find_session(user, session_id)
        session.uses += 1
        try:
            yield session
        finally:
            session.uses -= 1
            if isinstance(session, WatchedSession):
                session.last_used = time.monotonic()

    async def _acting(self, user: str, session_id: str) -> ServedSession:
        """Return a session to act in. Raises Refusal and FairleadError."""
        if self.spaces[user].fleet is not None:
            session = await self._find_session(user, session_id)
            if isinstance(session, WatchedSession) and session.has_jobs:
                return session
        return await self.open(user, session_id)

    async def _find_session(self, user: str, session_id: str) -> HubSession | WatchedSession:
        """Return a session of a fleet as it is: held by this server, or up to date with what its owner has written."""
        key = user, session_id
        session = await self._open.get_when_settled(key)
        if session is not None:
            return session
        self._refuse_if_stopping()
        watched = await self.watched.find(key)
        return self._open.find(key) or watched  # which it may have become meanwhile

    async def open(self, user: str, session_id: str) -> HubSession:
        """Return an open session, which was opened for this if need be. Raises Refusal and FairleadError."""
        key = user, session_id
        session = await self._open.get_when_settled(key)
        if session is not None:
            return session
        self._refuse_if_stopping()  # a client that comes back now must not hear that the session does not exist
        return await self._open.open_once(key, lambda: self._reopen(key))

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
        await session.session.history.wait_written()
        return session

    async def fork(self, user: str, source: ServedSession, body: o.Fork) -> o.Forked:
        """Begin a session with what another one has up to an entry. Raises EntryNotFound, Refusal and FairleadError."""
        fork = source.fork(body)
        try:
            session = await self._start(user, fork.cwd, lambda _: fork.conversation, {})
            session.set_approval(fork.approval)
            await session.session.history.wait_written()
        except BaseException:
            fork.conversation.close()
            raise
        return o.Forked(session=session.state(), text=fork.text)

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
        opens, cwd = await self.find_saved(user, session_id)
        return await self._start(user, cwd, opens, {}, parked)

    async def _take(self, key: Key) -> HubSession:
        """Take the lease of a session of a fleet. Raises Refusal, SessionInUse and FairleadError."""
        user, session_id = key
        found = await self._find_session(user, session_id)
        if isinstance(found, HubSession):
            return found
        cwd = await _folder_to_work_in(found)
        return await self._start(user, cwd, opener(session_id), {})

    async def find_saved(self, user: str, session_id: str) -> tuple[Opener, Path]:
        """Return what opens a saved session of a user, and its working directory. Raises Refusal and FairleadError."""
        space = self.spaces[user]
        if space.fleet is not None:
            session = await self._find_session(user, session_id)
            held = isinstance(session, HubSession)  # this server hands it back when it is idle
            cwd = session.session.host.workspace.cwd if held else await _folder_to_work_in(session)
            return opener(session_id), cwd
        catalogue = space.catalogue
        name = await catalogue.find(session_id)
        if name is None:
            raise no_session(session_id)
        folder = await catalogue.folder_of(name)
        if folder is not None and not space.admits(folder):
            raise outside_root()
        return opener(name), space.folder(None) if folder is None else folder

    async def _start(
        self,
        user: str,
        cwd: Path,
        conversation: Opener,
        options: Mapping[str, object],
        parked: Parked | None = None,
    ) -> HubSession:
        self._refuse_if_stopping()
        async with self._open.room():
            return await self._start_session(user, cwd, conversation, options, parked)

    async def _start_session(
        self,
        user: str,
        cwd: Path,
        conversation: Opener,
        options: Mapping[str, object],
        parked: Parked | None,
    ) -> HubSession:
        space = self.spaces[user]
        agent = make_agent(space, cwd, conversation, options)
        async with opening(agent, self.limits.take_seconds):
            agent.session.history.conversation.keep_empty()
            await space.prepare(agent)
            self._refuse_if_stopping()
            if parked is not None:
                restore(agent, parked)
            restore_approval(agent)
            feed = await self._feed_of((user, agent.session.history.id))
            session = HubSession(agent, feed, queue_limit=self.limits.queued, on_replaced=self._open.note_move)
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
        space, session = self.spaces[user], await self._open.get_when_settled(key)
        was_known = session is not None or self._open.parked.pop(key, None) is not None
        if session is not None:
            await self._open.end(session)
        if space.fleet is not None:
            was_known = False
            if (await self.watched.find(key)).has_open_jobs:
                raise Refusal(409, "busy", "Jobs of this session have not ended. Abort them first.")
            self.watched.forget(key)
        name = await space.catalogue.find(session_id)
        folder = None if name is None else await space.catalogue.folder_of(name)
        if folder is not None and not space.admits(folder):
            raise no_session(session_id)
        deleted = name is not None and await space.catalogue.archive.delete(name)
        if not deleted and not was_known:
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
