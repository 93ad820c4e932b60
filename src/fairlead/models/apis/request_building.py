"""What the adapters share to build a request: JSON, what was encoded before, and the names of thinking levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.core import lenient
from fairlead.core.messages import ImageContent, ModelMessage, ToolResultMessage
from fairlead.core.model import THINKING_LEVELS, Model, ThinkingLevel

T = TypeVar("T")
M = TypeVar("M", bound=ModelMessage)

_encoder = msgspec.json.Encoder()


class EncodedMessages(Generic[M]):
    """The encoding of messages, for as long as they appear in requests."""

    def __init__(self) -> None:
        # The messages are held, so that no other can get the same id.
        self._messages: list[M] = []
        self._parts: list[bytes] = []

    def parts(self, messages: Sequence[M], encode: Callable[[M], bytes]) -> list[bytes]:
        """The encoding of each message; `encode` is called for those that the last call did not have."""
        same = min(len(messages), len(self._messages))
        known: dict[int, bytes] = {}
        if messages[:same] != self._messages[:same]:  # messages are gone, or in another order
            known = {id(message): part for message, part in zip(self._messages, self._parts, strict=True)}
            same = 0
        parts = self._parts[:same]
        parts += [known.get(id(message)) or encode(message) for message in messages[same:]]
        self._messages, self._parts = list(messages), list(parts)
        return parts


def encode_json(value: Any) -> bytes:
    """The JSON of plain data or structs; lone surrogates, which have no UTF-8, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(lenient.scrub(msgspec.to_builtins(value)))


class PrefixCache(Generic[T]):
    """What was made of the beginning of a conversation, so that the next request only adds what is new.

    A conversation is compared with the last one by the identity of its messages, which is a few nanoseconds for each.
    A compaction or a move to another branch makes it begin anew.
    """

    __slots__ = ("_made", "_messages")

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._made: list[T] = []

    def resume(self, messages: Sequence[ModelMessage]) -> tuple[int, list[T]]:
        """How many of the messages were dealt with, and what was made of them: a list of the caller's own."""
        count = len(self._messages)
        if messages[:count] == self._messages:
            return count, list(self._made)
        return 0, []

    def keep(self, messages: Sequence[ModelMessage], made: list[T]) -> None:
        """Remember what was made of these messages."""
        self._messages, self._made = list(messages), made


def results_with_images(messages: Iterable[ModelMessage]) -> list[ToolResultMessage]:
    """The tool results that have images, which most APIs want beside the result and not in it."""
    return [
        message
        for message in messages
        if isinstance(message, ToolResultMessage) and any(isinstance(block, ImageContent) for block in message.content)
    ]


#: The models of the first GPT-5 generation, the only ones that know "minimal" and think by default.
_FIRST_GPT_5 = frozenset({"gpt-5", "gpt-5-mini", "gpt-5-nano"})

_EFFORTS: Mapping[str, str | None] = {
    "off": None,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}


def provider_level(model: Model, level: ThinkingLevel, names: Mapping[str, str | None]) -> str | None:
    """What the provider of `model` calls `level`: by the model's own map, else by `names`.

    For a level that the model lacks it is the nearest lower one, else the nearest higher one. None
    means that there is nothing to say: the provider's default holds.
    """
    called = {**names, **(model.thinking_level_map or {})}
    if level == "off":
        return called.get("off")
    at = THINKING_LEVELS.index(level)
    nearest = (*reversed(THINKING_LEVELS[1 : at + 1]), *THINKING_LEVELS[at + 1 :])
    return next((name for candidate in nearest if (name := called.get(candidate)) is not None), None)


def openai_efforts(model: Model) -> Mapping[str, str | None]:
    """OpenAI's efforts by level: those that every model with efforts accepts.

    "minimal", "xhigh" and "none" are refused by most models; a model's `thinking_level_map` allows them.
    """
    undated = model.id.rpartition("/")[2].partition("-20")[0]
    if undated in _FIRST_GPT_5:
        return {**_EFFORTS, "off": "minimal", "minimal": "minimal"}
    return _EFFORTS
