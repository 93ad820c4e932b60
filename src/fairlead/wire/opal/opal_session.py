"""One session of an Opal client: an agent, what is told of it, and what it may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.core.events import Event
from fairlead.errors import BadParams, CompactionCancelled, FairleadError
from fairlead.protocol.opal.objects import FeatureChanges, Features, ToolNames
from fairlead.session.session import Session
from fairlead.wire.jsonrpc import INTERNAL_ERROR, RpcError
from fairlead.wire.opal.narrator import Narrator, RunStatus

#: How many of the newest messages a compaction leaves alone, where the client does not say.
KEEP_RECENT = 10

#: How the names of tools of MCP servers begin. Which there are is found out with the first turn.
SERVER_TOOLS = "mcp_"


class Prompted(Struct, frozen=True):
    """What became of a prompt. `then` tells of it, once the client has its answer."""

    queued: bool
    then: Callable[[], None]


class OpalSession:
    """`own_tools` are Opal's, in their order; what is `excluded` does not exist here. Which tools the model may use, `allow`
    and `configure` say."""

    def __init__(
        self,
        id: str,
        agent: Agent,
        narrator: Narrator,
        own_tools: Sequence[str],
        excluded: Collection[str],
        features: Features,
    ) -> None:
        self.id = id
        self.agent = agent
        self.narrator = narrator
        self.features = features
        self._own_tools = own_tools
        self._excluded = excluded
        self._allowed: Sequence[str] | None = None
        self._held: list[Event] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._statuses: list[str] | None = None
        #: Commands of extensions that are going on.
        self.commands: set[asyncio.Task[None]] = set()
        #: Whether the client has asked for a compaction that goes on, and whether a prompt waits for its end.
        self._is_compacting = self._runs_after_compaction = False
        agent.session.subscribe(self._tell)
        agent.session.queues.steering.mode = "all"
        # Requests are answered in order: a key that takes long to find must not hold up those of other sessions.
        agent.session.intake.waits_for_key = False

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def is_kept(self) -> bool:
        """Whether its conversation has a file."""
        return self.session.conversation.path is not None

    # Telling

    def _tell(self, event: Event) -> None:
        if self._held is not None:
            self._held.append(event)
        else:
            self.narrator.tell(event)

    @contextmanager
    def silent(self) -> Generator[Callable[[], None]]:
        """Hold back what happens until the client has its answer: call what this gives once it has been sent. After an error
        that is at the end of the block."""
        held = self._held = [] if self._held is None else self._held

        def tell_all() -> None:
            if self._held is held:
                self._held = None
                for event in held:
                    self.narrator.tell(event)

        try:
            yield tell_all
        except BaseException:
            tell_all()
            raise

    def show(self, status: str) -> None:
        """Tell of a status."""
        if self._statuses is not None:
            self._statuses.append(status)
        else:
            self.narrator.show(status)

    @contextmanager
    def answering(self) -> Generator[None]:
        """While a request is carried out: what an extension shows because of it follows the answer."""
        statuses = self._statuses = []
        try:
            yield
        finally:
            self._statuses = None
            for status in statuses:
                self.narrator.show(status)

    # Running

    async def prompt(self, text: str) -> Prompted:
        """Give the agent something to do, now or when it next listens. Raises FairleadError if it cannot be accepted."""
        session, narrator = self.session, self.narrator
        hooks = await session.ready() if text.startswith("/") else None
        if hooks is not None and hooks.has_command(text):
            return Prompted(False, lambda: self._begin_command(text))
        if self._is_compacting and not session.is_streaming:
            return await self._prompt_later(text)
        with self.silent() if not session.is_streaming else nullcontext(nothing) as tell_all:
            message = await session.prompt(text, source="rpc", behavior="steer")
            queued = message is not None and session.queues.steering.holds(message)
            self._runs_after_compaction |= queued and self._is_compacting  # the run that hears nothing any more ends for it

            def then() -> None:
                if message is None:
                    self._tell_handled(text)
                elif queued:
                    narrator.queued(message, text)
                else:
                    narrator.applied(message, text)
                tell_all()

            return Prompted(queued, then)

    async def _prompt_later(self, text: str) -> Prompted:
        """Let a prompt wait for the end of a compaction, which begins its run."""
        narrator = self.narrator
        message = await self.session.steer(text, source="rpc")
        if message is None:
            return Prompted(False, lambda: self._tell_handled(text))
        self._runs_after_compaction = True
        return Prompted(True, lambda: narrator.queued(message, text))

    def _tell_handled(self, text: str) -> None:
        """An extension has seen to a prompt: it is over."""
        self.narrator.command_began(text)
        self.narrator.command_ended()

    def _begin_command(self, text: str) -> None:
        """Run a command of an extension's. It may take long, and ask the user."""
        self.narrator.command_began(text)
        task = asyncio.create_task(self._command(text), name="fairlead-command")
        self.commands.add(task)
        task.add_done_callback(self.commands.discard)

    async def _command(self, text: str) -> None:
        try:
            await self.session.prompt(text, source="rpc")
        except FairleadError as error:
            self.show(str(error))
        finally:
            self.narrator.command_ended()

    def stop(self) -> None:
        """Stop the run, or a compaction. What is asked of this session next waits until that has ended."""
        self._runs_after_compaction = False
        self.session.cancel()
        if not self.is_stopping and not self.session.is_streaming and not self._is_compacting:
            self.narrator.stopped_idle()
            return
        before = self._stopping if self.is_stopping else None
        ends_run = before is None and self.session.is_streaming
        self._stopping = asyncio.create_task(self._stop(before, ends_run), name="fairlead-stop")

    async def _stop(self, before: asyncio.Task[None] | None, ends_run: bool) -> None:
        await (self.session.abort() if before is None else before)
        if not ends_run:  # else its own end was told
            self.narrator.stopped_idle()

    @property
    def is_stopping(self) -> bool:
        """Whether a run, or a compaction, was told to stop and has not ended."""
        return self._stopping is not None and not self._stopping.done()

    async def settled(self) -> None:
        """Wait until what was told to stop has ended."""
        while self._stopping is not None and not self._stopping.done():
            await asyncio.wait([self._stopping])

    @property
    def status(self) -> RunStatus:
        told = self.narrator.status
        return "running" if told == "idle" and self.session.is_streaming else told

    def cancel(self) -> None:
        """Tell whatever runs to stop, without waiting for it."""
        self.session.cancel()
        self.narrator.command_aborted()

    async def close(self) -> None:
        self._runs_after_compaction = False
        await self.agent.close()

    # The conversation

    async def branch(self, entry_id: str) -> Callable[[], None]:
        """Go on from another message. Returns what tells of the run that was stopped for it. Raises EntryNotFound, and
        MoveCancelled if an extension forbids it."""
        from fairlead.session.history import moves

        await moves.allow_branch(self.session, entry_id)
        self._runs_after_compaction = False
        with self.silent() as tell_all:
            await moves.branch(self.session, entry_id)
            return tell_all

    async def compact(self, keep_recent: int | None) -> None:
        """Replace the older part of the conversation by a summary. Raises FairleadError if the model cannot write one."""
        if not self.is_kept:
            raise RpcError(INTERNAL_ERROR, "Session persistence not enabled — cannot compact")
        if keep_recent is not None and keep_recent < 1:
            raise BadParams(f"keep_recent: expected a number of at least 1, got {keep_recent}")
        compaction = self.session.compactor.request(None, keep_messages=keep_recent or KEEP_RECENT)
        self._is_compacting, self._runs_after_compaction = True, False
        try:
            await compaction
        except CompactionCancelled as cancelled:
            if not cancelled.reason:  # an abort: prompts wait on, as after any other
                self._runs_after_compaction = False
            raise
        finally:
            self._is_compacting = False
            if self._runs_after_compaction:
                self.session.intake.begin_with_queued()

    # What it may do

    def allow(self, tools: Sequence[str] | None) -> None:
        """Let the model use these tools, as far as there are such; None: all."""
        self._allowed = tools
        self._activate()

    def configure(self, features: FeatureChanges | None, tools: Sequence[str] | None) -> None:
        """Change both, or neither. Raises BadParams."""
        if tools is not None:
            self._check(tools)
            self._allowed = tools
        if features is not None:
            self.features = changed(self.features, features)
        self._activate()

    def tools(self) -> ToolNames:
        names = self._all()
        allowed = names if self._allowed is None else self._allowed
        return ToolNames(names, self._enabled(), [name for name in names if name not in allowed])

    def _all(self) -> list[str]:
        """Opal's tools, and those that extensions and servers have brought."""
        names = dict.fromkeys([*self._own_tools, *self.session.tools])
        return [name for name in names if name not in self._excluded]

    def _enabled(self) -> list[str]:
        active = set(self.session.active_tools)
        return [name for name in self._all() if name in active]

    def _check(self, tools: Sequence[str]) -> None:
        known, has_servers = self._all(), self.session.servers is not None
        unknown = [name for name in tools if name not in known and not (has_servers and name.startswith(SERVER_TOOLS))]
        if unknown:
            raise BadParams("Unknown tools in tools list", data=f"unknown tools: {', '.join(unknown)}")

    def _activate(self) -> None:
        names = self._all()
        allowed = names if self._allowed is None else self._allowed
        features = self.features
        shut = {"sub_agent": not features.sub_agents, "debug_state": not features.debug, "use_skill": not self._has_skills()}
        self.session.set_active_tools([name for name in names if name in allowed and not shut.get(name)])

    def _has_skills(self) -> bool:
        return self.features.skills and bool(self.skills())

    def skills(self) -> list[str]:
        """The names of the skills that were found."""
        session = self.session
        if session.additions is None:
            return []
        return [skill.name for skill in session.additions.skills(session.workspace.cwd)]


def changed(features: Features, changes: FeatureChanges) -> Features:
    """The features with some turned on or off."""

    def either(change: bool | None, before: bool) -> bool:
        return before if change is None else change

    return Features(
        either(changes.sub_agents, features.sub_agents),
        either(changes.skills, features.skills),
        either(changes.debug, features.debug),
    )


def nothing() -> None:
    """Where there is nothing to tell."""
