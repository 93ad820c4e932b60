"""The fleet whose sessions a server shares: its store, and the jobs that workers run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from fairlead.protocol.http.fleet import JobEvent, JobResult
from fairlead.stores import SessionStore


class FleetJobs(Protocol):
    """The jobs of a fleet, as far as its sessions need them. `fairlead.jobs.Jobs` implements it."""

    async def list(self, *, session: str | None = None) -> list[JobResult]:
        """Return the jobs of a session, in the order in which they were submitted."""
        ...

    async def prompt(self, session: str, prompt: str, *, id: str | None = None) -> JobResult:
        """Send a prompt to a session. With the same id it is sent once."""
        ...

    def events(self, id: str, *, after: int | None = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job after a number until it has ended. None: only new ones."""
        ...

    async def cancel(self, *ids: str) -> list[JobResult]:
        """Cancel jobs."""
        ...

    async def retry(self, *ids: str) -> list[JobResult]:
        """Queue jobs again that failed, were cancelled or are parked. They continue where they ended."""
        ...


class Fleet(Struct, frozen=True):
    """The fleet whose sessions a server serves."""

    store: SessionStore
    jobs: FleetJobs
    #: The name of this server, for the leases of sessions.
    owner: str
