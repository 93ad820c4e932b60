"""Sessions of a fleet for hosts on WebSockets: the store as such a host may use it, and the approval modes of its sessions.

A host has the lease of a session for as long as it has the session open. Another process that has it gets some time to hand it
back, as for the requests of clients over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions
from fairlead.core import events
from fairlead.protocol.http import objects as o
from fairlead.serve.refusals import Refusal, outside_root
from fairlead.serve.sessions.spaces import Fleet, Space
from fairlead.serve.sessions.submissions import noted_approval
from fairlead.serve.sessions.watched import run_by_workers
from fairlead.session.approval_mode import note_mode, noted_mode
from fairlead.session.history.conversation import Conversation
from fairlead.sessions.open_sessions import retry_while_leased
from fairlead.stores import Lease, StoredLines, StoredSession
from fairlead.stores.headers import read_header
from fairlead.stores.paths import is_subagent_id

T = TypeVar("T")


class HostStore:
    """Implements `fairlead.stores.SessionStore` with the store of a fleet.

    Sessions that workers run, and those outside the root of the server, cannot be opened or deleted.

    Args:
        fleet: The fleet.
        admits: Whether sessions may work in a directory.
        patience: Seconds that another process has to hand a session back.
    """

    def __init__(self, fleet: Fleet, admits: Callable[[Path], bool], patience: float) -> None:
        self._fleet = fleet
        self._store = fleet.store
        self._admits = admits
        self._patience = patience

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        return await self._store.create(id, header, owner=owner, lease_seconds=lease_seconds, lines=lines)

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        if not self._shows((await self._store.read(id, 0, 1)).header):
            raise outside_root()
        if await self._fleet.jobs.list(session=id):
            raise run_by_workers()
        return await retry_while_leased(lambda: self._store.open(id, owner=owner, lease_seconds=lease_seconds), self._patience)

    async def renew(self, lease: Lease) -> Lease:
        return await self._store.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self._store.release(lease)

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        return await self._store.append(lease, lines, after=after)

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        found = await self._store.read(id, after, limit)
        if not self._shows(found.header):
            raise outside_root()
        return found

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        while True:
            page = await self._store.list(after=after, limit=limit)
            shown = [each for each in page if not is_subagent_id(each.id) and self._shows(each.header)]
            if shown or not page:
                return shown
            after = page[-1].id

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        await self.read(id, 0, 1)
        return await self._store.fork(id, new_id, header, up_to)

    async def delete(self, id: str) -> None:
        await self.read(id, 0, 1)
        if any(not job.has_ended for job in await self._fleet.jobs.list(session=id)):
            raise Refusal(409, "busy", "Jobs of this session have not ended. Abort them first.")
        await retry_while_leased(lambda: self._store.delete(id), self._patience)

    async def close(self) -> None:
        """Do nothing: the store is closed with the server."""

    def _shows(self, line: bytes) -> bool:
        header = read_header(line)
        return header is not None and self._admits(Path(header.cwd))


class HostSessions(Struct, frozen=True):
    """How the sessions of a host are kept."""

    #: Returns options of agents whose sessions are kept there.
    kept: Callable[[AgentOptions], AgentOptions]
    #: Called with each agent when its session is open.
    opened: Callable[[Agent], object]


def host_sessions(space: Space, patience: float) -> HostSessions:
    """Return how the sessions of a host are kept: in files, or in the store of a fleet."""
    match space.fleet:
        case None:
            return HostSessions(lambda options: options, lambda agent: None)
        case fleet:
            return HostSessions(partial(space.with_store, HostStore(fleet, space.admits, patience)), ApprovalNotes)


class ApprovalNotes:
    """Keeps the approval mode with the session of an agent, so that no server is more permissive than the one before.

    Make it when the session is open and the agent has the mode that it has by default.
    """

    def __init__(self, agent: Agent) -> None:
        self._session = agent.session
        self._default: o.Approval = agent.session.approvals.mode
        #: The mode that this object has chosen last, which is not that of a client.
        self._restored: o.Approval | None = None
        #: The conversation that is known to have a note.
        self._noted: Conversation | None = None
        self._restore()
        agent.session.subscribe(self._observe)

    def _observe(self, event: events.Event) -> None:
        conversation = self._session.history.conversation
        match event:
            case events.SessionReplaced():
                self._restore()
            case events.ApprovalModeChanged(mode=mode):
                if mode != self._restored:
                    note_mode(conversation, mode, is_chosen=True)
                self._restored = None
            case events.AgentStart() if conversation is not self._noted:
                self._noted = conversation
                if noted_mode(conversation.log) is None:
                    note_mode(conversation, self._session.approvals.mode, is_chosen=False)
            case _:
                pass

    def _restore(self) -> None:
        conversation, approvals = self._session.history.conversation, self._session.approvals
        mode = noted_approval(conversation.log, self._default) if conversation.is_shared else self._default
        self._restored = mode if mode != approvals.mode else None
        approvals.set_mode(mode)
