"""The history of a session as updates: everything that was said and done, also what a compaction hides from the model."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

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
from fairlead.core.tool import ToolResult
from fairlead.protocol.acp import updates as acp
from fairlead.protocol.acp.content import TextContent as TextBlock
from fairlead.protocol.acp.tool_calls import Content
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import CustomMessageEntry, MessageEntry
from fairlead.session.session import Session
from fairlead.wire.acp.content import blocks, text_of
from fairlead.wire.acp.tool_reports import UNFINISHED, kind, locations, raw_output, tail, title

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
