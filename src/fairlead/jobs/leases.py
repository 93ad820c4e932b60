"""Leases: how the workers of a fleet know which of them are alive.

Every worker process has a row, and renews it. When the row has expired, the process is dead, hangs, or cannot reach the database,
and other workers continue its jobs.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from fairlead.jobs.database import Database, Transaction

#: How long a lease lasts, and how often it is renewed.
LEASE_SECONDS = 15.0
RENEW_SECONDS = 3.0
#: The host of a worker process that is told to stop. No machine looks whether it still runs.
LEAVING = "leaving"


class WorkerRow(Struct, frozen=True):
    """The lease of a worker process."""

    id: str
    host: str
    pid: int
    process: str
    is_expired: bool

    def is_dead(self) -> bool:
        """Whether the process ran on this machine, and has ended without having been told to."""
        return self.host == host_id() and process_identity(self.pid) != self.process


class Leases:
    """Reads and changes the leases of workers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, worker: str, sessions: int) -> None:
        """Create the lease of a worker that starts."""
        values = (worker, host_id(), os.getpid(), process_identity(os.getpid()), sessions)

        def insert(transaction: Transaction) -> None:
            transaction.run("DELETE FROM fairlead_workers WHERE id = ?", (worker,))
            transaction.run(
                "INSERT INTO fairlead_workers (id, host, pid, process, sessions, expires_at)"
                f" VALUES (?, ?, ?, ?, ?, {transaction.now} + {LEASE_SECONDS})",
                values,
            )

        await self._database.do(insert)

    async def renew(self, worker: str) -> bool:
        """Renew a lease, also one that has expired. Returns False if another worker has revoked or ended it."""
        expires = f"{self._database.now} + {LEASE_SECONDS}"
        statement = f"UPDATE fairlead_workers SET expires_at = {expires} WHERE id = ? AND expires_at > 0"
        return await self._database.run(statement, (worker,)) == 1

    async def revoke(self, worker: str) -> bool:
        """Keep a worker from renewing a lease that has expired. Returns False if it has renewed it by now."""
        statement = f"UPDATE fairlead_workers SET expires_at = 0 WHERE id = ? AND expires_at < {self._database.now}"
        return await self._database.run(statement, (worker,)) == 1

    async def leave(self, workers: Sequence[str]) -> None:
        """Record that worker processes are told to stop, so that their ends do not count as deaths."""
        marks = ", ".join("?" * len(workers))
        await self._database.run(f"UPDATE fairlead_workers SET host = '{LEAVING}' WHERE id IN ({marks})", workers)

    async def end(self, worker: str) -> None:
        """Remove the lease of a worker whose jobs have been put back."""
        await self._database.run("DELETE FROM fairlead_workers WHERE id = ?", (worker,))

    async def most_sessions(self) -> int:
        """Return how many jobs the largest worker process runs at the same time; 0 if there is none."""
        rows = await self._database.rows(f"SELECT MAX(sessions) FROM fairlead_workers WHERE expires_at > {self._database.now}")
        return rows[0][0] or 0

    async def all(self) -> list[WorkerRow]:
        """Return all leases."""
        expired = f"CASE WHEN expires_at < {self._database.now} THEN 1 ELSE 0 END"
        rows = await self._database.rows(f"SELECT id, host, pid, process, {expired} FROM fairlead_workers")
        return [WorkerRow(id, host, pid, process, bool(is_expired)) for id, host, pid, process, is_expired in rows]


def host_id() -> str:
    """Return a name for this machine since it was started. Containers that do not share their processes have other names."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {boot} {namespace}"


def process_identity(pid: int) -> str:
    """Return what tells a process from another one that gets its number later. Empty if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "running"
    return "" if fields[0] in "ZX" else fields[19]


def new_worker_id() -> str:
    """Return an id for a worker process."""
    return f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1_000_000:x}"
