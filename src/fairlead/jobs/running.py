"""Runs one job: prepares its workspace, runs or resumes its prompt, and records what happens."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairlead.agent import Agent
from fairlead.agent.options import Hooks
from fairlead.agent.result import usage_in
from fairlead.errors import FairleadError, LimitReached, RunAborted, SessionInUse, SessionLost, StoreUnavailable, WorkspaceError
from fairlead.events import Event, MessageEnd, SubagentEvent, TextDelta, ThinkingDelta, TurnEnd
from fairlead.extension import ToolCallEvent
from fairlead.jobs.event_log import EventEncoder
from fairlead.jobs.job_sessions import TakeoverStore, make_agent, open_session, prompts_of, run_or_resume, used_since
from fairlead.jobs.job_writer import JobEnd, JobWriter
from fairlead.jobs.records import JobRecord, Progress, Records
from fairlead.jobs.task import resolve
from fairlead.jobs.workspaces import workspace_of
from fairlead.jobs.workspaces.job_workspace import Placement, Workspace
from fairlead.messages import AssistantMessage, Usage
from fairlead.protocol.http.fleet import JobLimits
from fairlead.stores import SessionStore

log = logging.getLogger("fairlead.jobs")

#: How long pieces of a text are collected before they become an event, in seconds.
_PIECES_SECONDS = 0.02


class JobSurroundings:
    """What the jobs of a worker process share."""

    def __init__(
        self,
        records: Records,
        writer: JobWriter,
        store: SessionStore,
        worker: str,
        data: Path,
        options: Mapping[str, Any],
        is_current: Callable[[], bool],
        fleet: str = "",
    ) -> None:
        self.records = records
        self.writer = writer
        self.store = store
        self.worker = worker
        self.data = data
        self.options = options
        #: The id of the database.
        self.fleet = fleet
        #: Whether the worker's lease is current. Without it, entries wait, and so no tool starts.
        self.is_current = is_current


class JobRun:
    """One attempt at a job."""

    def __init__(self, record: JobRecord, last_event: int, surroundings: JobSurroundings) -> None:
        self._record = record
        self._job = resolve(record.job)
        self._limits = self._job.limits or JobLimits()
        self._around = surroundings
        self._workspace: Workspace = workspace_of(self._job, surroundings.data, surroundings.fleet)
        self._progress = Progress(
            turns=record.turns,
            tokens=record.tokens,
            cost=record.cost,
            seconds=record.seconds,
            snapshot=record.snapshot,
            lease=record.lease,
        )
        self._began = time.monotonic()
        self._seconds_before = record.seconds
        self._number = last_event
        self._encoder = EventEncoder()
        self._agent: Agent | None = None
        self._preparing: asyncio.Task[Placement] | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: The work after a turn: a snapshot, and the record of it, for which tools wait.
        self._snapshot: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._over_limit: str | None = None
        self._is_stopped = False
        #: Whether another worker owns the job. Then nothing more is written about it, not even that the run was aborted.
        self._is_lost = False
        #: Releases the session of the job, if another worker owns that.
        self._leave_session: Callable[[], Awaitable[None]] = _do_nothing
        #: Whether the end of the job has been recorded.
        self.is_recorded = False

    async def run(self) -> bool:
        """Run the job to its end, and record that. Returns False if it has not ended, and has to be queued again.

        If another worker owns the job by then, nothing is recorded.
        """
        answer: str | None = None
        error: str | None = None
        is_owner = True
        try:
            answer = await self._work()
        except (SessionLost, SessionInUse, StoreUnavailable) as lost:
            # Another worker has the job, or the database was away for too long.
            log.warning("job %s: %s", self._record.id, lost)
            is_owner = False
        except RunAborted as aborted:
            error = self._over_limit or str(aborted)
        except LimitReached as reached:
            self._progress.seconds = self._seconds()
            error = self._limit_reached() or str(reached)
        except FairleadError as failure:
            error = str(failure)
        except Exception as failure:
            log.exception("job %s", self._record.id)
            error = f"{type(failure).__name__}: {failure}"
        finally:
            self._flush_pieces()
            with suppress(Exception):
                await self._wait_saved()
            if self._agent is not None:
                with suppress(Exception):
                    await self._agent.close()
            if self._is_lost:
                with suppress(Exception):
                    await self._leave_session()
        if self._is_stopped or not is_owner:
            await self._leave(has_ended=self._is_stopped and await self._keep_if_cancelled())
            return self._is_stopped or not await self._around.records.give_up(self._record)
        self._progress.seconds = self._seconds()
        unsaved = await self._save_patch()
        error = error or unsaved
        await self.finish(JobEnd(status="done" if error is None else "failed", answer=answer, error=error))
        await self._leave(has_ended=self.is_recorded and unsaved is None)
        return True

    async def finish(self, end: JobEnd) -> None:
        """Record how the job ended, unless another worker owns it."""
        self._number += 1
        self.is_recorded = await self._around.writer.finish(self._record, self._progress, end, self._number)

    async def _save_patch(self) -> str | None:
        """Save what the job changed. Returns why that is not possible: then its files have to stay."""
        try:
            patch = None if self._agent is None else await self._workspace.patch()
        except WorkspaceError as problem:
            log.error("job %s: no patch, but its files stay on this machine: %s", self._record.id, problem)
            return (
                f"There is no patch, and the files of the job stay on the machine of the worker {self._around.worker}. {problem}"
            )
        if patch is not None:
            await self._around.records.save_patch(self._record, patch)
        return None

    async def _find_cancelled(self) -> JobRecord | None:
        """Return the record of the job if it was cancelled during this attempt."""
        record = (await self._around.records.find([self._record.id])).get(self._record.id)
        is_cancelled = record is not None and record.status == "cancelled" and record.epoch == self._record.epoch + 1
        return record if is_cancelled else None

    async def _keep_if_cancelled(self) -> bool:
        """If the job was cancelled, save what it used and the files that it left. Returns whether they can go."""
        record = await self._find_cancelled()
        if record is None or self._agent is None:
            return False
        self._progress.seconds = self._seconds()
        await self._around.records.save_used(record, self._progress)
        try:
            snapshot, patch = await self._workspace.snapshot(self._progress.turns), await self._workspace.patch()
        except WorkspaceError as problem:
            log.warning("job %s was cancelled, and its files stay on this machine: %s", self._record.id, problem)
            return False
        await self._around.records.save_leftovers(record, snapshot, patch)
        return True

    async def stop(self) -> None:
        """Stop the run, because the job was cancelled or another worker owns it."""
        self._is_stopped = True
        if await self._find_cancelled() is None:
            self._is_lost = True
        if self._preparing is not None:
            self._preparing.cancel()
        if self._agent is not None:
            await self._agent.session.abort()

    async def _leave(self, *, has_ended: bool) -> None:
        try:
            await self._workspace.release(has_ended=has_ended)
        except (WorkspaceError, OSError) as problem:
            log.warning("job %s: its workspace cannot be removed: %s", self._record.id, problem)

    async def _work(self) -> str:
        placement = await self._place()
        # Only repositories have snapshots, and without a hook the agent need not prepare for extensions.
        before_tool = self._before_tool if self._job.repo is not None else None
        hooks = Hooks(before_tool=before_tool, on_event=self._receive)
        around = self._around
        store = TakeoverStore(around.store, self._record, self._note_lease, self._check_owner)
        self._leave_session = store.leave
        self._agent = agent = make_agent(self._job, placement, around.options, store, around.worker, hooks)
        await open_session(agent)
        # A command may kill this worker at once. The next one must know the lease by then, or it waits until the lease expires.
        await around.writer.save(self._record, self._progress)
        # An earlier prompt, or an attempt of another worker, may have worked in a directory that is still there.
        agent.session.host.workspace.cwd = placement.cwd
        if self._is_stopped:
            raise RunAborted
        if agent.session.model is None:
            await agent.choose_model()
        prompts, before = prompts_of(agent), self._record.prompts_before
        # The session may be older than the job: one of a front end, for example.
        is_first = self._record.attempts == self._record.generation == 1
        has_begun = before is not None and prompts > before and not is_first
        has_begun = has_begun and not await self._around.records.has_later_prompt(self._record)
        if not has_begun and prompts != before:
            await self._around.records.save_prompts_before(self._record, prompts)
        if has_begun and before is not None:
            self._count_earlier(*used_since(agent, before))
        limits, is_restored = self._limits_left, placement.is_restored
        return await run_or_resume(agent, self._job, has_begun=has_begun, limits=limits, is_restored=is_restored)

    async def _place(self) -> Placement:
        """Prepare the workspace, which may take long. Raises RunAborted and LimitReached."""
        self._preparing = asyncio.get_running_loop().create_task(self._prepare())
        try:
            async with asyncio.timeout(self._seconds_to_prepare()):
                return await self._preparing
        except TimeoutError:
            raise LimitReached("The job has used all of its seconds before it could begin.") from None
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            raise RunAborted from None

    async def _prepare(self) -> Placement:
        if self._record.attempts == self._record.generation == 1 and self._job.session is None:
            # A job of a copy of this database, or of one that was restored, had the same name, and its worker died.
            await self._workspace.release(has_ended=True)
        return await self._workspace.prepare(await self._snapshot_to_start_from())

    def _check_owner(self) -> None:
        """Raise SessionLost if another worker owns the job, and StoreUnavailable if one may own it."""
        if self._is_lost:
            raise SessionLost(f"Job {self._record.id} belongs to another worker.")
        if not self._around.is_current():
            raise StoreUnavailable("The worker has not renewed its lease in time.")

    def _note_lease(self, epoch: int) -> None:
        """Keep the epoch of the session's lease, for the worker that may have to take over."""
        self._progress.lease = epoch

    async def _snapshot_to_start_from(self) -> str | None:
        if self._record.snapshot is not None or self._job.session is None:
            return self._record.snapshot
        return await self._around.records.last_snapshot(self._job.session)

    # Limits

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._began

    def _seconds_to_prepare(self) -> float | None:
        """How long the workspace may take. A job with no seconds left may still have an answer that was not recorded."""
        most = self._limits.seconds
        if most is None:
            return None
        left = most - self._seconds()
        return left if left > 0 else most

    def _count_earlier(self, turns: int, tokens: int, cost: float) -> None:
        """Count what earlier attempts have used by the session, if that is more than they lived to record."""
        used = self._progress
        used.cost = max(used.cost, cost)
        if self._record.generation == 1:  # else some of it was before the retry
            used.turns, used.tokens = max(used.turns, turns), max(used.tokens, tokens)

    def _limit_reached(self) -> str | None:
        """Say which limit the job has reached; None if it has reached none."""
        limits, used = self._limits, self._progress
        for limit, amount, text in (
            (limits.turns, used.turns, "used {0:g} turns, and its limit is {1:g}"),
            (limits.seconds, used.seconds, "used {0:.1f} seconds, and its limit is {1:g}"),
            (limits.cost, used.cost - self._record.cost_before, "cost ${0:.4g}, and its limit is ${1:g}"),
            (limits.tokens, used.tokens, "used {0:g} tokens, and its limit is {1:g}"),
        ):
            if limit is not None and amount >= limit:
                has_used = text.format(amount, limit)
                return f"The job has {has_used}. `fairlead jobs retry {self._record.id}` lets it go on, and use as much again."
        return None

    def _limits_left(self) -> dict[str, Any]:
        """Return the limits of a run that starts now. Raises LimitReached if there may be none."""
        problem = self._limit_reached()
        if problem is not None:
            raise LimitReached(problem)
        limits, used = self._limits, self._progress
        return {
            "max_turns": None if limits.turns is None else max(1, limits.turns - used.turns),
            "timeout": None if limits.seconds is None else max(0.001, limits.seconds - self._seconds()),
            "max_cost": None if limits.cost is None else max(1e-9, limits.cost + self._record.cost_before - used.cost),
        }

    # What happens during the run

    async def _before_tool(self, event: ToolCallEvent) -> None:
        """Let a tool start only after the snapshot of the turn before was recorded, so that another machine finds it."""
        if self._saving is not None:
            await asyncio.wait([self._saving])

    def _receive(self, event: Event) -> None:
        if self._agent is not None and self._agent.session.activity.lost is not None:
            return  # what it is about may not be durable
        if isinstance(event, (TextDelta, ThinkingDelta)):
            self._emit(self._encoder.encode(event))
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(_PIECES_SECONDS, self._flush_pieces)
            return
        self._flush_pieces()
        usage = usage_in(event)
        if usage is not None:
            self._count(event, usage)
        self._emit(self._encoder.encode(event))
        if isinstance(event, TurnEnd):
            loop = asyncio.get_running_loop()
            self._snapshot = loop.create_task(self._take_snapshot(self._snapshot))
            self._saving = loop.create_task(self._save(self._saving, self._snapshot))

    def _count(self, event: Event, usage: Usage) -> None:
        """Count what a model call has used: one of the job itself, of a sub-agent, or of a compaction."""
        answer = event.message if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage) else None
        self._progress.turns += answer is not None and answer.stop_reason not in ("error", "aborted")
        self._progress.tokens += usage.input + usage.output + usage.cache_read + usage.cache_write
        self._progress.cost += usage.cost.total
        self._progress.seconds = self._seconds()
        self._around.writer.note(self._record, self._progress)  # a turn may end in another worker, or never
        # The run continues after tool calls and after what a sub-agent said.
        continues = isinstance(event, SubagentEvent) or (answer is not None and answer.stop_reason == "toolUse")
        most = self._limits.tokens
        if most is not None and self._progress.tokens >= most and self._over_limit is None and continues:
            self._over_limit = self._limit_reached()
            assert self._agent is not None
            self._aborting = asyncio.get_running_loop().create_task(self._agent.session.abort())

    async def _take_snapshot(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        try:
            self._progress.snapshot = await self._workspace.snapshot(self._progress.turns) or self._progress.snapshot
        except WorkspaceError as problem:
            log.warning("job %s: no snapshot: %s", self._record.id, problem)

    async def _save(self, before: asyncio.Task[None] | None, snapshot: asyncio.Task[None]) -> None:
        """Save the progress after a turn. A worker that has lost the job stops."""
        if before is not None:
            await before
        await snapshot
        self._progress.seconds = self._seconds()
        if not await self._around.writer.save(self._record, self._progress):
            await self.stop()

    async def _wait_saved(self) -> None:
        if self._saving is not None:
            await self._saving

    def _flush_pieces(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._emit(self._encoder.pending())

    def _emit(self, data: bytes | None) -> None:
        if data is not None:
            self._number += 1
            self._around.writer.add(self._record.id, self._record.epoch, self._number, data)


async def _do_nothing() -> None:
    """Do nothing: the job has no session yet."""
