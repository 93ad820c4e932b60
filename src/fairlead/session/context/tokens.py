"""The size of a conversation in tokens: what providers report, and estimates for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeGuard

import msgspec
from msgspec import Struct

from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    UserMessage,
    read_count,
)
from fairlead.session.context.model_view import with_attachments
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
