"""A conversation as Opal's clients see it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from fairlead.core.events import FileLists
from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from fairlead.protocol.opal.objects import HistoryMessage, HistoryToolCall
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import CompactionEntry, Entry, entries_in_context
from fairlead.wire.opal.statuses import without_statuses

SUMMARY = "[Conversation summary — older messages were compacted]\n\n"


def history(conversation: Conversation) -> list[HistoryMessage]:
    """The messages from the first to the current one, as the model sees them. Their ids are those of the entries."""
    if not conversation.has_begun:
        return []
    log = conversation.log
    return [_told(entry, message) for entry, edit in entries_in_context(log.path()) for message in log.read(entry, edit)]


def _told(entry: Entry, message: Message) -> HistoryMessage:
    match message:
        case UserMessage(content=content):
            return HistoryMessage(id=entry.id, role="user", content=_text(content), is_error=False)
        case AssistantMessage():
            return _answer(entry.id, message)
        case ToolResultMessage():
            return HistoryMessage(
                id=entry.id,
                role="tool_result",
                content=_text(message.content),
                is_error=message.is_error,
                call_id=message.tool_call_id,
                name=message.tool_name,
            )
        case CompactionSummaryMessage(summary=summary):
            return _note(entry, "compaction_summary", SUMMARY + summary, **_files(entry))
        case BranchSummaryMessage(summary=summary):
            return _note(entry, "branch_summary", summary)
        case BashExecutionMessage():
            return _note(entry, "command", f"$ {message.command}\n{message.output}")
        case CustomMessage():
            return _note(entry, message.custom_type, _text(message.content))


def _answer(id: str, message: AssistantMessage) -> HistoryMessage:
    thinking = "".join(block.thinking for block in message.content if isinstance(block, ThinkingContent))
    calls = [HistoryToolCall(call.id, call.name, call.arguments) for call in message.tool_calls()]
    return HistoryMessage(
        id=id,
        role="assistant",
        content=without_statuses(message.text()),
        is_error=message.stop_reason == "error",
        thinking=thinking or UNSET,
        tool_calls=calls or UNSET,
    )


def _note(entry: Entry, type: str, text: str, **rest: Any) -> HistoryMessage:
    """A message for the model that neither the user nor the model wrote."""
    return HistoryMessage(id=entry.id, role="user", content=text, is_error=False, metadata={"type": type, **rest})


def _files(entry: Entry) -> dict[str, Any]:
    """The files of the summarised part."""
    try:
        lists = msgspec.convert(entry.details if isinstance(entry, CompactionEntry) else {}, FileLists)
    except msgspec.ValidationError:
        lists = FileLists()
    return {"read_files": lists.read_files, "modified_files": lists.modified_files}


def _text(content: str | list[UserBlock]) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.text if isinstance(block, TextContent) else f"[image {block.mime_type}]" for block in content)
