"""The sessions of a fleet that clients of this server read, and that it does not hold."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead.errors import FairleadError, SessionNotFound
from fairlead.serve.refusals import no_session, outside_root
from fairlead.serve.sessions.feed import Feed, RingBounds
from fairlead.serve.sessions.watched import Key, WatchedSession

if TYPE_CHECKING:
    from fairlead.protocol.http.fleet import JobResult
    from fairlead.serve.sessions.spaces import Space

_log = logging.getLogger("fairlead.serve")

#: Seconds between two looks at the sessions that clients listen to.
_INTERVAL = 0.25
#: Seconds for which a session is kept in memory that no client reads.
_IDLE_SECONDS = 10.0


class WatchedSessions:
    """The sessions of a fleet that clients read and this server does not hold. `ring` bounds their feeds."""

    def __init__(self, spaces: Mapping[str, Space], ring: RingBounds) -> None:
        self._spaces = spaces
        self._ring = ring
        self._sessions: dict[Key, WatchedSession] = {}
        #: The jobs whose events are followed, each with the task that does so.
        self._followers: dict[Key, tuple[str, asyncio.Task[None]]] = {}

    def get(self, key: Key) -> WatchedSession | None:
        return self._sessions.get(key)

    def add(self, key: Key, feed: Feed, known: int | None = None) -> WatchedSession:
        """Watch a session from now on. `known` is the number of the last entry that the events in its feed cover."""
        space = self._spaces[key[0]]
        assert space.fleet is not None
        session = self._sessions[key] = WatchedSession(space.fleet, key[1], feed, space.common.shared.registry, known)
        return session

    def stop_watching(self, key: Key) -> None:
        """Stop watching a session that this server holds. Its feed continues."""
        self._sessions.pop(key, None)
        self._stop_following(key)

    def forget(self, key: Key) -> None:
        """Stop watching a session, and end all listeners."""
        session = self._sessions.pop(key, None)
        self._stop_following(key)
        if session is not None:
            session.feed.close()

    async def find(self, key: Key) -> WatchedSession:
        """Return a session, up to date with what its owner has written. Raises Refusal and FairleadError."""
        session = self._sessions.get(key) or self.add(key, Feed(self._ring))
        try:
            await session.refresh()
        except SessionNotFound:
            self.forget(key)
            raise no_session(key[1]) from None
        if not self._spaces[key[0]].admits(session.cwd):
            raise outside_root()
        return session

    async def keep_up_to_date(self) -> None:
        """Follow the sessions that clients listen to, until the task is cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            for key, session in list(self._sessions.items()):
                if session.feed.listeners:
                    await self._refresh(key, session)
                    self._follow(key, session)
                    continue
                self._stop_following(key)
                if not session.uses and time.monotonic() - session.last_used > _IDLE_SECONDS:
                    self.forget(key)

    def _follow(self, key: Key, session: WatchedSession) -> None:
        """Follow the events of the job that workers run in a session."""
        job = session.open_job
        id, task = self._followers.get(key, ("", None))
        if job is not None and job.id == id and task is not None and not task.done():
            return
        self._stop_following(key)
        if job is not None and key in self._sessions:
            self._followers[key] = job.id, asyncio.create_task(_follow_job(session, job), name="fairlead-follow")

    def _stop_following(self, key: Key) -> None:
        _, task = self._followers.pop(key, ("", None))
        if task is not None:
            task.cancel()

    async def _refresh(self, key: Key, session: WatchedSession) -> None:
        try:
            await session.refresh()
        except SessionNotFound:
            self.forget(key)
        except FairleadError as error:
            _log.info("Session %s cannot be read at the moment: %s", key[1], error)
        except Exception:
            _log.exception("A bug in fairlead: session %s cannot be followed.", key[1])

    def close(self) -> None:
        """End all listeners."""
        for key in list(self._sessions):
            self.forget(key)


async def _follow_job(session: WatchedSession, job: JobResult) -> None:
    try:
        await session.follow(job)
    except FairleadError as error:
        _log.info("Job %s cannot be followed at the moment: %s", job.id, error)
    except Exception:
        _log.exception("A bug in fairlead: job %s cannot be followed.", job.id)
