"""The sessions of all clients: opened on demand, shared by any number of clients, and evicted to their files when idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.agent.options import ASK, TASK, TODO_WRITE
from fairlead.core.model import Model, ThinkingLevel
from fairlead.errors import EntryNotFound
from fairlead.protocol.http import objects as o
from fairlead.serve.feed import RingBounds
from fairlead.serve.refusals import Refusal, bad_request, no_session, stopping
from fairlead.serve.session import HubSession, Requests
from fairlead.serve.spaces import Space
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore
from fairlead.wire.jsonrpc import BadParams

_log = logging.getLogger("fairlead.serve")

#: The tools that sessions have beside the usual ones.
MORE_TOOLS = (ASK, TODO_WRITE, TASK)
#: How many evicted sessions the hub remembers. Of the others, only what their files hold is kept.
MOST_PARKED = 10_000
#: How many ids of requests an evicted session keeps.
PARKED_REQUESTS = 32
#: The part of the idle time after which a session without clients drops its ring.
RING_PART = 0.05

#: The user and the id of a session.
Key: TypeAlias = tuple[str, str]


class HubLimits(Struct, frozen=True, kw_only=True):
    """What the hub allows."""

    #: Open sessions of all users.
    sessions: int = 1000
    #: Messages that wait in one session.
    queued: int = 100
    #: Seconds after which a session that no client uses is evicted.
    idle_seconds: float = 1800
    #: Seconds that closing all sessions may take at the end.
    shutdown_seconds: float = 10
    ring: RingBounds = RingBounds()


class _Parked(Struct, frozen=True, kw_only=True):
    """What an evicted session has that is not in its file."""

    cwd: Path
    name: str | None
    approval: o.Approval
    model: Model | None
    thinking: ThinkingLevel
    requests: Requests
    #: Whether there is a file. Otherwise it is empty, and begins again under its id.
    is_saved: bool


class Hub:
    """The open sessions of all users. A user reaches only those of their own space."""

    def __init__(self, spaces: Mapping[str, Space], limits: HubLimits | None = None) -> None:
        self.limits = limits or HubLimits()
        self.spaces = spaces
        self.is_stopping = False
        #: How many sessions were opened and evicted since the start.
        self.opened = self.evicted = 0
        #: How many listeners were dropped from sessions that are closed.
        self._dropped_before = 0
        self._sessions: dict[Key, HubSession] = {}
        self._keys: dict[HubSession, Key] = {}
        self._opening: dict[Key, asyncio.Task[HubSession]] = {}
        self._closing: dict[Key, asyncio.Task[None]] = {}
        self._parked: dict[Key, _Parked] = {}
        #: How many sessions are being opened.
        self._starting = 0

    # Looking

    @property
    def sessions(self) -> list[HubSession]:
        return list(self._sessions.values())

    @property
    def dropped_listeners(self) -> int:
        """How many listeners were dropped since the start because they were too slow."""
        return self._dropped_before + sum(session.feed.dropped for session in self.sessions)

    def models(self, user: str) -> list[Model]:
        return self.spaces[user].common.shared.registry.available()

    async def list(self, user: str, cwd: str | None, cursor: str | None) -> o.SessionList:
        """Return a page of the sessions of a user. Raises Refusal and SessionError."""
        space = self.spaces[user]
        store = space.store
        try:
            saved, next_cursor = await asyncio.to_thread(store.page, cwd, cursor)
        except BadParams as error:
            raise bad_request(f"{error}.") from None
        found = [
            o.SessionSummary(
                id=info.session_id,
                cwd=info.cwd,
                title=info.title or None,
                updated_at=info.updated_at or None,
                status=self._status(user, info.session_id),
            )
            for info in saved
            if space.admits(Path(info.cwd))
        ]
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

    def _status(self, user: str, session_id: str) -> Literal["saved", "idle", "running", "compacting"]:
        session = self._sessions.get((user, session_id))
        return "saved" if session is None else session.status

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

    async def open(self, user: str, session_id: str) -> HubSession:
        """Return an open session, which was opened for this if need be. Raises Refusal and FairleadError."""
        key = user, session_id
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
        session = await self._start(user, cwd, ConversationStore.new, given)
        if body.approval is not None:
            session.session.approvals.set_mode(body.approval)
        if body.name is not None:
            session.session.history.set_name(body.name, lasting=False)
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
            session.session.approvals.set_mode(source.session.approvals.mode)
        except BaseException:
            forked.close()
            raise
        return o.Forked(session=session.state(), text=text)

    async def _reopen(self, key: Key) -> HubSession:
        user, session_id = key
        space, parked = self.spaces[user], self._parked.get(key)
        if parked is not None and not parked.is_saved:
            cwd = space.folder(str(parked.cwd))
            session = await self._start(user, cwd, lambda store: store.new(id=session_id), {}, parked)
            if parked.name is not None:
                session.session.history.set_name(parked.name, lasting=False)
            return session
        path = await asyncio.to_thread(space.store.find, session_id, Path(space.common.base.cwd))
        if path is None:
            raise no_session(session_id)
        cwd = await asyncio.to_thread(_saved_folder, path)
        if cwd is not None and not space.admits(cwd):
            raise Refusal(403, "outside_root", "The working directory of this session is outside the root of the server.")
        cwd = space.folder(None) if cwd is None else cwd
        return await self._start(user, cwd, lambda store: store.open(path), {}, parked)

    async def _start(
        self,
        user: str,
        cwd: Path,
        conversation: Callable[[ConversationStore], Conversation],
        options: Mapping[str, object],
        parked: _Parked | None = None,
    ) -> HubSession:
        async with self._room():
            return await self._started(user, cwd, conversation, options, parked)

    async def _started(
        self,
        user: str,
        cwd: Path,
        conversation: Callable[[ConversationStore], Conversation],
        options: Mapping[str, object],
        parked: _Parked | None,
    ) -> HubSession:
        space = self.spaces[user]
        base, registry = space.common.base, space.common.shared.registry
        if not registry.available():
            registry.keys_changed()  # the user may have logged in meanwhile
        tools = [*dict.fromkeys([*base.default_tools, *MORE_TOOLS])]
        agent = Agent(
            replace(base, cwd=cwd, conversation=conversation, default_tools=tools, **options), shared=space.common.shared
        )
        try:
            await space.prepare(agent)
            self._refuse_if_stopping()
            if parked is not None:
                agent.session.approvals.set_mode(parked.approval)
                if not parked.is_saved and parked.model is not None:
                    agent.session.models.set_model(parked.model.provider, parked.model.id)
                    agent.session.models.set_thinking(parked.thinking)
            session = HubSession(
                agent, bounds=self.limits.ring, queue_limit=self.limits.queued, on_replaced=lambda each: self._rename(each)
            )
        except BaseException:
            agent.session.history.conversation.close()
            agent.leave_nothing_behind()
            raise
        if parked is not None:
            session.requests = parked.requests
        key = user, session.id
        self._parked.pop(key, None)
        self._sessions[key] = session
        self._keys[session] = key
        self.opened += 1
        return session

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
        from fairlead.session.history.listing import delete_session

        key = user, session_id
        if key in self._closing:
            await asyncio.wait([self._closing[key]])
        space, session = self.spaces[user], self._sessions.get(key)
        path = None if session is None else session.session.history.path
        was_known = session is not None or self._parked.pop(key, None) is not None
        if session is not None:
            await self._close(session)
        if path is None or not path.exists():
            path = await asyncio.to_thread(space.store.find, session_id, Path(space.common.base.cwd))
        if path is not None:
            cwd = await asyncio.to_thread(_saved_folder, path)
            if cwd is not None and not space.admits(cwd):
                raise no_session(session_id)
            await asyncio.to_thread(delete_session, path)
        elif not was_known:
            raise no_session(session_id)

    async def _close(self, session: HubSession) -> None:
        key = self._keys.pop(session, None)
        if key is None:
            return
        self._sessions.pop(key, None)
        self._dropped_before += session.feed.dropped
        task = self._closing[key] = asyncio.create_task(session.close(), name="fairlead-close")
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
                idle = [each for each in self._sessions.values() if self._may_evict(each)]
                if not idle:
                    raise Refusal(503, "too_many_sessions", f"{self.limits.sessions} sessions are in use.", retry_after=30)
                await self._evict(min(idle, key=lambda each: each.last_used))
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
            idle = now - session.last_used
            if idle > self.limits.idle_seconds and self._may_evict(session):
                await self._evict(session)
            elif idle > self.limits.idle_seconds * RING_PART and session.is_idle:
                session.feed.clear()

    async def _evict(self, session: HubSession) -> None:
        key, own = self._keys[session], session.session
        while len(session.requests) > PARKED_REQUESTS:
            session.requests.popitem(last=False)
        self._parked[key] = _Parked(
            cwd=own.host.workspace.cwd,
            name=own.history.name,
            approval=own.approvals.mode,
            model=own.model,
            thinking=own.thinking,
            requests=session.requests,
            is_saved=own.history.conversation.is_saved,
        )
        while len(self._parked) > MOST_PARKED:
            self._parked.pop(next(iter(self._parked)))
        self.evicted += 1
        await self._close(session)

    async def keep_tidy(self) -> None:
        """Evict idle sessions for as long as the hub lives."""
        while True:
            await asyncio.sleep(min(60.0, max(0.05, self.limits.idle_seconds * RING_PART)))
            try:
                await self.evict_idle()
            except Exception:
                _log.exception("An idle session could not be closed.")

    async def close(self) -> None:
        """Abort all work, save and close all sessions. Takes at most `shutdown_seconds`."""
        self.is_stopping = True
        for session in self.sessions:
            session.questions.close()
            session.session.activity.cancel()
        closing = [asyncio.create_task(self._close(session)) for session in self.sessions]
        waiting = [*closing, *self._closing.values()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self.limits.shutdown_seconds)
            for task in late:
                task.cancel()
        for session in [*self._keys]:
            session.agent.leave_nothing_behind()


def _saved_folder(path: Path) -> Path | None:
    """Return the working directory of a saved session if it still exists."""
    from fairlead.session.history.listing import describe

    with suppress(OSError, ValueError):
        cwd = describe(path, 0).cwd
        if cwd and Path(cwd).is_dir():
            return Path(cwd)
    return None
