"""A session that outlives its clients: an agent, the feed of its events, its questions, and snapshots of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import category

import msgspec

from fairlead.agent import Agent
from fairlead.core import events
from fairlead.core.messages import AssistantMessage, Message, readable_error
from fairlead.core.snapshots import SubagentActivity
from fairlead.errors import BadCommand, EntryNotFound
from fairlead.protocol.http import http_events as shown
from fairlead.protocol.http import http_objects as o
from fairlead.protocol.pi.frames import ToolResult
from fairlead.serve.refusals import bad_request
from fairlead.serve.sessions.client_questions import OpenQuestions, SharedUi
from fairlead.serve.sessions.feed import Feed
from fairlead.serve.sessions.served import ForkedConversation, tree_of
from fairlead.serve.sessions.submissions import REMEMBERED_RESULTS, Submissions, noted_results
from fairlead.session.approval_mode import note_mode
from fairlead.session.history.entries import MessageEntry, role_of
from fairlead.session.todos.todos import TodoPhase
from fairlead.sessions.completion import MOST_ITEMS, FileIndex, Wanted, find_wanted, mention, rank
from fairlead.wire.pending import AcceptedPrompts
from fairlead.wire.pi.omp_subagents import SubagentFrames
from fairlead.wire.pi.paced_updates import Pacing, Updates
from fairlead.wire.pi.pi_encoding import EventFrames
from fairlead.wire.pi.profile import PI

if TYPE_CHECKING:
    from fairlead.session.session import Session


#: The beginnings of paths that lead out of the working directory, which a root of the server may bound.
_ELSEWHERE = ("/", "~", "..", "./..")


class Suggestions:
    """Suggestions for one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._files = FileIndex(session.host.workspace)

    async def complete(self, before: str) -> o.Completions:
        """Suggest how a text continues at its end."""
        wanted = find_wanted(before)
        if wanted is None:
            return o.Completions()
        if wanted.kind == "file":
            items = await self._list_files(wanted.typed)
        elif wanted.kind == "command":
            items = self._list_commands(wanted.typed)
        else:
            items = await self._list_arguments(wanted)
        return o.Completions(kind=wanted.kind, replaces=wanted.replaces, items=items)

    async def _list_files(self, typed: str) -> list[o.CompletionItem]:
        if typed.startswith(_ELSEWHERE) or "/.." in typed:
            return []
        paths = await asyncio.to_thread(self._files.search, typed)
        # A directory stays open, so that the user can choose a file in it.
        return [o.CompletionItem(text=f"@{path}" if path.endswith("/") else f"{mention(path)} ", label=path) for path in paths]

    def _list_commands(self, typed: str) -> list[o.CompletionItem]:
        known = {command.name: command.description for command in self._session.additions.slash_commands()}
        names = rank(typed, sorted(known), MOST_ITEMS)
        return [o.CompletionItem(text=f"/{name} ", label=f"/{name}", detail=known[name]) for name in names]

    async def _list_arguments(self, wanted: Wanted) -> list[o.CompletionItem]:
        found = await self._session.additions.complete(wanted.command, wanted.typed)
        return [o.CompletionItem(text=each.value, label=each.label, detail=each.description) for each in found[:MOST_ITEMS]]


#: How many bytes an event has at most, if it can be shortened: `agent_end` repeats all messages of the run.
LONGEST_EVENT = 1 << 16


class _FeedOutlet:
    """Implements `fairlead.wire.pi.paced_updates.FrameOutlet`: every frame becomes an event of the feed."""

    behind = False
    max_frame: int | None = LONGEST_EVENT

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def call_when_caught_up(self, callback: Callable[[], None]) -> None:
        callback()

    def send(self, frame: bytes) -> None:
        self._feed.publish(frame[:-1])


class HubSession:
    """One open session. `feed` gets its events, and `queue_limit` is the number of messages that may wait.

    `on_replaced` is called when the session has moved to another conversation, whose id it has from then on.
    """

    def __init__(self, agent: Agent, feed: Feed, *, queue_limit: int, on_replaced: Callable[[HubSession], None]) -> None:
        self.agent = agent
        self.session = agent.session
        self.id = agent.session.history.id
        self.feed = feed
        self.questions = OpenQuestions(self.send)
        #: How many requests are using the session now, and when the last one ended.
        self.uses = 0
        self.last_used = time.monotonic()
        #: How the last prompts ended.
        self.results: list[shown.PromptResult] = noted_results(agent.session.history.log) if self.is_stored else []
        self._on_replaced = on_replaced
        outlet = _FeedOutlet(self.feed)
        self._updates = Updates(outlet, Pacing.of(agent.settings.output), "delta")
        self._frames = EventFrames(outlet, PI, self._updates)
        self._subagents = SubagentFrames(outlet, PI, self._frames, self._updates)
        self._subagents.set_level("progress")
        self._suggestions = Suggestions(self.session)
        self._prompts: AcceptedPrompts[str] = AcceptedPrompts(self.session)
        self._has_open_message = False
        self._running_tools: dict[str, o.RunningTool] = {}
        #: The last entry that the events so far cover.
        self._announced = self.session.history.leaf
        self.submissions = Submissions(self.session, self._prompts, self._send_result, queue_limit=queue_limit)
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
            case events.BranchChanged(leaf=leaf):
                self._announced = self.session.history.leaf
                self.send(shown.BranchChanged(leaf_id=leaf))
            case events.AgentSettled():
                self._announced = self.session.history.leaf
                self._running_tools.clear()
                self.last_used = time.monotonic()
                self._frames.send_event(event)
                self._report_prompts()
            case _:
                self._frames.send_event(event)

    def _send_result(self, result: shown.PromptResult) -> None:
        self.results.append(result)
        del self.results[:-REMEMBERED_RESULTS]
        self.send(result)

    def _report_prompts(self) -> None:
        for ident, outcome in self._prompts.take_finished():
            error = None if outcome.end is None else readable_error(outcome.end.message.error_message or "")
            is_error = outcome.status == "error"
            self._send_result(shown.PromptResult(id=ident, status=outcome.status, error=error if is_error else None))

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
    def is_stored(self) -> bool:
        """Whether a store keeps the session, so that another server may open it next."""
        return self.session.history.conversation.is_shared

    @property
    def is_listed(self) -> bool:
        """Whether the list of saved sessions has it. That leaves out files without messages and without a name."""
        history = self.session.history
        if self.is_stored or not history.conversation.is_saved:
            return self.is_stored
        return bool(history.name or history.count or history.log.user_messages())

    @property
    def is_lost(self) -> bool:
        """Whether another owner has the session by now."""
        return self.session.history.conversation.is_lost

    @property
    def is_idle(self) -> bool:
        """Whether nothing happens in the session and no client uses it."""
        return self.is_quiet and not self.feed.listeners

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happens in the session, even if clients listen to it."""
        activity = self.session.activity
        return (
            not self.uses
            and not self.submissions.active
            and not self.is_waiting
            and activity.is_at_rest
            and not activity.is_streaming
            and not len(self.session.queue)
        )

    @property
    def is_working(self) -> bool:
        """Whether something happens in the session, other than that it waits for an answer of the user."""
        return self.status != "idle" and not self.is_waiting

    @property
    def is_waiting(self) -> bool:
        """Whether the user has to answer a question."""
        return len(self.questions) > 0

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
            waiting=self.is_waiting,
            steering=queued.steering,
            follow_up=queued.follow_up,
            message_count=session.history.count,
            context=None if usage is None else o.ContextUse(tokens=usage.tokens, window=usage.window),
            cost=session.usage.totals.cost if session.history.count else 0.0,
            listeners=self.feed.listeners,
            interrupted=self.status == "idle" and session.history.count > 0 and session.activity.is_interrupted,
        )

    def snapshot(self, most_messages: int | None = None) -> bytes:
        """Return a `Snapshot` as JSON, with the newest messages only if there is a limit.

        It is exactly what the events so far describe: what happened since then follows as events.
        """
        open_message = self._updates.flush_message() if self._has_open_message else None
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
            "promptResults": msgspec.json.encode(self.results),
            "todos": msgspec.json.encode(self._todos()),
            "subagents": msgspec.json.encode(self._working_subagents()),
            "lastEvent": b"%d" % self.feed.last,
        }
        return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items())

    def tree(self) -> o.Tree:
        """Return all branches of the session."""
        history = self.session.history
        return tree_of(history.log if history.conversation.has_begun else None)

    async def complete(self, before: str) -> o.Completions:
        """Suggest how a text continues at its end."""
        return await self._suggestions.complete(before)

    def _todos(self) -> list[TodoPhase]:
        return self.session.todos.phases if self.session.history.conversation.has_begun else []

    def _working_subagents(self) -> list[SubagentActivity]:
        subagents = self.session.subagents
        found = [] if subagents is None or not self._running_tools else subagents.snapshots()
        return [each.progress for each in found if each.status in ("pending", "running")]

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
        return await self.submissions.prompt(body)

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        return await self.submissions.steer(body)

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        return await self.submissions.follow_up(body)

    async def move(self, body: o.Move) -> o.Moved:
        """Go to another entry. Raises what `Session.navigate` raises. It goes there even if the client leaves."""
        way = self.session.navigate(body.entry_id, summarise=body.summarize, instructions=body.instructions)
        arrival = await asyncio.shield(asyncio.ensure_future(way))
        return o.Moved(leaf_id=arrival.leaf, text=arrival.text)

    async def abort(self) -> None:
        await self.session.abort()

    async def resume(self) -> None:
        await self.session.activity.resume()

    async def compact(self, instructions: str | None) -> Any:
        return await asyncio.shield(self.session.compact(instructions))

    def answer(self, question: str, body: Any) -> None:
        self.questions.answer(question, body)

    def fork(self, body: o.Fork) -> ForkedConversation:
        """Return the beginning of a new session: everything up to an entry. Raises EntryNotFound and Refusal."""
        history = self.session.history
        if not history.count:
            raise bad_request("This session has no messages yet.")
        text: str | None = None
        if body.position == "before":
            if body.entry_id is None:
                raise bad_request("entryId: expected the message before which the new session ends.")
            text = dict(history.log.user_messages()).get(body.entry_id)
            if text is None:
                raise EntryNotFound(f"Entry {body.entry_id} is not a message of the user.")
        elif body.entry_id is not None:
            history.log.get(body.entry_id)
        before, at = (body.entry_id, None) if body.position == "before" else (None, body.entry_id)
        forked = history.sessions.fork(history.conversation, before=before, at=at)
        return ForkedConversation(forked, self.session.host.workspace.cwd, self.session.approvals.mode, text)

    def clear_queue(self) -> o.ClearedQueue:
        """Remove the messages that wait. Raises SessionError if that cannot be written."""
        steering, follow_up = self.session.queue.clear()
        if not self.session.activity.is_streaming:  # otherwise they are reported at the end of the run
            self._report_prompts()
        return o.ClearedQueue(steering=steering, follow_up=follow_up)

    async def change(self, changes: o.Changes) -> None:
        """Change the model, the thinking level, the name or the approval mode. Raises BadCommand and ModelNotFound."""
        session = self.session
        check_name(changes.name)
        if changes.model is not None:
            provider, slash, model = changes.model.partition("/")
            if not slash:
                raise BadCommand(f"model: expected provider/id, found {changes.model!r}.")
            session.models.set_model(provider, model)
            await session.extensions.drain_events()
        if changes.thinking is not None:
            session.models.set_thinking(changes.thinking)
        if changes.name is not None:
            session.history.set_name(changes.name)
        if changes.approval is not None:
            self.set_approval(changes.approval)
        await session.history.wait_written()

    def set_approval(self, mode: o.Approval, *, is_chosen: bool = True) -> None:
        """Change the approval mode, which a client has chosen or which is the default of this server."""
        self.session.approvals.set_mode(mode)
        if self.is_stored:
            note_mode(self.session.history.conversation, mode, is_chosen=is_chosen)

    def cancel(self) -> None:
        """Answer no more questions."""
        self.questions.close()

    async def close(self, *, ends_feed: bool = True) -> None:
        """Stop everything, save, and end all listeners, unless the feed continues."""
        self.questions.close()
        try:
            await self.agent.close()
        finally:
            self._frames.flush()
            if ends_feed:
                self.feed.close()


def check_name(name: str | None) -> None:
    """Raise BadCommand if a session cannot have a name. Its length is declared."""
    if name is None:
        return
    if not name.strip():
        raise BadCommand("name: it is empty. Write a name, or leave it out.")
    if any(category(character) == "Cc" for character in name):
        raise BadCommand("name: it has control characters. Write it on one line, without tabs.")
