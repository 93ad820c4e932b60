"""Sub-agents: sessions that work for a tool call of another session, and end with it.

Each has its own context, tools and model. What they spend counts for the session that they work for, and their conversations
are kept in a directory beside its file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw, Struct, UnsetType

from fairlead.config.settings import TaskSettings
from fairlead.core.events import EntryAppended, Event
from fairlead.core.model import Model
from fairlead.core.runtime import CancelToken
from fairlead.core.snapshots import SubagentActivity, SubagentSnapshot
from fairlead.core.tool import Tool
from fairlead.session.subagents import subagent
from fairlead.session.subagents.agent_kinds import AgentDefinition, Slot, Slots
from fairlead.stores.deleting import remove_leftovers_in
from fairlead.stores.paths import transcripts_folder
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.additions import Extensions
    from fairlead.session.approval_mode import SessionApprovals, SubagentApprover
    from fairlead.session.asyncio_runtime import AsyncioRuntime
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.current import CurrentConversation
    from fairlead.session.host import Host
    from fairlead.session.run.state import Activity
    from fairlead.session.selection import Selection
    from fairlead.session.session import Session
    from fairlead.session.session_events import Events
    from fairlead.session.subagents.subagent import Subagent
    from fairlead.session.toolbox import Toolbox

LONGEST_ID = 48


class Parent(Struct, frozen=True, kw_only=True):
    """The parts of a session that its sub-agents use, or have in common with it."""

    current: CurrentConversation
    events: Events
    runtime: AsyncioRuntime
    host: Host
    toolbox: Toolbox
    selection: Selection
    extensions: Extensions
    approver: SessionApprovals | SubagentApprover | None
    activity: Activity


class Spawner(Protocol):
    """Makes the session of a sub-agent. Raises a FairleadError if that cannot be done."""

    def __call__(self, parent: Parent, agent: AgentDefinition, subagents: SessionSubagents, file: Path | None) -> Session: ...


class Order(Struct, frozen=True):
    """A piece of work. The id is a suggestion: it changes if it is taken or cannot be part of a file name."""

    id: str
    description: str
    assignment: str


class Family:
    """What a session and all agents below it share."""

    def __init__(
        self,
        agents: Mapping[str, AgentDefinition],
        settings: TaskSettings,
        spawner: Spawner,
        make_tools: Callable[[Workspace], Mapping[str, Tool]],
    ) -> None:
        self.agents = agents
        self.spawner = spawner
        #: Makes the tools of a sub-agent that need its own workspace. It shares the others with its parent.
        self.make_tools = make_tools
        self.slots = Slots(settings.max_concurrency)
        self.most_at_once = settings.max_concurrency
        self.deepest = settings.max_recursion_depth
        #: The session that all this is done for.
        self.root: Parent | None = None
        #: Awaited when a sub-agent begins, and with its last answer when it is about to end. What it returns is added to the
        #: assignment, or makes the sub-agent continue.
        self.hook: Callable[[SubagentActivity, str | None], Awaitable[str | None]] | None = None
        #: All sub-agents of the present conversation, by id. Of those that have ended only this is left.
        self._known: dict[str, Subagent | SubagentSnapshot] = {}

    def notify(self, event: Event) -> None:
        """Send an event to the listeners of the session that all this is done for."""
        if self.root is not None:
            self.root.events.notify(event)

    def ids(self) -> list[str]:
        return list(self._known)

    def add(self, child: Subagent) -> None:
        self._known[child.assignment.id] = child

    def stop(self, id: str) -> Subagent | None:
        """Stop a sub-agent, whose parent continues. Returns it; None if it is not at work."""
        child = self._known.get(id)
        if child is None or isinstance(child, SubagentSnapshot) or child.status not in ("pending", "running"):
            return None
        child.stop.fire()
        return child

    def remember(self, ended: SubagentSnapshot) -> None:
        """Keep what is left of a sub-agent that has ended, unless the conversation is another one by now."""
        if ended.id in self._known:
            self._known[ended.id] = ended

    def forget_all(self) -> None:
        self._known.clear()

    def snapshots(self) -> list[SubagentSnapshot]:
        return [each if isinstance(each, SubagentSnapshot) else each.snapshot() for each in self._known.values()]


class SessionSubagents:
    """The sub-agents of one session. `owner` is the sub-agent whose session it is, and `slot` its slot."""

    def __init__(self, family: Family, *, depth: int = 0, owner: Subagent | None = None, slot: Slot | None = None) -> None:
        self.family = family
        self.depth = depth
        self._owner = owner
        self._slot = slot
        self._parent: Parent | None = None
        self._at_work: list[asyncio.Task[None]] = []

    @property
    def may_spawn(self) -> bool:
        return self.depth < self.family.deepest and bool(self.family.agents)

    @property
    def owner_id(self) -> str | None:
        """The id of the sub-agent that they work for; None if that is the first session."""
        return None if self._owner is None else self._owner.assignment.id

    @property
    def parent(self) -> Parent:
        """The session that they work for."""
        assert self._parent is not None, "a session attaches itself when it is made"
        return self._parent

    def attach(self, parent: Parent) -> None:
        """Work for this session from now on."""
        self._parent = parent
        if self._owner is None:
            self.family.root = parent

    # Working

    def prepare(self, agent: AgentDefinition, orders: Sequence[Order], context: str, call_id: str) -> list[subagent.Subagent]:
        """The sub-agents for some orders. They wait until `work` lets them begin."""
        place_of = self.parent.current.conversation.place_of_subagent
        first = place_of(0, agent.name)
        ids = _Ids(self._list_taken(None if first is None else first.parent))
        prefix = f"{self._owner.assignment.id}." if self._owner is not None else ""
        children: list[subagent.Subagent] = []
        for index, order in enumerate(orders):
            name = ids.new(order.id, agent.name)
            assignment = subagent.Assignment(
                id=prefix + name,
                index=index,
                call_id=call_id,
                description=order.description,
                text=order.assignment,
                context=context,
                file=place_of(index, name),
            )
            children.append(subagent.Subagent(self, agent, assignment))
            self.family.add(children[-1])
        return children

    async def work(self, children: Sequence[Subagent], cancel: CancelToken) -> None:
        """Let sub-agents work, and wait until all of them have ended. If `cancel` fires, or the wait is cut off, they stop."""
        stop = CancelToken()
        forget = cancel.on_fire(stop.fire)
        jobs = [partial(child.work, stop) for child in children]
        work = asyncio.create_task(self.parent.runtime.run_all(jobs, self.family.most_at_once), name="fairlead-subagents")
        self._at_work.append(work)
        work.add_done_callback(self._at_work.remove)
        try:
            async with self._slot.lent(stop) if self._slot is not None else nullcontext():
                try:
                    # Not torn down from here: they end by themselves, and `ended` waits for it.
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    stop.fire()
                    raise
        finally:
            forget()

    async def wait_ended(self) -> None:
        """Wait until no sub-agent works any more."""
        while self._at_work:
            await asyncio.wait(self._at_work)

    def forget(self) -> None:
        """Forget all of them: the session works with another conversation."""
        self.family.forget_all()

    # Looking

    def snapshots(self) -> list[SubagentSnapshot]:
        """The state of all sub-agents of the conversation, on all levels, in the order in which they were requested."""
        return self.family.snapshots()

    def transcript_of(self, id: str) -> Path | None:
        """The file with the conversation of a sub-agent; None if it is not known, or is not kept."""
        for child in self.snapshots():
            if child.id == id and not isinstance(child.session_file, UnsetType):
                return Path(child.session_file)
        return None

    def is_transcript(self, path: Path) -> bool:
        """Whether a file is the conversation of a sub-agent of this session, which may have ended long ago."""
        file = self.parent.current.conversation.path
        if file is None or path.suffix != ".jsonl":
            return False
        return path.resolve().is_relative_to(transcripts_folder(file).resolve())

    # For a sub-agent

    def spawn(self, child: Subagent, slot: Slot) -> Session:
        below = SessionSubagents(self.family, depth=self.depth + 1, owner=child, slot=slot)
        return self.family.spawner(self.parent, child.agent, below, child.assignment.file)

    def settle(self, child: Subagent, conversation: Conversation, model: Model | None) -> None:
        """A sub-agent has ended: count what it spent, and keep what could not be written."""
        if not conversation.close() and self.family.root is not None:
            self.family.root.current.unsaved.append(conversation)
        if not child.usage.total_tokens or model is None:
            return
        if self._owner is not None:
            self._owner.spend(child.usage)
        own = self.parent.current.conversation
        note = child.assignment.id
        own.keep(lambda: own.log.usage("subagent", model.provider, model.id, child.usage, note, keep=True))
        self.parent.events.notify(EntryAppended(Raw(own.log.last_line)))

    def _list_taken(self, folder: Path | None) -> set[str]:
        """The names of all sub-agents that this conversation has had, also in other processes."""
        taken = {id.rpartition(".")[2] for id in self.family.ids()}
        if folder is not None:
            remove_leftovers_in(folder)
            # The directory may not exist yet; if it cannot be read, writing the first file says why.
            with suppress(OSError):
                taken |= {path.stem.partition("-")[2] for path in folder.iterdir()}
        return taken


class _Ids:
    """Gives each name once. Upper and lower case are the same, as on some file systems."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = {name.lower() for name in taken}
        self._counts: dict[str, int] = {}

    def new(self, wanted: str, otherwise: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted)[:LONGEST_ID].strip("-") or otherwise
        count, name = self._counts.get(base, 1), base
        while name.lower() in self._taken:
            count += 1
            name = f"{base}-{count}"
        self._counts[base] = count
        self._taken.add(name.lower())
        return name
