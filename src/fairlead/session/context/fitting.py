"""Shortens the messages of a request that do not fit the model's context window. The session itself is not changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from msgspec import structs

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from fairlead.session.context.tokens import IMAGE_CHARACTERS, characters

#: No message is made shorter than this many characters.
_SHORTEST = 240
#: Lengths are rounded down to powers of this, so that a message keeps its form and its encoding over several requests.
_STEP = 1.2
#: How many characters of the user's last message are repeated if the message itself is left out.
_REQUEST_CHARACTERS = 500
#: Room for the note that replaces the middle of a text.
_NOTE_CHARACTERS = 90

NO_ROOM_FOR_IMAGE = "(an image was here; it does not fit the model's context window)"

M = TypeVar("M", bound=ModelMessage)


class Fitter:
    """Shortens messages. It returns the same object for the same message, so that adapters can keep their encodings."""

    def __init__(self) -> None:
        self._short: dict[int, tuple[ModelMessage, int, ModelMessage]] = {}

    def fit(self, messages: Sequence[ModelMessage], budget: int) -> list[ModelMessage]:
        """Return the messages in at most `budget` characters, as far as possible.

        The longest messages lose their middle, all down to the same length. If that is not enough, the oldest messages are
        left out. A note in the text tells the model about each gap.
        """
        sizes = [characters(message) for message in messages]
        if sum(sizes) <= budget:
            self._short.clear()
            return list(messages)
        first = _first_kept(messages, sizes, budget)
        note = [_note_about(messages[:first], messages[first:])] if first else []
        limit = _limit(sizes[first:], budget - sum(map(characters, note)))
        before, self._short = self._short, {}
        kept = [
            message if size <= limit else self._shortened(message, limit, before.get(id(message)))
            for message, size in zip(messages[first:], sizes[first:], strict=True)
        ]
        return [*note, *kept]

    def _shortened(self, message: ModelMessage, limit: int, known: tuple[ModelMessage, int, ModelMessage] | None) -> ModelMessage:
        if known is None or known[0] is not message or known[1] != limit:
            known = (message, limit, shortened(message, limit))
        self._short[id(message)] = known
        return known[2]


def shortened(message: ModelMessage, limit: int) -> ModelMessage:
    """Return a copy of `message` with about `limit` characters."""
    if isinstance(message, AssistantMessage):
        return structs.replace(message, content=_shortened_answer(message.content, limit))
    if isinstance(message, ToolResultMessage):
        return structs.replace(message, content=_shortened_blocks(message.content, limit))
    if isinstance(message.content, str):
        return structs.replace(message, content=shortened_text(message.content, limit))
    return structs.replace(message, content=_shortened_blocks(message.content, limit))


def shortened_text(text: str, limit: int) -> str:
    """Return `text` with at most about `limit` characters, including the note that replaces its middle."""
    if len(text) <= limit:
        return text
    return without_middle(text, max(limit - _NOTE_CHARACTERS, 0), " because they do not fit the model's context window")


def without_middle(text: str, limit: int, reason: str = "") -> str:
    """Return `text` with at most `limit` of its characters: a note for the model, with the reason, replaces its middle."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out{reason} ...]\n{text[len(text) - half :]}"


def _first_kept(messages: Sequence[ModelMessage], sizes: Sequence[int], budget: int) -> int:
    """Return the index of the first message to keep: from there on all fit if each is shortened as far as possible."""
    room, first = budget - _REQUEST_CHARACTERS - _SHORTEST, len(messages) - 1
    if sum(min(size, _SHORTEST) for size in sizes) <= budget:
        return 0
    for index in range(len(messages) - 1, -1, -1):
        room -= min(sizes[index], _SHORTEST)
        if room < 0:
            break
        if not isinstance(messages[index], ToolResultMessage):
            first = index
    # A tool result needs the call before it.
    while first > 0 and isinstance(messages[first], ToolResultMessage):
        first -= 1
    return first


def _note_about(messages: Sequence[ModelMessage], kept: Sequence[ModelMessage]) -> UserMessage:
    """Return the note that replaces `messages`. It repeats the user's last request unless the kept messages have one."""
    text = f"[{len(messages)} earlier messages left out because they do not fit the model's context window]"
    asked = next((message for message in reversed(messages) if isinstance(message, UserMessage)), None)
    if asked is not None and not any(isinstance(message, UserMessage) for message in kept):
        content = asked.content if isinstance(asked.content, str) else "\n".join(_texts(asked.content))
        text += f"\nThe last of them that came from the user:\n{shortened_text(content, _REQUEST_CHARACTERS)}"
    return UserMessage(text, messages[-1].timestamp)


def _limit(sizes: Sequence[int], budget: int) -> int:
    """Return the length for which the messages add up to `budget` if all longer ones are cut to it."""
    left, limit = budget, 0
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            limit = share
            break
        left -= size
    limit = max(limit, _SHORTEST)
    return max(int(_STEP ** math.floor(math.log(limit, _STEP))), _SHORTEST)


def _shortened_blocks(blocks: Sequence[UserBlock], limit: int) -> list[UserBlock]:
    """Shorten the blocks of a user's message or a tool result. Images stay if they fit; the texts share the rest."""
    images = sum(isinstance(block, ImageContent) for block in blocks)
    with_images = images * IMAGE_CHARACTERS <= limit // 2 if images else True
    room = limit - images * (IMAGE_CHARACTERS if with_images else len(NO_ROOM_FOR_IMAGE))
    lengths = [len(block.text) for block in blocks if isinstance(block, TextContent)]
    longest = _limit(lengths, max(room, 0)) if lengths else 0
    short: list[UserBlock] = []
    for block in blocks:
        if isinstance(block, TextContent):
            short.append(TextContent(shortened_text(block.text, longest)) if len(block.text) > longest else block)
        else:
            short.append(block if with_images else TextContent(NO_ROOM_FOR_IMAGE))
    return short


def _shortened_answer(blocks: Sequence[AssistantBlock], limit: int) -> list[AssistantBlock]:
    """Shorten the blocks of an answer and drop its thinking. A text loses its signature, which refers to the thinking."""
    kept = [block for block in blocks if not isinstance(block, ThinkingContent)]
    each = max(limit // max(len(kept), 1), _SHORTEST)
    short: list[AssistantBlock] = []
    for block in kept:
        if isinstance(block, ToolCall):
            arguments = cast("dict[str, Any]", _shortened_value(block.arguments, each))
            short.append(ToolCall(block.id, block.name, arguments, block.thought_signature))
        else:
            short.append(TextContent(shortened_text(block.text, each)))
    return short or [TextContent("(thinking left out)")]


def _shortened_value(value: Any, limit: int) -> Any:
    """Shorten the long strings in an argument of a call."""
    if isinstance(value, str):
        return shortened_text(value, limit)
    if isinstance(value, dict):
        return {key: _shortened_value(item, limit) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_shortened_value(item, limit) for item in cast("list[Any]", value)]
    return value


def _texts(blocks: Sequence[UserBlock]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, TextContent)]
