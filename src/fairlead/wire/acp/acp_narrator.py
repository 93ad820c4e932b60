"""Turns the events of a session, or its history, into updates.

Events of messages are shown only while a prompt is being answered. The history has everything that was said and done, also what a
compaction hides from the model.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Literal, TypeAlias

from fairlead.core import events as core
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from fairlead.core.model import BlockDelta, BlockStart
from fairlead.core.snapshots import title_of
from fairlead.core.tool import ToolResult
from fairlead.protocol.acp import updates as acp
from fairlead.protocol.acp.content import TextContent as TextBlock
from fairlead.protocol.acp.updates import Content
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import CustomMessageEntry, MessageEntry
from fairlead.session.session import Session
from fairlead.stores.paths import iso
from fairlead.wire.acp.initialize import Client
from fairlead.wire.acp.session_updates import TextChunk, Updates
from fairlead.wire.acp.tool_reports import UNFINISHED, ToolReports, blocks, kind, locations, raw_output, tail, text_of, title

#: How many notices wait for the next prompt, for a client that cannot show them before.
MOST_HELD = 20
#: How many characters of the first prompt become the title of a session.
LONGEST_TITLE = 80

Severity = Literal["info", "warning", "error"]


class Narrator:
    """Sends the updates of one session. `in_turn` says whether a prompt is being answered."""

    def __init__(self, session: Session, updates: Updates, client: Client, in_turn: Callable[[], bool]) -> None:
        self.tools = ToolReports(updates.send, session.tools.get)
        self._session = session
        self._updates = updates
        self._client = client
        self._in_turn = in_turn
        self._numbers = count(1)
        self._message_id = ""
        self._kinds: dict[int, type] = {}
        self._compaction = ""
        self._has_plan = False
        #: What the client knows about the usage.
        self._usage: acp.UsageUpdate | None = None
        #: What the session cost. Counting it reads the whole history, so that happens once per run; answers add theirs.
        self._cost = 0.0 if session.history.leaf is None else session.usage.totals.cost
        #: The entry up to which the client has seen the conversation, and whether something happened since that it has not.
        self._seen: str | None = session.history.leaf
        self._has_missed = False
        #: What went wrong outside a turn, for a client without notices.
        self._held: list[tuple[Severity, str, str | None]] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            core.MessageStart: self._on_message_start,
            core.MessageEnd: self._on_message_end,
            core.ToolStart: lambda event: self.tools.announce(event.call_id, event.tool_name, event.arguments),
            core.ToolRunning: lambda event: self.tools.report_start(event.call_id, event.tool_name, event.arguments),
            core.ToolUpdate: lambda event: self.tools.report_output(
                event.call_id, event.tool_name, event.arguments, event.partial
            ),
            core.ToolEnd: self._on_tool_end,
        }
        #: What clients learn at any time.
        self._always: dict[type, Callable[[Any], None]] = {
            core.AgentSettled: self._on_settled,
            core.RetryStart: self._on_retry,
            core.SummaryRetryScheduled: self._on_retry,
            core.CompactionStart: self._on_compaction_start,
            core.CompactionEnd: self._on_compaction_end,
            core.ExtensionError: self._on_extension_error,
            core.SessionInfoChanged: lambda event: self._updates.send(acp.SessionInfoUpdate(title=event.name)),
            core.SubagentEvent: self._on_subagent,
            core.TodosChanged: lambda event: self.show_plan(),
        }

    def send_event(self, event: core.Event) -> None:
        handle = self._always.get(type(event))
        if handle is not None:
            handle(event)
        elif self._in_turn():
            if isinstance(event, MessageUpdate):
                self._on_message_update(event)
            elif (handle := self._handlers.get(type(event))) is not None:
                handle(event)
        elif isinstance(event, core.MessageEnd):
            self._has_missed = True

    # Turns

    def begin_turn(self, text: str) -> None:
        """A prompt arrives: show what happened since the last one, and give the session a title if it has none."""
        held, self._held = self._held, []
        for notice in held:
            self.notice(*notice)
        if self._has_missed:
            self._has_missed = False
            for update in past_updates(self._session, self.tools.unique, after=self._seen):
                self._updates.send(update)
        if self._session.history.name is None and self._session.history.count == 0:
            self._updates.send(acp.SessionInfoUpdate(title=title_of(None, text, LONGEST_TITLE)))

    def replay(self) -> None:
        """Show the whole conversation."""
        for update in past_updates(self._session, self.tools.unique):
            self._updates.send(update)
        self._seen = self._session.history.leaf
        self.show_plan()
        self.count_usage()

    def _on_settled(self, event: core.AgentSettled) -> None:
        self._updates.flush()
        self.tools.end_all()
        if self._in_turn():
            self._seen = self._session.history.leaf
        self.count_usage()
        self._updates.send(acp.SessionInfoUpdate(updated_at=iso(self._session.host.now_ms())))

    # Messages

    def _new_id(self) -> str:
        return f"{self._session.history.id}-{next(self._numbers)}-{self._session.host.now_ms()}"

    def _on_message_start(self, event: core.MessageStart) -> None:
        if isinstance(event.message, AssistantMessage):
            self._message_id = self._new_id()
            self._kinds.clear()

    def _on_message_update(self, update: MessageUpdate) -> None:
        event = update.event
        if isinstance(event, BlockDelta):
            kind = self._kinds.get(event.index)
            if kind is TextContent:
                self._updates.stream(acp.AgentMessageChunk, self._message_id, event.delta)
            elif kind is ThinkingContent:
                self._updates.stream(acp.AgentThoughtChunk, self._message_id, event.delta)
        elif isinstance(event, BlockStart):
            self._message_id = self._message_id or self._new_id()
            self._kinds[event.index] = type(event.block)
            if isinstance(event.block, ToolCall) and event.block.id and event.block.name:
                self.tools.announce(event.block.id, event.block.name, None)

    def _on_message_end(self, event: core.MessageEnd) -> None:
        message = event.message
        if isinstance(message, AssistantMessage):
            self._updates.flush()
            self._message_id = ""
            is_whole = message.stop_reason not in ("error", "aborted")
            self.tools.discard_unfinished({call.id for call in message.tool_calls()} if is_whole else set())
            self._cost += message.usage.cost.total
            self._show_usage()
        elif isinstance(message, CustomMessage) and message.display:
            for block in blocks(message.content):
                self._updates.send(acp.AgentMessageChunk(block, message_id=self._new_id()))

    def show_user_message(self, message: UserMessage) -> None:
        """Show a message that the client did not send, such as that of an extension."""
        if not self._in_turn():
            self._has_missed = True
            return
        ident = self._new_id()
        for block in blocks(message.content):
            self._updates.send(acp.UserMessageChunk(block, message_id=ident))

    # Tools

    def _on_tool_end(self, event: core.ToolEnd) -> None:
        if event.call_id not in self.tools:
            self.tools.announce(event.call_id, event.tool_name, {})
        self.tools.report_end(event.call_id, event.result, is_error=event.is_error)

    def _on_subagent(self, event: core.SubagentEvent) -> None:
        """Show the tool calls of a sub-agent beside those of the session."""
        inner = event.event
        if not self._in_turn() or not isinstance(inner, core.ToolStart | core.ToolRunning | core.ToolUpdate | core.ToolEnd):
            return
        call_id = subagent_call(event.id, inner.call_id)
        match inner:
            case core.ToolStart():
                self.tools.announce(call_id, inner.tool_name, inner.arguments)
            case core.ToolRunning():
                self.tools.report_start(call_id, inner.tool_name, inner.arguments)
            case core.ToolUpdate():
                self.tools.report_output(call_id, inner.tool_name, inner.arguments, inner.partial)
            case core.ToolEnd():
                self.tools.report_end(call_id, inner.result, is_error=inner.is_error)

    # The state of the session

    def show_plan(self) -> None:
        """Show the todos, if there are or were any."""
        entries = [
            acp.PlanEntry(task.content, "medium", "completed" if task.status == "abandoned" else task.status)
            for phase in self._session.todos.phases
            for task in phase.tasks
        ]
        if entries or self._has_plan:
            self._has_plan = bool(entries)
            self._updates.send(acp.Plan(entries))

    def count_usage(self) -> None:
        """Add up what the session cost so far, with compactions and sub-agents, and show it."""
        self._cost = self._session.usage.totals.cost
        self._show_usage()

    def _show_usage(self) -> None:
        """Show how much of the context is in use, and what the session cost."""
        context = self._session.usage.context
        if context is None or context.tokens is None or not context.window:
            return
        cost = acp.Cost(amount=self._cost, currency="USD")
        update = acp.UsageUpdate(used=context.tokens, size=context.window, cost=cost)
        if update != self._usage:
            self._usage = update
            self._updates.send(update)

    def show_failure(self, text: str) -> None:
        """Tell the user, in the conversation, why the model has failed."""
        self._updates.send(acp.AgentMessageChunk(TextBlock(text), message_id=self._new_id()))

    def notice(self, severity: Severity, title: str, description: str | None = None) -> None:
        """Tell the user something that is not part of the conversation.

        A client without notices gets a thought, or a message if something is wrong. Outside a turn, what is wrong waits for the
        next one, and the rest is left out.
        """
        if self._client.notices:
            self._updates.send(acp.Notice(severity, title, description=description))
        elif self._in_turn():
            chunk: TextChunk = acp.AgentThoughtChunk if severity == "info" else acp.AgentMessageChunk
            text = f"{title}: {description}" if description else title
            self._updates.send(chunk(TextBlock(f"{text}\n\n"), message_id=self._new_id()))
        elif severity != "info" and len(self._held) < MOST_HELD and (severity, title, description) not in self._held:
            self._held.append((severity, title, description))

    def _on_extension_error(self, event: core.ExtensionError) -> None:
        if event.event == "images":  # nothing failed, but the model does not get an image
            self.notice("warning", event.error)
        else:
            self.notice("error", "An extension or the session failed", event.error)

    def _on_retry(self, event: core.RetryStart | core.SummaryRetryScheduled) -> None:
        again = f"Retrying in {event.delay_ms / 1000:g} s (attempt {event.attempt} of {event.max_attempts})"
        self.notice("info", again, event.error or None)

    def _on_compaction_start(self, event: core.CompactionStart) -> None:
        self._compaction = self._new_id()
        if self._client.compactions:
            self._updates.send(acp.CompactionUpdate(self._compaction, "in_progress"))
        else:
            self.notice("info", "Compacting the conversation")

    def _on_compaction_end(self, event: core.CompactionEnd) -> None:
        status = "cancelled" if event.aborted else "completed" if event.result is not None else "failed"
        if not self._client.compactions:
            if status != "completed":
                self.notice("warning", f"The compaction was {status}" if event.aborted else "The compaction failed", event.error)
            return
        update = acp.CompactionUpdate(self._compaction or self._new_id(), status)
        if event.result is not None:
            update.summary = [TextBlock(event.result.summary)]
        if event.error:
            update.error = event.error
        self._updates.send(update)


def subagent_call(subagent: str, call_id: str) -> str:
    """Return the id of a tool call of a sub-agent, which is unique in the session."""
    return f"{subagent}/{call_id}"


#: How many characters of a past result are shown.
LONGEST_RESULT = 16_000


#: The results of calls by their ids, first to last: a model may use an id again.
Results: TypeAlias = Mapping[str, deque[ToolResultMessage]]


def past_updates(session: Session, unique: Callable[[str], str], *, after: str | None = None) -> Iterator[acp.SessionUpdate]:
    """Yield the updates that show the conversation, or what came after one of its entries.

    `unique` returns the id for the next call with an id that a model gave.
    """
    found = list(_past_messages(session.history.conversation, after=after))
    results: defaultdict[str, deque[ToolResultMessage]] = defaultdict(deque)
    for _, message in found:
        if isinstance(message, ToolResultMessage):
            results[message.tool_call_id].append(message)
    for entry_id, message in found:
        yield from _updates(session, unique, entry_id, message, results)


def _past_messages(conversation: Conversation, *, after: str | None = None) -> Iterator[tuple[str, Message]]:
    """Yield the messages up to where the conversation stands, each with the id of its entry.

    Those that a compaction hides from the model are included, and its summary is not. With `after`, only what follows that
    entry; if the conversation has left it, all messages.
    """
    if not conversation.has_begun:
        return
    log = conversation.log
    path = log.path()
    start = next((number + 1 for number, entry in enumerate(path) if entry.id == after), 0) if after is not None else 0
    for entry in path[start:]:
        if isinstance(entry, MessageEntry | CustomMessageEntry):
            for message in log.read(entry):
                yield entry.id, message


def _updates(
    session: Session, unique: Callable[[str], str], entry_id: str, message: Message, results: Results
) -> Iterator[acp.SessionUpdate]:
    match message:
        case UserMessage():
            for block in blocks(message.content):
                yield acp.UserMessageChunk(block, message_id=entry_id)
        case AssistantMessage():
            for block in message.content:
                match block:
                    case TextContent(text=text):
                        if text:
                            yield acp.AgentMessageChunk(TextBlock(text), message_id=entry_id)
                    case ThinkingContent(thinking=thinking):
                        if thinking:
                            yield acp.AgentThoughtChunk(TextBlock(thinking), message_id=entry_id)
                    case ToolCall():
                        past = results.get(block.id)
                        yield _call(session, unique(block.id), block, past.popleft() if past else None)
        case BashExecutionMessage():
            yield acp.ToolCall(
                entry_id,
                f"`{message.command.strip().partition(chr(10))[0]}`",
                kind="execute",
                status="failed" if message.exit_code else "completed",
                content=[Content(TextBlock(tail(message.output, LONGEST_RESULT)))] if message.output else [],
            )
        case CustomMessage(display=True):
            for block in blocks(message.content):
                yield acp.AgentMessageChunk(block, message_id=entry_id)
        case _:
            return


def _call(session: Session, call_id: str, call: ToolCall, message: ToolResultMessage | None) -> acp.ToolCall:
    """A call that has ended, with its result."""
    tool = session.tools.get(call.name)
    result = ToolResult.text(UNFINISHED) if message is None else ToolResult(message.content)
    text = tail(text_of(result.content), LONGEST_RESULT)
    return acp.ToolCall(
        call_id,
        title(tool, call.name, call.arguments),
        name=call.name,
        kind=kind(tool),
        status="failed" if message is None or message.is_error else "completed",
        content=[Content(TextBlock(text))] if text else [],
        locations=locations(tool, call.arguments),
        raw_input=call.arguments,
        raw_output=raw_output(result),
    )
