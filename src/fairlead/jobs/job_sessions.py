"""The sessions of jobs: how a worker opens the agent of a job, in a store that all workers reach.

A worker that takes over a job knows that the one before it does not own the job any more. So it ends that worker's lease of the
session, which its job has noted, instead of waiting until it expires.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions, Hooks, Storage
from fairlead.errors import SessionNotFound, WorkspaceError
from fairlead.jobs.task import Job
from fairlead.jobs.workspaces.job_workspace import Placement, path_with
from fairlead.messages import AssistantMessage
from fairlead.models.providers import FLEET_KEY_PREFIX
from fairlead.session.behaviour import Behaviour
from fairlead.session.history.entries import NOTE_MARK
from fairlead.session.history.spending import spendings
from fairlead.sessions.open_sessions import retry_while_leased
from fairlead.stores import Lease, SessionStore
from fairlead.stores.store import make_not_found_error

if TYPE_CHECKING:
    from fairlead.jobs.records import JobRecord

#: How long the lease of a session lasts: as long as the database may be away before a run has to be resumed.
SESSION_LEASE_SECONDS = 30.0
#: Seconds between two attempts to take a session.
_TAKE_INTERVAL = 0.5
#: What the model of a run is told that continues without the files that it had.
RESTORED = (
    "This work continues on another machine, with the files of the last snapshot. Snapshots are taken after each turn, so changes"
    " of the last commands may be missing. Check the files before you rely on them."
)


class TakeoverStore:
    """The store of a worker, for the session of one job.

    Args:
        inner: The store of the worker.
        record: The job, with the epoch of the lease that an earlier attempt had.
        note: Called with the epoch of the lease that this attempt has.
        check: Called before entries are written. Raises StoreUnavailable while another worker may own the job, and SessionLost if
            one does.
    """

    def __init__(self, inner: SessionStore, record: JobRecord, note: Callable[[int], None], check: Callable[[], None]) -> None:
        self._inner = inner
        self._record = record
        self._note = note
        self._check = check
        #: The lease of the job's session.
        self._lease: Lease | None = None
        #: Whether the session of the job is certainly new, so that it need not be looked for.
        self._is_new = record.attempts == record.generation == 1 and record.session == record.id
        self.renew = inner.renew
        self.release = inner.release
        self.read = inner.read
        self.list = inner.list
        self.fork = inner.fork
        self.delete = inner.delete
        self.close = inner.close

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        """Create a session, and note its lease if it is that of the job."""
        lease = await self._inner.create(id, header, owner=owner, lease_seconds=lease_seconds, lines=lines)
        self._note_lease(lease)
        return lease

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        """Append entries, if this worker owns the job: no tool starts before its start is written."""
        self._check()
        return await self._inner.append(lease, lines, after=after)

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        """Take the session of the job from the worker that had it before, and note the new lease."""
        if self._is_new and id == self._record.session:
            self._is_new = False  # if it exists after all, creating it fails, and then it is opened
            raise make_not_found_error(id)
        if id == self._record.session and self._record.lease is not None:
            await self._inner.release(Lease(id, self._record.lease, "", 0.0, 0.0))
        lease = await self._inner.open(id, owner=owner, lease_seconds=lease_seconds)
        self._note_lease(lease)
        return lease

    async def leave(self) -> None:
        """Release the session of a job that another worker owns."""
        if self._lease is not None:
            await self._inner.release(self._lease)

    def _note_lease(self, lease: Lease) -> None:
        if lease.id == self._record.session:
            self._lease = lease
            self._note(lease.epoch)


def make_agent(
    job: Job, placement: Placement, options: Mapping[str, Any], store: SessionStore, owner: str, hooks: Hooks
) -> Agent:
    """Return the agent of a job. Its session is not open yet.

    Args:
        job: The job.
        placement: Where it works.
        options: Options of agents that apply to all jobs of the worker; see `make_options`.
        store: Where its session is kept.
        owner: The name of the worker.
        hooks: The functions that the agent calls.
    """
    chosen: dict[str, Any] = dict(options)
    if job.model is not None:
        chosen["model"] = job.model
        if "/" in job.model and "base_url" not in chosen:  # the worker's provider is that of the worker's model
            chosen.pop("provider", None)
    secret = None if job.key is None else os.environ.get(key_variable(job.key))
    if secret:
        chosen["api_key"] = secret
        if job.model is not None and "/" in job.model:
            chosen["provider"] = job.model.partition("/")[0]
    if placement.shell is not None:
        chosen["env"] = {**os.environ, "PATH": path_with(placement.shell)}
    storage = Storage(store=store, lease_owner=owner, lease_seconds=SESSION_LEASE_SECONDS)
    agent = Agent(make_options(chosen, cwd=placement.cwd, hooks=hooks, store=storage, session_id=job.session_id))
    if placement.shell is not None and agent.settings.shell_path is not None:
        raise WorkspaceError("The setting shellPath replaces the shell that runs commands in the container. Remove it.")
    if placement.shell is not None:
        # By its path, so that no other program called bash can take its place.
        agent.session.host.workspace.shell = str(placement.shell)
    return agent


def make_options(chosen: Mapping[str, Any], **more: Any) -> AgentOptions:
    """Return the options of an agent. Those in `chosen` may come from JSON, in which `behaviour` is an object."""
    given: dict[str, Any] = {**chosen, **more, "behaviour": Behaviour(**chosen.get("behaviour", {}))}
    return AgentOptions(**given)


async def open_session(agent: Agent) -> None:
    """Open the session of an agent, if necessary after the lease of another owner has expired. Raises SessionInUse."""
    await retry_while_leased(agent.open, SESSION_LEASE_SECONDS + 2, _TAKE_INTERVAL)


def key_variable(key: str) -> str:
    """Return the variable in which a worker finds the secret of a key: FAIRLEAD_KEY_TEAM_A for team-a."""
    return FLEET_KEY_PREFIX + "".join(char if char.isalnum() else "_" for char in key).upper()


def prompts_of(agent: Agent) -> int:
    """Return how many prompts the session of an agent has."""
    history = agent.session.history
    return len(history.log.user_messages()) if history.count else 0


def used_since(agent: Agent, prompts: int) -> tuple[int, int, float]:
    """Return the turns, tokens and dollars that the session of an agent has used since the prompt after this many.

    Entries are durable before they are counted. So the session knows of calls that a worker did not live to record.
    """
    log = agent.session.history.log
    prompt = log.user_messages()[prompts][0]
    first = next(position for position in range(len(log)) if log.at(position)[0].id == prompt)
    found = [log.at(position) for position in range(first, len(log))]
    calls = list(spendings(b"\n".join(line for _, line in found)))
    answers = [message for entry, _ in found for message in log.read(entry) if isinstance(message, AssistantMessage)]
    turns = sum(answer.stop_reason not in ("error", "aborted") for answer in answers)
    tokens = sum(call.input + call.output + call.cache_read + call.cache_write for call in calls)
    return turns, tokens, sum(call.cost for call in calls)


async def run_or_resume(
    agent: Agent, job: Job, *, has_begun: bool, limits: Callable[[], Mapping[str, Any]], is_restored: bool = False
) -> str:
    """Bring the prompt of a job to its end, and return the answer.

    If an earlier attempt has sent the prompt, its run is resumed. If that run has ended with an answer, which the worker did not
    live to record, nothing runs again. If it was aborted, because the job was cancelled, the prompt is sent again. `limits` is
    called if anything has to run. With `is_restored`, the model of a resumed run is told that its files may be older than the
    conversation.

    Raises what `Agent.ask` and `limits` raise.
    """
    if has_begun:
        if agent.interrupted:
            left = limits()
            if is_restored:
                await agent.session.steer(RESTORED, expand=False)
            return (await agent.resume(**left)).text
        messages = agent.session.messages
        last = messages[-1] if messages else None
        if isinstance(last, AssistantMessage) and last.stop_reason in ("stop", "length"):
            return last.text()
    return (await agent.ask(job.prompt, expand=False, **limits())).text


async def read_header(store: SessionStore, session: str) -> dict[str, Any] | None:
    """Return the header of a session, empty if it is damaged. None if there is no such session."""
    try:
        data = (await store.read(session, limit=1)).header
    except SessionNotFound:
        return None
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


async def read_transcript(store: SessionStore, session: str) -> bytes | None:
    """Return a session as the lines of a session file. None if there is no such session."""
    with suppress(SessionNotFound):
        stored = await store.read(session)
        lines = (each.line for each in stored.lines if not each.line.startswith(NOTE_MARK))
        return b"".join(line + b"\n" for line in (stored.header, *lines))
    return None
