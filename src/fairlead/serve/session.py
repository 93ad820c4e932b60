"""A session that outlives its clients: an agent, the feed of its events, its questions, and snapshots of it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.agent import Agent
from fairlead.core import events
from fairlead.core.messages import AssistantMessage, Message, UserMessage
from fairlead.errors import BadCommand, FairleadError
from fairlead.protocol.http import events as shown
from fairlead.protocol.http import objects as o
from fairlead.protocol.pi.frames import ToolResult
from fairlead.serve.feed import Feed, RingBounds
from fairlead.serve.questions import OpenQuestions, SharedUi
from fairlead.serve.refusals import Refusal
from fairlead.session.history.entries import MessageEntry, role_of
from fairlead.wire.pi.encode import EventFrames
from fairlead.wire.pi.profile import PI
from fairlead.wire.pi.subagent_frames import SubagentFrames
from fairlead.wire.pi.updates import Pacing, Updates
from fairlead.wire.prompts import AcceptedPrompts

#: How many bytes an event has at most, if it can be shortened: `agent_end` repeats all messages of the run.
LONGEST_EVENT = 1 << 16
#: How many ids of requests a session remembers.
REMEMBERED_REQUESTS = 512


class _FeedOutlet:
    """Implements `fairlead.wire.pi.updates.FrameOutlet`: every frame becomes an event of the feed."""

    behind = False
    max_frame: int | None = LONGEST_EVENT

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        callback()

    def send(self, frame: bytes) -> None:
        self._feed.publish(frame[:-1])


class _Request(Struct, frozen=True):
    """A request with an id that was made before."""

    fingerprint: bytes
    outcome: asyncio.Task[o.AcceptedPrompt]


#: The requests of a session by their ids.
Requests: TypeAlias = OrderedDict[str, _Request]


class HubSession:
    """One open session. `queue_limit` is the number of messages that may wait.

    `on_replaced` is called when the session has moved to another conversation, whose id it has from then on.
    """

    def __init__(self, agent: Agent, *, bounds: RingBounds, queue_limit: int, on_replaced: Callable[[HubSession], None]) -> None:
        self.agent = agent
        self.session = agent.session
        self.id = agent.session.history.id
        self.feed = Feed(bounds)
        self.questions = OpenQuestions(self.send)
        #: How many requests are using the session now, and when the last one ended.
        self.uses = 0
        self.last_used = time.monotonic()
        self.requests: Requests = OrderedDict()
        self._queue_limit = queue_limit
        self._on_replaced = on_replaced
        outlet = _FeedOutlet(self.feed)
        self._updates = Updates(outlet, Pacing.of(agent.settings.output), "delta")
        self._frames = EventFrames(outlet, PI, self._updates)
        self._subagents = SubagentFrames(outlet, PI, self._frames, self._updates)
        self._subagents.set_level("progress")
        self._prompts: AcceptedPrompts[str] = AcceptedPrompts(self.session)
        self._has_open_message = False
        self._running_tools: dict[str, o.RunningTool] = {}
        #: The last entry that the events so far cover.
        self._announced = self.session.history.leaf
        self.session.host.make_ui = lambda: SharedUi(self.questions, self.send, self.session.host.notify)
        self.session.subscribe(self._observe)

    # Events

    def send(self, event: shown.ServeEvent) -> None:
        """Send an event to all clients."""
        self._updates.flush()
        self.feed.publish(msgspec.json.encode(event))

    def _observe(self, event: events.Event) -> None:
        self._prompts.observe(event)
        match event:
            case events.MessageStart(message=message):
                self._has_open_message = isinstance(message, AssistantMessage)
            case events.MessageEnd(message=message):
                self._has_open_message = False
                self._announce(message)
            case events.ToolStart():
                self._running_tools[event.call_id] = o.RunningTool(
                    tool_call_id=event.call_id, tool_name=event.tool_name, args=event.arguments
                )
            case events.ToolUpdate() if event.call_id in self._running_tools:
                partial = ToolResult(event.partial.content, event.partial.details)
                self._running_tools[event.call_id].partial_result = partial
            case events.ToolEnd():
                self._running_tools.pop(event.call_id, None)
            case _:
                pass
        self._send_event(event)

    def _send_event(self, event: events.Event) -> None:
        match event:
            case events.ModelSelected(model=model):
                self.send(shown.ModelChanged(model=model))
            case events.ApprovalModeChanged(mode=mode):
                self.send(shown.ApprovalModeChanged(mode=mode))
            case events.TodosChanged(todos=todos):
                self.send(shown.TodosChanged(todos=todos))
            case events.SubagentLifecycle() | events.SubagentProgress() | events.SubagentEvent():
                self._subagents.send_event(event)
            case events.SessionReplaced():
                self._announced = self.session.history.leaf
                self.id = self.session.history.id
                self.send(shown.SessionReplaced(session_id=self.id))
                self._on_replaced(self)
            case events.AgentSettled():
                self._announced = self.session.history.leaf
                self._running_tools.clear()
                self._frames.send_event(event)
                self._report_prompts()
            case _:
                self._frames.send_event(event)

    def _report_prompts(self) -> None:
        for ident, outcome in self._prompts.take_finished():
            error = None if outcome.end is None else outcome.end.message.error_message
            is_error = outcome.status == "error"
            self.send(shown.PromptResult(id=ident, status=outcome.status, error=error if is_error else None))

    def _announce(self, message: Message) -> None:
        """Note that the events cover the entry of a message: the first one of its role that they did not cover."""
        covered: str | None = None
        for entry in self.session.history.log.back():
            if entry.id == self._announced:
                break
            if role_of(entry) == message.role:
                covered = entry.id
        self._announced = covered or self._announced

    # Looking

    @property
    def is_idle(self) -> bool:
        """Whether nothing happens in the session and no client uses it."""
        activity = self.session.activity
        return (
            not self.uses
            and not self.feed.listeners
            and not len(self.questions)
            and activity.is_at_rest
            and not activity.is_streaming
            and not len(self.session.queue)
        )

    @property
    def status(self) -> Literal["idle", "running", "compacting"]:
        activity = self.session.activity
        return "compacting" if activity.is_compacting else "running" if activity.is_streaming else "idle"

    def state(self) -> o.SessionState:
        session = self.session
        usage, queued = session.usage.context, session.queue.update()
        return o.SessionState(
            id=self.id,
            cwd=str(session.host.workspace.cwd),
            name=session.history.name,
            model=session.model,
            thinking=session.thinking,
            approval=session.approvals.mode,
            status=self.status,
            steering=queued.steering,
            follow_up=queued.follow_up,
            message_count=session.history.count,
            context=None if usage is None else o.ContextUse(tokens=usage.tokens, window=usage.window),
            cost=session.usage.totals.cost if session.history.count else 0.0,
            listeners=self.feed.listeners,
        )

    def snapshot(self, most_messages: int | None = None) -> bytes:
        """Return a `Snapshot` as JSON, with the newest messages only if there is a limit.

        It is exactly what the events so far describe: what happened since then follows as events.
        """
        open_message = self._updates.sent_message() if self._has_open_message else None
        self._frames.flush()
        self._updates.flush()
        messages = self._announced_messages()
        skipped = 0 if most_messages is None else max(0, len(messages) - most_messages)
        fields = {
            "session": msgspec.json.encode(self.state()),
            "messages": b"[%b]" % b",".join(messages[skipped:]),
            "skippedMessages": b"%d" % skipped,
            "openMessage": open_message or b"null",
            "runningTools": msgspec.json.encode(list(self._running_tools.values())),
            "questions": msgspec.json.encode(self.questions.all()),
            "lastEvent": b"%d" % self.feed.last,
        }
        return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items())

    def _announced_messages(self) -> list[bytes]:
        """Return the messages without those whose events are still to come."""
        if not self.session.history.conversation.has_begun:
            return []
        log = self.session.history.log
        messages: list[bytes] = list(log.raw_messages())
        unannounced = 0
        for entry in log.back() if self.session.activity.is_streaming else ():
            if entry.id == self._announced:
                return messages[: len(messages) - unannounced]
            unannounced += isinstance(entry, MessageEntry)
        # The run began at the start of the conversation, or the conversation has moved elsewhere.
        return [] if unannounced and self._announced is None else messages

    # Acting

    async def prompt(self, body: o.Prompt) -> o.AcceptedPrompt:
        """Start a run, or queue the message. Raises what `Session.prompt` raises, and Refusal."""
        return await self._once(
            body,
            body.id,
            lambda: self.session.prompt(body.text, body.images or None, source="rpc", behavior=body.behavior),
            may_queue=body.behavior is not None,
        )

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        return await self._once(body, body.id, lambda: self.session.steer(body.text, body.images or None, source="rpc"), "steer")

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        make = lambda: self.session.follow_up(body.text, body.images or None, source="rpc")  # noqa: E731
        return await self._once(body, body.id, make, "followUp")

    async def _once(
        self,
        body: Struct,
        ident: str | None,
        make: Callable[[], Coroutine[Any, Any, UserMessage | None]],
        kind: str = "prompt",
        *,
        may_queue: bool = True,
    ) -> o.AcceptedPrompt:
        """Submit a message, or return the first result if its id was used before. It is submitted even if the client leaves."""
        fingerprint = hashlib.sha256(kind.encode() + msgspec.json.encode(body)).digest()
        known = None if ident is None else self.requests.get(ident)
        if known is not None:
            if known.fingerprint != fingerprint:
                raise Refusal(409, "id_reused", f"id: {ident!r} was used for another message.")
            return await asyncio.shield(known.outcome)
        if (may_queue or self.session.activity.is_streaming) and len(self.session.queue) >= self._queue_limit:
            raise Refusal(429, "queue_full", f"{self._queue_limit} messages wait already.", retry_after=5)
        name = ident or os.urandom(16).hex()
        task = asyncio.create_task(self._submit(name, make()), name="fairlead-submit")
        if ident is not None:
            self.requests[ident] = _Request(fingerprint, task)
            while len(self.requests) > REMEMBERED_REQUESTS:
                self.requests.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except FairleadError:  # nothing has happened: the client may try again
            if ident is not None:
                self.requests.pop(ident, None)
            raise

    async def _submit(self, ident: str, work: Coroutine[Any, Any, UserMessage | None]) -> o.AcceptedPrompt:
        self.uses += 1
        try:
            message = await work
            if message is None:
                return o.AcceptedPrompt(status="handled", id=ident)
            self._prompts.add(message, ident)
            return o.AcceptedPrompt(status="queued" if self.session.queue.holds(message) else "started", id=ident)
        finally:
            self.uses -= 1

    async def change(self, changes: o.Changes) -> None:
        """Change the model, the thinking level, the name or the approval mode. Raises BadCommand and ModelNotFound."""
        session = self.session
        if changes.name is not None and not changes.name.strip():
            raise BadCommand("name: expected a name, found an empty string.")
        if changes.model is not None:
            provider, slash, model = changes.model.partition("/")
            if not slash:
                raise BadCommand(f"model: expected provider/id, found {changes.model!r}.")
            session.models.set_model(provider, model)
            await session.extensions.heard()
        if changes.thinking is not None:
            session.models.set_thinking(changes.thinking)
        if changes.name is not None:
            session.history.set_name(changes.name)
        if changes.approval is not None:
            session.approvals.set_mode(changes.approval)

    async def close(self) -> None:
        """Stop everything, save, and end all listeners."""
        self.questions.close()
        try:
            await self.agent.close()
        finally:
            self._frames.flush()
            self.feed.close()
