"""What the adapters share to build a request.

Requests of one conversation repeat its messages. `EncodedMessages` and `PrefixCache` keep the results of earlier work, so that
each request only encodes what is new. `provider_level` gives a thinking level the provider's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.core import lenient
from fairlead.core.messages import ImageContent, ModelMessage, ToolResultMessage
from fairlead.core.model import THINKING_LEVELS, Model, ThinkingLevel, ToolSpec

T = TypeVar("T")
M = TypeVar("M", bound=ModelMessage)

_encoder = msgspec.json.Encoder()


class EncodedMessages(Generic[M]):
    """Remembers how messages were encoded, for as long as they appear in requests."""

    def __init__(self) -> None:
        # Holding the messages keeps another object from getting the same id.
        self._messages: list[M] = []
        self._parts: list[bytes] = []

    def parts(self, messages: Sequence[M], encode: Callable[[M], bytes]) -> list[bytes]:
        """Return the encoding of each message. Calls `encode` for messages that the last call did not have."""
        same = min(len(messages), len(self._messages))
        known: dict[int, bytes] = {}
        if messages[:same] != self._messages[:same]:  # messages were removed or reordered
            known = {id(message): part for message, part in zip(self._messages, self._parts, strict=True)}
            same = 0
        parts = self._parts[:same]
        parts += [known.get(id(message)) or encode(message) for message in messages[same:]]
        self._messages, self._parts = list(messages), list(parts)
        return parts


def encode_json(value: Any) -> bytes:
    """Encode plain data or structs as JSON. Lone surrogates, which UTF-8 cannot express, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(lenient.scrub(msgspec.to_builtins(value)))


def sent_parameters(tool: ToolSpec, api: str, *, supports_strict: bool) -> tuple[dict[str, Any], bool]:
    """Return the schema to send for the arguments of a tool, and whether the provider is to enforce it.

    Raises ProviderError if the tool requires that and the provider cannot.
    """
    if tool.strict is None:
        return tool.parameters, False
    from fairlead.models.apis.strict_tools import strict_parameters

    strict = strict_parameters(tool, api, supported=supports_strict)
    return (tool.parameters, False) if strict is None else (strict, True)


class PrefixCache(Generic[T]):
    """Remembers what the first messages of a conversation became, so that the next request only adds what is new.

    Messages are compared by identity, which takes a few nanoseconds each. After a compaction, or a move to another branch,
    the cache starts again.
    """

    __slots__ = ("_made", "_messages")

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._made: list[T] = []

    def resume(self, messages: Sequence[ModelMessage]) -> tuple[int, list[T]]:
        """Return how many of the messages the cache covers, and what they became, in a list that the caller may change."""
        count = len(self._messages)
        if messages[:count] == self._messages:
            return count, list(self._made)
        return 0, []

    def keep(self, messages: Sequence[ModelMessage], made: list[T]) -> None:
        """Remember that `messages` became `made`."""
        self._messages, self._made = list(messages), made


def results_with_images(messages: Iterable[ModelMessage]) -> list[ToolResultMessage]:
    """Return the tool results that have images. Most APIs want images after the result and not in it."""
    return [
        message
        for message in messages
        if isinstance(message, ToolResultMessage) and any(isinstance(block, ImageContent) for block in message.content)
    ]


#: The first GPT-5 generation: the only models that accept "minimal" and think by default.
_FIRST_GPT_5 = frozenset({"gpt-5", "gpt-5-mini", "gpt-5-nano"})

_EFFORTS: Mapping[str, str | None] = {
    "off": None,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def provider_level(model: Model, level: ThinkingLevel, names: Mapping[str, str | None]) -> str | None:
    """Return the provider's name for a thinking level.

    Args:
        model: the model, whose `thinking_level_map` wins over `names`.
        level: the level that the user wants. If the model lacks it, the nearest lower level is used, else the nearest higher.
        names: the provider's name for each level.

    Returns:
        The name; None to send nothing, so that the provider's default applies.
    """
    called = {**names, **(model.thinking_level_map or {})}
    if level == "off":
        return called.get("off")
    at = THINKING_LEVELS.index(level)
    nearest = (*reversed(THINKING_LEVELS[1 : at + 1]), *THINKING_LEVELS[at + 1 :])
    return next((name for candidate in nearest if (name := called.get(candidate)) is not None), None)


def openai_efforts(model: Model) -> Mapping[str, str | None]:
    """Return OpenAI's reasoning effort for each thinking level: only efforts that every such model accepts.

    Most models refuse "minimal", "xhigh" and "none"; a model's `thinking_level_map` can allow them.
    """
    undated = model.id.rpartition("/")[2].partition("-20")[0]
    if undated in _FIRST_GPT_5:
        return {**_EFFORTS, "off": "minimal", "minimal": "minimal"}
    return _EFFORTS
