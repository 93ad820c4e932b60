"""One sub-agent: its assignment, its session while it works, and the events about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fairlead.core.events import (
    CompactionEnd,
    Event,
    ExtensionError,
    MessageEnd,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
    ToolEnd,
    ToolStart,
)
from fairlead.core.lenient import scrub
from fairlead.core.messages import AssistantMessage, Usage, add_usage, readable_error
from fairlead.core.model import Model, StreamEnd
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.core.snapshots import (
    LifecyclePayload,
    ProgressPayload,
    RecentTool,
    SubagentActivity,
    SubagentSnapshot,
    SubagentStatus,
)
from fairlead.errors import FairleadError
from fairlead.session.session_events import report
from fairlead.session.subagents.agent_kinds import Slot
from fairlead.tools.background import Paced

if TYPE_CHECKING:
    from fairlead.session.session import Session
    from fairlead.session.subagents.agent_kinds import AgentDefinition
    from fairlead.session.subagents.subagents import SessionSubagents

#: Seconds between two reports of a sub-agent's progress.
PROGRESS_INTERVAL = 0.2
#: How much a report shows: tool calls, lines of the last answer, characters of a line, characters of a longer text.
TOOLS_SHOWN, LINES_SHOWN, LINE_LENGTH, TEXT_LENGTH = 5, 5, 200, 1000

#: How often a sub-agent is told something before it ends.
_MOST_PROMPTS = 6

Outcome: TypeAlias = Literal["completed", "failed", "aborted"]


class Assignment(Struct, frozen=True, kw_only=True):
    """The work of a sub-agent. All sub-agents of a call get the same `context`."""

    id: str
    #: Its place among the assignments of the call `call_id`.
    index: int
    call_id: str
    description: str
    text: str
    context: str = ""
    #: The file that keeps its conversation; None: it is kept in memory.
    file: Path | None = None

    def format_prompt(self) -> str:
        """What the sub-agent is told."""
        return f"Context:\n{self.context}\n\nAssignment:\n{self.text}" if self.context else self.text


class Subagent:
    """A sub-agent, from the moment it waits for a slot."""

    def __init__(self, subagents: SessionSubagents, agent: AgentDefinition, assignment: Assignment) -> None:
        self.agent = agent
        self.assignment = assignment
        #: What it spent, with all its sub-agents.
        self.usage = Usage()
        #: Its last answer, and why it failed, if it did.
        self.output = ""
        self.error: str | None = None
        #: Called now and then while it works, and when it has ended.
        self.on_progress: Callable[[], None] = lambda: None
        self._subagents = subagents
        self._now_ms = subagents.parent.runtime.now_ms
        self._slot = Slot(subagents.family.slots)
        #: Stops it, and tells that it has ended.
        self.stop = CancelToken()
        self.ended = asyncio.Event()
        self._model: Model | None = None
        #: Where it works, once it has a slot.
        self._session: Session | None = None
        #: The arguments of the calls that run, in short.
        self._running: dict[str, str] = {}
        self._started_at = self._changed_at = self._now_ms()
        self._report_soon = Paced(self._report, PROGRESS_INTERVAL)
        self._activity = SubagentActivity(
            index=assignment.index,
            id=assignment.id,
            agent=agent.name,
            agent_source=agent.source,
            status="pending",
            task=cut(assignment.format_prompt(), TEXT_LENGTH),
            assignment=cut(assignment.text, TEXT_LENGTH),
            description=cut(" ".join(assignment.description.split()), LINE_LENGTH),
        )

    # Looking

    @property
    def status(self) -> SubagentStatus:
        return self._activity.status

    @property
    def activity(self) -> SubagentActivity:
        """A copy of what it has done so far."""
        activity = self._activity
        return replace(activity, recent_tools=list(activity.recent_tools), recent_output=list(activity.recent_output))

    def snapshot(self) -> SubagentSnapshot:
        activity = self.activity
        return SubagentSnapshot(
            id=activity.id,
            index=activity.index,
            agent=activity.agent,
            agent_source=activity.agent_source,
            description=activity.description,
            status=activity.status,
            task=activity.task,
            assignment=activity.assignment,
            parent_tool_call_id=self.assignment.call_id,
            last_update=self._changed_at,
            progress=activity,
            session_file=self._session_file(),
        )

    # Working

    async def work(self, cancel: CancelToken) -> None:
        """Wait for a slot, and do the assignment to its end. Raises nothing: see `status` and `error`."""
        forget = cancel.on_fire(self.stop.fire)
        try:
            if await self._slot.take(self.stop):
                await self._begin_and_end(self.stop)
            else:
                self._activity.status = "aborted"
        finally:
            forget()
            self.ended.set()
        self._subagents.family.remember(self.snapshot())

    async def _begin_and_end(self, cancel: CancelToken) -> None:
        self._started_at = self._now_ms()
        self._activity.status = "running"
        self._notify_lifecycle("started")
        outcome: Outcome = "failed"
        try:
            outcome = await self._run(cancel)
        except FairleadError as error:
            self.error = str(error)
        except Exception as error:  # a bug of ours: the other sub-agents continue, and the parent sees the error
            report(error)
            self.error = f"Internal error: {type(error).__name__}: {error}"
        finally:
            self._slot.give_back()
            self._activity.status = outcome
            self._report_soon.stop()
            self._report()
            self._notify_lifecycle(outcome)

    async def _run(self, cancel: CancelToken) -> Outcome:
        session = self._session = self._subagents.spawn(self, self._slot)
        self._model = session.model
        if session.model is not None:
            self._activity.resolved_model = f"{session.model.provider}/{session.model.id}"
        session.subscribe(self._observe, gate=self._subagents.parent.events)
        forget = cancel.on_fire(session.activity.cancel)
        try:
            if not cancel.fired:
                await self._converse(cancel)
        finally:
            forget()
            await session.close()
            self._subagents.settle(self, session.history.conversation, self._model)
        answer = session.history.last_answer()
        self.output = answer.text() if answer is not None else ""
        return self._judge(session.activity.last_end)

    async def _converse(self, cancel: CancelToken) -> None:
        """Do the assignment, and what the hook of the family wants besides."""
        session = self._session
        assert session is not None
        text = self.assignment.format_prompt()
        added = await self._ask_hook(None, cancel)
        text = text if added is None else f"{text}\n\n{added}"
        for _ in range(_MOST_PROMPTS):
            if cancel.fired:
                return
            await session.prompt(text, attribution="agent")
            await session.activity.idle()
            answer = session.history.last_answer()
            if self._judge(session.activity.last_end) != "completed" or answer is None:
                return
            wanted = await self._ask_hook(answer.text(), cancel)
            if wanted is None:
                return
            text = wanted

    async def _ask_hook(self, answer: str | None, cancel: CancelToken) -> str | None:
        hook = self._subagents.family.hook
        if hook is None:
            return None
        runtime = self._subagents.parent.runtime
        try:
            return await runtime.run_bounded(hook(self.activity, answer), cancel, timeout=None, grace=0)
        except Interrupted:
            return None

    def _judge(self, end: StreamEnd | None) -> Outcome:
        if end is None or end.message.stop_reason == "aborted":
            return "aborted"
        if end.message.stop_reason == "error":
            self.error = readable_error(end.message.error_message or "The model failed without saying why.")
            return "failed"
        return "completed"

    # Events

    def spend(self, usage: Usage) -> None:
        """Count what it, or one of its sub-agents, has spent."""
        self.usage = add_usage(self.usage, usage)
        self._activity.tokens, self._activity.cost = self.usage.total_tokens, self.usage.cost.total

    def _observe(self, event: Event) -> None:
        activity = self._activity
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                activity.requests += 1
                self.spend(message.usage)
                lines = [line for line in message.text().splitlines() if line.strip()]
                if lines:
                    activity.recent_output = [cut(line, LINE_LENGTH) for line in lines[-LINES_SHOWN:]]
            case ToolStart():
                self._running[event.call_id] = _in_short(event.arguments)
            case ToolEnd():
                tool = RecentTool(event.tool_name, self._running.pop(event.call_id, ""), self._now_ms())
                activity.recent_tools = [*activity.recent_tools, tool][-TOOLS_SHOWN:]
                activity.tool_count += 1
            case CompactionEnd(result=result) if result is not None and result.usage is not None:
                self.spend(result.usage)
            case ExtensionError():  # such as a full disk: the host has to know, whatever it has subscribed to
                self._subagents.family.notify(event)
            case _:
                pass
        self._subagents.family.notify(SubagentEvent(activity.id, event))
        self._report_soon()

    def _report(self) -> None:
        self._changed_at = self._now_ms()
        self._activity.duration_ms = self._changed_at - self._started_at
        activity = self.activity
        payload = ProgressPayload(
            index=activity.index,
            agent=activity.agent,
            agent_source=activity.agent_source,
            task=activity.task,
            assignment=activity.assignment,
            parent_tool_call_id=self.assignment.call_id,
            progress=activity,
            session_file=self._session_file(),
        )
        self._subagents.family.notify(SubagentProgress(payload))
        self.on_progress()

    def _notify_lifecycle(self, status: Literal["started", "completed", "failed", "aborted"]) -> None:
        activity = self._activity
        payload = LifecyclePayload(
            id=activity.id,
            index=activity.index,
            agent=activity.agent,
            agent_source=activity.agent_source,
            description=activity.description,
            status=status,
            parent_tool_call_id=self.assignment.call_id,
            session_file=self._session_file(),
        )
        self._subagents.family.notify(SubagentLifecycle(payload))

    def _session_file(self) -> str | UnsetType:
        return UNSET if self.assignment.file is None else str(self.assignment.file)


def cut(text: str, length: int) -> str:
    """The beginning of a text, if it is longer."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _in_short(arguments: dict[str, Any]) -> str:
    """The arguments of a tool call on one short line."""
    if not arguments:
        return ""
    values = [value if isinstance(value, str) else msgspec.json.encode(scrub(value)).decode() for value in arguments.values()]
    return cut(" ".join(" ".join(values).split()), LINE_LENGTH)
