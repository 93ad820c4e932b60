"""What a model is to the agent: a description, a request, and a stream of events that builds one message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    Cost,
    ModelMessage,
    Usage,
    reported_count,
)
from fairlead.core.runtime import Cancel

if TYPE_CHECKING:
    from fairlead.core.interceptor import Interceptor
    from fairlead.core.partial_message import PartialMessage

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh")

#: No model call costs that much; with a price of any size, the sum stays a number.
_MOST_DOLLARS = 1e12


class Price(Struct, rename="camel", frozen=True):
    """US dollars per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class Model(Struct, rename="camel", omit_defaults=True, frozen=True):
    """A model as hosts see it. It holds no secret: keys and headers stay in `fairlead.models`."""

    id: str
    name: str
    api: str
    provider: str
    base_url: str
    reasoning: bool
    input: list[Literal["text", "image"]]
    cost: Price
    context_window: int
    max_tokens: int
    #: How each thinking level is called by this model's provider; None marks a level it lacks.
    thinking_level_map: dict[str, str | None] | None = None
    #: Departures of an imitator from the API it imitates; read by the adapter.
    compat: dict[str, Any] | None = None

    def levels(self) -> list[ThinkingLevel]:
        """The thinking levels it has. xhigh only where the map names it; a level that the map marks as lacking, not."""
        if not self.reasoning:
            return ["off"]
        names = self.thinking_level_map or {}
        has: list[ThinkingLevel] = []
        for level in THINKING_LEVELS:
            if names[level] is not None if level in names else level != "xhigh":
                has.append(level)
        return has or ["off"]

    def clamp(self, level: ThinkingLevel) -> ThinkingLevel:
        """The level itself if the model has it, else the next higher one it has, else the next lower one."""
        levels = self.levels()
        wanted = THINKING_LEVELS.index(level)
        nearest = (*THINKING_LEVELS[wanted:], *reversed(THINKING_LEVELS[:wanted]))
        return next(candidate for candidate in nearest if candidate in levels)

    def priced(self, usage: Usage) -> Usage:
        """Fill in `usage.cost` and `usage.total_tokens`. Numbers that cannot be count as not reported."""
        price = self.cost
        usage.input, usage.output = reported_count(usage.input), reported_count(usage.output)
        usage.cache_read, usage.cache_write = reported_count(usage.cache_read), reported_count(usage.cache_write)
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        prices = (price.input, price.output, price.cache_read, price.cache_write)
        parts = [min(count * (price / 1e6), _MOST_DOLLARS) for count, price in zip(counts, prices, strict=True)]
        usage.total_tokens = sum(counts)
        usage.cost = Cost(*parts, total=sum(parts))
        return usage


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct):
    """One model call. `messages` are the same objects from call to call, so that adapters can keep their encoding."""

    system_prompt: str
    messages: list[ModelMessage]
    tools: list[ToolSpec]
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    #: Stable over a conversation; providers route to a warm prompt cache by it.
    session_id: str | None = None
    #: Steps in between the adapter and its provider; None: nobody does.
    interceptor: Interceptor | None = None


class StreamStart(Struct):
    """The provider began to answer. `message` has no content yet."""

    message: AssistantMessage
    #: The message while it arrives.
    partial: PartialMessage


class BlockStart(Struct):
    index: int
    block: AssistantBlock


class BlockDelta(Struct):
    index: int
    delta: str


class BlockEnd(Struct):
    index: int
    block: AssistantBlock


class StreamEnd(Struct):
    """The message is complete; nothing follows. Failure and abort end a stream too: see `stop_reason`."""

    message: AssistantMessage
    #: Arguments that were not a JSON object, as received, by tool call id.
    bad_arguments: dict[str, str] = {}
    status: int | None = None
    retry_after: float | None = None
    #: Whether the same request may succeed later.
    transient: bool = False
    #: Whether the run ended here without asking the model: there is no request to send again.
    is_final: bool = False
    #: Whether the request will never succeed, whatever the status says: the server cannot read something in it.
    refused: bool = False


StreamEvent: TypeAlias = StreamStart | BlockStart | BlockDelta | BlockEnd | StreamEnd


class ModelStream(Protocol):
    """Asks a model. Yields lists of events, the last of which ends with a `StreamEnd`, always: errors and
    aborts are ends, not exceptions. After `cancel` fires it ends soon, keeping what had arrived."""

    def __call__(self, request: Request, cancel: Cancel) -> AsyncIterator[list[StreamEvent]]: ...
