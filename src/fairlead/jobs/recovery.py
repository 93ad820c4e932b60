"""Gives the jobs of workers that died or hang to other workers, and ends processes that outlived their worker.

All that a worker process starts, directly or not, inherits a variable with its id. Only Linux lets one look for that, also for
processes that have left the process groups of the worker."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fairlead.errors import JobError, WorkspaceError
from fairlead.jobs.database import Database
from fairlead.jobs.dbos_queue import Queues, convert_pickled, end_unreadable, release_waiting, workflow_table
from fairlead.jobs.leases import LEASE_SECONDS, Leases
from fairlead.jobs.records import JobRecord, Records
from fairlead.jobs.task import is_id
from fairlead.jobs.workspaces import workspace_of
from fairlead.jobs.workspaces.repository import RepositoryWorkspace

#: The variable that a worker process and all that it starts have in their environment.
MARKER = "FAIRLEAD_WORKER"
#: The module that a worker process runs.
WORKER_MODULE = "fairlead.jobs.worker"


def end_processes_of(worker: str) -> None:
    """Kill what a worker process that ended has left behind."""
    for pid, found in _list_marked():
        if found == worker:
            _kill(pid)


def end_orphans() -> None:
    """Kill what workers of this user have left behind that ended together with their supervisor.

    A worker process has the variable itself, so its id belongs to no running worker if no process that has it is one.
    """
    marked = list(_list_marked())
    alive = {worker for pid, worker in marked if _is_worker(pid)}
    for pid, worker in marked:
        if worker not in alive and worker == _marker_of(pid):  # else the number belongs to another process by now
            _kill(pid)


def _list_marked() -> Iterator[tuple[int, str]]:
    """Yield the processes that have the variable, and the ids in it."""
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        worker = _marker_of(pid)
        if worker is not None and pid != os.getpid():
            yield pid, worker


def _marker_of(pid: int) -> str | None:
    start = f"{MARKER}=".encode()
    with suppress(OSError):  # it has ended, or belongs to another user
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(start):
                return variable.removeprefix(start).decode(errors="replace")
    return None


def _is_worker(pid: int) -> bool:
    try:
        return WORKER_MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


log = logging.getLogger("fairlead.jobs")


class Recovery:
    """Finds workers without a current lease, and puts their jobs back into the queues."""

    def __init__(self, database: Database, queues: Queues) -> None:
        self._database = database
        self._queues = queues
        self._records = Records(database)
        self._leases = Leases(database)
        #: Workers that have claims and no lease, by the last look. One that starts may be among them.
        self._without_lease: set[str] = set()
        #: Sessions whose worktrees cannot be removed, with the last epoch of their last job.
        self._stuck: dict[str, int] = {}

    async def recover(self, worker: str, *, died: bool) -> int:
        """Put the jobs of a worker back. With `died`, that counts against the jobs it ran. Returns how many were put back.

        If this process dies in between, another one repeats it: the lease is removed last.
        """
        parked = await self._records.take_from(worker, died=died)
        claimed = await self._queues.list_claimed(worker)
        ended = {record.workflow for record in parked}
        if ended:
            await self._queues.cancel(sorted(ended))
            for record in parked:
                log.warning("job %s is parked: %s", record.id, record.error)
        again = {workflow: queue for workflow, queue, _ in claimed if workflow not in ended}
        await self._queues.put_back(again)
        await self._leases.end(worker)
        return len(again)

    async def sweep(self) -> None:
        """Recover the jobs of all workers whose lease has expired, or whose process on this machine has ended.

        After the database was away, workers get the time of a lease to renew theirs.
        """
        leases = await self._leases.all()
        since = self._database.reachable_since
        can_judge = since is not None and time.monotonic() - since > LEASE_SECONDS
        for lease in leases:
            is_dead = lease.is_dead()
            if is_dead:  # with its supervisor, perhaps
                await asyncio.to_thread(end_processes_of, lease.id)
            if is_dead or (lease.is_expired and can_judge and await self._leases.revoke(lease.id)):
                count = await self.recover(lease.id, died=True)
                log.warning("worker %s is gone; %d of its jobs are queued again", lease.id, count)

    async def sweep_refused(self) -> None:
        """Convert queued jobs of an older fairlead, and end those that DBOS has refused."""
        count = await self._database.do(convert_pickled)
        if count:
            log.warning("%d jobs that an older fairlead has queued were converted: their arguments were pickles", count)
        await self._database.do(end_unreadable)
        for id in await self._records.fail_refused(workflow_table(is_postgres=self._database.is_postgres)):
            log.error("job %s has failed: the row of its workflow was refused", id)

    async def sweep_worktrees(self, data: Path, fleet: str = "") -> None:
        """Remove worktrees on this machine whose jobs have ended: their workers died before they could."""
        names = await asyncio.to_thread(lambda: _sessions_in(data / "worktrees", "*/*"))
        for records in (await self._records.of_sessions(names)).values() if names else ():
            if _is_over(records):
                await self._collect(records, data, fleet)

    async def sweep_containers(self, data: Path, fleet: str = "") -> None:
        """Remove containers on this machine whose jobs have ended: their workers died before they could."""
        names = await asyncio.to_thread(lambda: _sessions_in(data / "containers" / fleet, "*"))
        for records in (await self._records.of_sessions(names)).values() if names else ():
            last = records[-1]
            if _is_over(records) and last.job.container is not None:
                with suppress(WorkspaceError, OSError):
                    await workspace_of(last.job, data, fleet).release(has_ended=False)

    async def _collect(self, records: Sequence[JobRecord], data: Path, fleet: str) -> None:
        last, job = records[-1], records[-1].job
        if job.repo is None or job.commit is None or self._stuck.get(last.session) == last.epoch:
            return
        snapshot = next((record.snapshot for record in reversed(records) if record.snapshot is not None), None)

        async def is_over() -> bool:
            now = (await self._records.of_sessions([last.session]))[last.session]
            return [(each.id, each.epoch) for each in now] == [(each.id, each.epoch) for each in records]

        try:
            patch = await RepositoryWorkspace(job.repo, job.commit, last.session, data, fleet).collect(
                snapshot, last.turns, is_over
            )
        except (WorkspaceError, OSError) as problem:
            log.warning("job %s: its worktree stays on this machine: %s", last.id, problem)
            self._stuck[last.session] = last.epoch
            return
        if patch is not None:
            await self._records.save_leftovers(last, None, patch)

    async def sweep_waiting(self) -> None:
        """Queue jobs that wait for others of their session, if those have ended."""
        if await self._records.has_waiting():
            await self._queues.run(release_waiting)

    async def sweep_claims(self) -> None:
        """Recover claims of workers that have no lease: they woke up after their lease was ended, and claimed once more."""
        owners = {owner for _, _, owner in await self._queues.list_claimed()}
        alive = {lease.id for lease in await self._leases.all()}
        missing = owners - alive
        for worker in missing & self._without_lease:
            await self.recover(worker, died=False)
        self._without_lease = missing


def _is_over(records: Sequence[JobRecord]) -> bool:
    """Whether all jobs of a session have ended, and the last one says where it worked."""
    try:
        records[-1].check()
    except JobError as problem:
        log.warning("the files of a job stay on this machine: %s", problem)
        return False
    return all(record.has_ended for record in records) and records[-1].worker is None


def _sessions_in(folder: Path, pattern: str) -> list[str]:
    """Return the names of directories that can be those of sessions. A database does not take every name."""
    return [path.name for path in folder.glob(pattern) if is_id(path.name) and path.is_dir()]
