"""One session of an Opal client: an agent, its narrator, its features and tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.core.events import Event
from fairlead.errors import CompactionCancelled, FairleadError
from fairlead.protocol.opal.opal_objects import FeatureChanges, Features, ToolNames
from fairlead.session.session import Session
from fairlead.session.session_events import Gate
from fairlead.wire.jsonrpc import INTERNAL_ERROR, BadParams, RpcError
from fairlead.wire.opal.opal_narrator import Narrator, RunStatus

#: How many of the newest messages a compaction keeps, unless the client says otherwise.
KEEP_RECENT = 10

#: The prefix of the names of MCP tools, which are known only after the first turn.
SERVER_TOOLS = "mcp_"


class Prompted(Struct, frozen=True):
    """The outcome of a prompt. `then` sends its events, once the client has the response."""

    queued: bool
    then: Callable[[], None]


class OpalSession:
    """`own_tools` are Opal's tools, in their order; those in `excluded` do not exist here. `allow` and `configure` choose the
    tools that the model may use."""

    def __init__(
        self,
        id: str,
        agent: Agent,
        narrator: Narrator,
        own_tools: Sequence[str],
        excluded: Collection[str],
        features: Features,
        *,
        gate: Gate,
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
        #: Extension commands that are running, and prompts that extensions are still working on.
        self.commands: set[asyncio.Task[None]] = set()
        #: Whether a compaction that the client requested is running, and whether a prompt waits for its end.
        self._is_compacting = self._runs_after_compaction = False
        agent.session.subscribe(self._send_event, gate)
        agent.session.queue.steering.mode = "all"

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def is_kept(self) -> bool:
        """Whether the conversation is saved in a file or in a session store."""
        history = self.session.history
        return history.sessions.archive.name_of(history.conversation) is not None

    @property
    def is_lost(self) -> bool:
        """Whether another owner has the conversation by now."""
        return self.session.history.conversation.is_lost

    # Events

    def _send_event(self, event: Event) -> None:
        if self._held is not None:
            self._held.append(event)
        else:
            self.narrator.send_event(event)

    @contextmanager
    def silent(self) -> Generator[Callable[[], None]]:
        """Hold back events until the client has the response.

        Yields a function that sends them, to be called after the response. If the block raises, they are sent at its end."""
        held = self._held = [] if self._held is None else self._held

        def send_held() -> None:
            if self._held is held:
                self._held = None
                for event in held:
                    self.narrator.send_event(event)

        try:
            yield send_held
        except BaseException:
            send_held()
            raise

    def show(self, status: str) -> None:
        """Send a status."""
        if self._statuses is not None:
            self._statuses.append(status)
        else:
            self.narrator.show(status)

    @contextmanager
    def answering(self) -> Generator[None]:
        """Hold back statuses during a request, so that what an extension shows because of it follows the response."""
        statuses = self._statuses = []
        try:
            yield
        finally:
            self._statuses = None
            for status in statuses:
                self.narrator.show(status)

    # Running

    async def prompt(self, text: str) -> Prompted:
        """Start a run with a prompt, or queue it during a run. Raises FairleadError if it cannot be accepted.

        If extensions take longer than they may to handle the prompt, it is accepted anyway. Its events then report the outcome.
        """
        session = self.session
        hooks = await session.extensions.ready() if text.startswith("/") else None
        if hooks is not None and hooks.has_command(text):
            return Prompted(False, lambda: self._begin_command(text))
        if not session.extensions.exist():
            return await self._submit(text)
        submitted = asyncio.create_task(self._submit(text), name="fairlead-prompt")
        try:
            await asyncio.wait({submitted}, timeout=self.agent.settings.extension_timeout_seconds)
        except asyncio.CancelledError:
            submitted.cancel()
            raise
        return submitted.result() if submitted.done() else Prompted(False, lambda: self._finish_later(submitted, text))

    def _finish_later(self, submitted: asyncio.Task[Prompted], text: str) -> None:
        """Continue with a prompt that extensions are still working on, though the client has the response."""

        async def finish() -> None:
            try:
                (await submitted).then()
            except FairleadError as error:
                self.narrator.announce_refusal(text, error)

        self._keep(asyncio.create_task(finish(), name="fairlead-prompt"))

    async def resume(self) -> Callable[[], None]:
        """Continue an interrupted run. Returns a function that sends its first events. Raises FairleadError if it has ended."""
        with self.silent() as tell_all:
            await self.session.activity.resume()
            return tell_all

    async def _submit(self, text: str) -> Prompted:
        session, narrator = self.session, self.narrator
        if self._is_compacting and not session.activity.is_streaming:
            return await self._prompt_later(text)
        with self.silent() if not session.activity.is_streaming else nullcontext(do_nothing) as tell_all:
            message = await session.prompt(text, source="rpc", behavior="steer")
            queued = message is not None and session.queue.steering.holds(message)
            # The run that no longer takes messages ends for the compaction.
            self._runs_after_compaction |= queued and self._is_compacting

            def then() -> None:
                if message is None:
                    self._announce_handled(text)
                elif queued:
                    narrator.announce_queued(message, text)
                else:
                    narrator.announce_prompt(message, text)
                tell_all()

            return Prompted(queued, then)

    async def _prompt_later(self, text: str) -> Prompted:
        """Queue a prompt until a compaction has ended. Its run starts then."""
        narrator = self.narrator
        message = await self.session.steer(text, source="rpc")
        if message is None:
            return Prompted(False, lambda: self._announce_handled(text))
        self._runs_after_compaction = True
        return Prompted(True, lambda: narrator.announce_queued(message, text))

    def _announce_handled(self, text: str) -> None:
        """Announce a prompt that an extension has handled."""
        self.narrator.announce_command_start(text)
        self.narrator.announce_command_end()

    def _begin_command(self, text: str) -> None:
        """Start an extension command. It may take long, and ask the user."""
        self.narrator.announce_command_start(text)
        self._keep(asyncio.create_task(self._command(text), name="fairlead-command"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self.commands.add(task)
        task.add_done_callback(self.commands.discard)

    async def _command(self, text: str) -> None:
        try:
            await self.session.prompt(text, source="rpc")
        except FairleadError as error:
            self.show(str(error))
        finally:
            self.narrator.announce_command_end()

    def stop(self) -> None:
        """Stop the run or the compaction. Later requests to this session wait until it has ended."""
        self._runs_after_compaction = False
        self.session.activity.cancel()
        if not self.is_stopping and not self.session.activity.is_streaming and not self._is_compacting:
            self.narrator.announce_idle_stop()
            return
        before = self._stopping if self.is_stopping else None
        ends_run = before is None and self.session.activity.is_streaming
        self._stopping = asyncio.create_task(self._stop(before, ends_run), name="fairlead-stop")

    async def _stop(self, before: asyncio.Task[None] | None, ends_run: bool) -> None:
        await (self.session.abort() if before is None else before)
        if not ends_run:  # else the run has announced its end itself
            self.narrator.announce_idle_stop()

    @property
    def is_stopping(self) -> bool:
        """Whether a run or a compaction was stopped and has not ended yet."""
        return self._stopping is not None and not self._stopping.done()

    async def wait_settled(self) -> None:
        """Wait until what was stopped has ended."""
        while self._stopping is not None and not self._stopping.done():
            await asyncio.wait([self._stopping])

    @property
    def status(self) -> RunStatus:
        told = self.narrator.status
        return "running" if told == "idle" and self.session.activity.is_streaming else told

    def cancel(self) -> None:
        """Stop running work, without waiting for it."""
        self.session.activity.cancel()
        self.narrator.announce_command_abort()

    async def close(self) -> None:
        self._runs_after_compaction = False
        await self.agent.close()

    # The conversation

    async def branch(self, entry_id: str) -> Callable[[], None]:
        """Continue from another message. Returns a function that sends the events of the run that was stopped for it.

        Raises EntryNotFound, and MoveCancelled if an extension blocks it."""
        await self.session.history.allow_branch(entry_id)
        self._runs_after_compaction = False
        with self.silent() as tell_all:
            await self.session.history.branch(entry_id)
            return tell_all

    async def compact(self, keep_recent: int | None) -> None:
        """Replace the older part of the conversation with a summary. Raises FairleadError if the model cannot write one."""
        if not self.is_kept:
            raise RpcError(INTERNAL_ERROR, "Session persistence not enabled — cannot compact")
        if keep_recent is not None and keep_recent < 1:
            raise BadParams(f"keep_recent: expected a number of at least 1, got {keep_recent}")
        compaction = self.session.compact(keep_messages=keep_recent or KEEP_RECENT)
        self._is_compacting, self._runs_after_compaction = True, False
        try:
            await compaction
        except CompactionCancelled as cancelled:
            if not cancelled.reason:  # an abort: prompts stay queued, as after any abort
                self._runs_after_compaction = False
            raise
        finally:
            self._is_compacting = False
            if self._runs_after_compaction:
                self.session.queue.start_run()

    # Features and tools

    def allow(self, tools: Sequence[str] | None) -> None:
        """Let the model use the existing ones among these tools; None: all tools."""
        self._allowed = tools
        self._activate()

    def configure(self, features: FeatureChanges | None, tools: Sequence[str] | None) -> None:
        """Change features and tools. Raises BadParams, and changes nothing then."""
        if tools is not None:
            self._check(tools)
            self._allowed = tools
        if features is not None:
            self.features = change_features(self.features, features)
        self._activate()

    def tools(self) -> ToolNames:
        names = self._all()
        allowed = names if self._allowed is None else self._allowed
        return ToolNames(names, self._list_enabled(), [name for name in names if name not in allowed])

    def _all(self) -> list[str]:
        """Opal's tools, and those of extensions and MCP servers."""
        names = dict.fromkeys([*self._own_tools, *self.session.tools])
        return [name for name in names if name not in self._excluded]

    def _list_enabled(self) -> list[str]:
        active = set(self.session.tools.active)
        return [name for name in self._all() if name in active]

    def _check(self, tools: Sequence[str]) -> None:
        known, has_servers = self._all(), self.session.additions.servers is not None
        unknown = [name for name in tools if name not in known and not (has_servers and name.startswith(SERVER_TOOLS))]
        if unknown:
            raise BadParams("Unknown tools in tools list", data=f"unknown tools: {', '.join(unknown)}")

    def _activate(self) -> None:
        names = self._all()
        allowed = names if self._allowed is None else self._allowed
        features = self.features
        shut = {"sub_agent": not features.sub_agents, "debug_state": not features.debug, "use_skill": not self._has_skills()}
        self.session.tools.activate([name for name in names if name in allowed and not shut.get(name)])

    def _has_skills(self) -> bool:
        return self.features.skills and bool(self.skills())

    def skills(self) -> list[str]:
        """The names of the available skills."""
        return [skill.name for skill in self.session.additions.skills()]


def change_features(features: Features, changes: FeatureChanges) -> Features:
    """Return the features with these changes."""

    def change_or_keep(change: bool | None, before: bool) -> bool:
        return before if change is None else change

    return Features(
        change_or_keep(changes.sub_agents, features.sub_agents),
        change_or_keep(changes.skills, features.skills),
        change_or_keep(changes.debug, features.debug),
    )


def do_nothing() -> None:
    """Do nothing: there are no events to send."""
