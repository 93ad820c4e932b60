"""What models see of a conversation: messages in a form that they know, and the size of it all in tokens."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec
from msgspec import Struct

from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserBlock,
    UserMessage,
    read_count,
)
from fairlead.session.history.entries import CompactionEntry, ContextEditEntry

if TYPE_CHECKING:
    from fairlead.session.history.log import Log


#: How many tokens of the context window stay free, unless the user or the dialect says otherwise.
DEFAULT_RESERVE_TOKENS = 16_384

CHARACTERS_PER_TOKEN = 4
#: An image counts as this many characters, that is as 1,200 tokens.
IMAGE_CHARACTERS = 4_800


def estimate(message: Message) -> int:
    """Estimate how many tokens the model reads for `message`; 0 if it does not see it."""
    return -(-characters(message) // CHARACTERS_PER_TOKEN)


def estimate_all(messages: Iterable[Message]) -> int:
    """Return the sum of the estimates for `messages`."""
    return sum(estimate(message) for message in messages)


class ContextSize(Struct, frozen=True):
    """How many tokens of the context a conversation takes."""

    #: None where that is not known: from a compaction to the next answer.
    tokens: int | None
    #: Whether the provider has reported usage, which includes the system prompt and the tools. Otherwise all is estimated.
    is_reported: bool


def measure_context(log: Log) -> ContextSize:
    """Return the size of a conversation: the usage of the last good answer, and estimates after it.

    The usage in an answer from before a compaction no longer applies. Before the first answer, and if the provider reports no
    usage, everything is estimated. Only the necessary part of the conversation is decoded.
    """
    answer, following, is_compacted = _since_last_answer(log)
    if answer is None:
        return ContextSize(None if is_compacted else following, False)
    used = _total(answer.usage)
    return ContextSize(used + following, True) if used else ContextSize(estimate_all(log.messages()), False)


def _since_last_answer(log: Log) -> tuple[AssistantMessage | None, int, bool]:
    """Return the last good answer after the last compaction, an estimate of what follows, and whether a compaction came first."""
    following = 0
    edits: dict[str, ContextEditEntry] = {}
    for entry in log.back():
        if isinstance(entry, CompactionEntry):
            return None, following, True
        if isinstance(entry, ContextEditEntry):
            edits.setdefault(entry.target_id, entry)
        for message in reversed(log.read(entry, edits.get(entry.id))):
            if is_good_answer(message):
                return message, following, False
            following += estimate(message)
    return None, following, False


def tokens_since(messages: Sequence[Message], first: int) -> int | None:
    """Return the size of a context of these messages, from the usage of the last good answer; None if none from `first` on is."""
    for index in range(len(messages) - 1, first - 1, -1):
        message = messages[index]
        if is_good_answer(message):
            used = _total(message.usage)
            return used + estimate_all(messages[index + 1 :]) if used else estimate_all(messages)
    return None


def should_compact(tokens: int | None, context_window: int, reserve_tokens: int) -> bool:
    """Whether so little of the context window is free that the session should be compacted.

    If `tokens` is unknown (None), the answer is no.
    """
    if tokens is None or context_window <= 0:
        return False
    return tokens > context_window - usable_reserve(reserve_tokens, context_window)


def usable_reserve(reserve_tokens: int, context_window: int) -> int:
    """Return the reserve, at most half of the window: otherwise a small window would be compacted again and again."""
    return min(reserve_tokens, context_window // 2) if context_window > 0 else reserve_tokens


def is_good_answer(message: Message) -> TypeGuard[AssistantMessage]:
    """Whether a message is an answer of the model that neither failed nor was aborted."""
    return isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted")


def _total(usage: Usage) -> int:
    total = usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write
    return read_count(total)  # a session file may have any number there


def characters(message: Message) -> int:
    """Return how many characters the model reads for `message`; 0 if it does not see it."""
    match message:
        case BashExecutionMessage():
            return 0 if message.exclude_from_context else len(message.command) + len(message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return len(message.summary)
        case UserMessage() if message.attachments:
            return sum(map(_block_characters, with_attachments(message.content, message.attachments)))
        case _:
            if isinstance(message.content, str):
                return len(message.content)
            return sum(map(_block_characters, message.content))


def _block_characters(block: TextContent | ThinkingContent | ImageContent | ToolCall) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ThinkingContent():
            return len(block.thinking)
        case ImageContent():
            return IMAGE_CHARACTERS
        case ToolCall():
            return len(block.name) + len(msgspec.json.encode(block.arguments).decode())


#: Control characters that text files do not contain.
_NOT_TEXT = r"[\x00-\x06\x0e-\x1a\x1c-\x1f]"


def for_model(message: Message) -> ModelMessage | None:
    """Return `message` in the form in which the model sees it; None if the model does not see it."""
    match message:
        case UserMessage() if message.attachments:
            return UserMessage(with_attachments(message.content, message.attachments), message.timestamp)
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            return message
        case BashExecutionMessage():
            return None if message.exclude_from_context else UserMessage(bash_text(message), message.timestamp)
        case CustomMessage():
            return UserMessage(message.content, message.timestamp)
        case BranchSummaryMessage():
            intro = "The following is a summary of a branch that this conversation came back from:"
            return _summary(intro, message.summary, message.timestamp)
        case CompactionSummaryMessage():
            intro = "The conversation history before this point was compacted into the following summary:"
            return _summary(intro, message.summary, message.timestamp)


class _AttachedFile(Struct, rename="camel"):
    """What the model needs of an attached file, which session files keep as the host sent it."""

    type: str
    content: str
    file_name: str = "unnamed"
    mime_type: str = ""
    extracted_text: str | None = None
    size: int | None = None


def with_attachments(content: str | list[UserBlock], attachments: Sequence[Mapping[str, Any]]) -> list[UserBlock]:
    """Return what the user said, then each document's text under its file name, then the images."""
    blocks: list[UserBlock] = [TextContent(content)] if isinstance(content, str) else list(content)
    files = [file for attached in attachments if (file := _read_attached_file(attached)) is not None]
    for file in files:
        if file.type == "document":
            blocks.append(TextContent(f"\n\n[Document: {file.file_name}]\n{_document_text(file)}"))
    blocks += (ImageContent(file.content, file.mime_type or "image/png") for file in files if file.type == "image")
    return blocks


def _document_text(file: _AttachedFile) -> str:
    """Return what the model reads of a document: the extracted text, or the content if that is text, or what is known of it."""
    if file.extracted_text is not None:
        return file.extracted_text
    try:
        content = base64.b64decode(file.content)
    except ValueError:
        content = None
    try:
        text = content.decode("utf-8-sig") if content is not None else None
    except UnicodeDecodeError:
        text = None
    if text is not None and not re.search(_NOT_TEXT, text):
        return text
    size = len(content) if content is not None else file.size
    kind = file.mime_type or "application/octet-stream"
    known = kind if size is None else f"{kind}, {size} bytes"
    return f"({known}; its content is not text, and the host did not extract any)"


def _read_attached_file(attached: Mapping[str, Any]) -> _AttachedFile | None:
    """The file; None if a session file holds something else in its place."""
    try:
        return msgspec.convert(attached, _AttachedFile)
    except msgspec.ValidationError:
        return None


def bash_text(message: BashExecutionMessage) -> str:
    """Return a command that the user ran, as the text that the model sees (in pi's form)."""
    shown = f"```\n{message.output}\n```" if message.output else "(no output)"
    text = f"Ran `{message.command}`\n{shown}"
    if message.cancelled:
        text += "\n\n(command cancelled)"
    elif message.exit_code:
        text += f"\n\nCommand exited with code {message.exit_code}"
    if message.truncated and message.full_output_path:
        text += f"\n\n[Output truncated. Full output: {message.full_output_path}]"
    return text


def _summary(intro: str, summary: str, timestamp: int) -> UserMessage:
    return UserMessage([TextContent(f"{intro}\n\n<summary>\n{summary}\n</summary>")], timestamp)
