"""What a model is to the agent: a description, a request, and a stream of events that builds one message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    Cost,
    ModelMessage,
    PromptCache,
    Usage,
    read_count,
)
from fairlead.core.runtime import CancelToken

if TYPE_CHECKING:
    from fairlead.core.partial_message import PartialMessage

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

#: The API of models that stand for others: each request goes to a model that the first one names. pi has the same name.
VIRTUAL_API = "pi-virtual"

#: More than any model call costs. The limit keeps sums finite, whatever the price.
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
    #: The provider's name for each thinking level; None for a level that the model lacks.
    thinking_level_map: dict[str, str | None] | None = None
    #: How a compatible server differs from the original API; read by the adapter.
    compat: dict[str, Any] | None = None
    #: None: not known, so the cache is not kept warm.
    prompt_cache: PromptCache | None = None

    @property
    def is_virtual(self) -> bool:
        """Whether each request goes to another model, which answers under its own name."""
        return self.api == VIRTUAL_API

    def levels(self) -> list[ThinkingLevel]:
        """The thinking levels of the model: xhigh and max only if the map names them, others unless the map excludes them."""
        if not self.reasoning:
            return ["off"]
        names = self.thinking_level_map or {}
        has: list[ThinkingLevel] = []
        for level in THINKING_LEVELS:
            if names[level] is not None if level in names else level not in ("xhigh", "max"):
                has.append(level)
        return has or ["off"]

    def clamp(self, level: ThinkingLevel) -> ThinkingLevel:
        """Return `level` if the model has it, else the next higher level it has, else the next lower one."""
        levels = self.levels()
        wanted = THINKING_LEVELS.index(level)
        nearest = (*THINKING_LEVELS[wanted:], *reversed(THINKING_LEVELS[:wanted]))
        return next(candidate for candidate in nearest if candidate in levels)

    def fill_in_cost(self, usage: Usage) -> Usage:
        """Fill in `usage.cost` and `usage.total_tokens`, and return `usage`. Impossible counts become 0."""
        price = self.cost
        usage.input, usage.output = read_count(usage.input), read_count(usage.output)
        usage.cache_read, usage.cache_write = read_count(usage.cache_read), read_count(usage.cache_write)
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        prices = (price.input, price.output, price.cache_read, price.cache_write)
        parts = [min(count * (price / 1e6), _MOST_DOLLARS) for count, price in zip(counts, prices, strict=True)]
        usage.total_tokens = sum(counts)
        usage.cost = Cost(*parts, total=sum(parts), total_from_provider=False if usage.total_tokens else UNSET)
        return usage


#: Whether the provider should keep the arguments of calls to the schema of the tool: if it can, or else the request fails.
Strictness: TypeAlias = Literal["prefer", "require"]


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    #: Whether the provider is asked to enforce the schema.
    strict: Strictness | None = None


class Interceptor(Protocol):
    """Sees every HTTP exchange with a provider, and can change what is sent. It raises nothing and ends in bounded time."""

    async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the body, as JSON, and the headers to send instead."""
        ...

    async def response(self, status: int, headers: Mapping[str, str]) -> None: ...

    @property
    def sees_stream(self) -> bool:
        """Whether `stream_event` wants the events of the response."""
        ...

    async def stream_event(self, model: Model, data: Any) -> None:
        """See an event of the response, as JSON, before the model's message is built from it."""
        ...


class WaitListener(Protocol):
    """Is called when a request has to wait before it can be sent."""

    def waits(self, seconds: float, reason: str) -> None:
        """The request waits for about this long. May be called again if the wait becomes longer."""
        ...

    def proceeds(self) -> None:
        """A wait that was reported has ended: the request is sent, or was given up."""
        ...


class ModelRequest(Struct):
    """One model call. `messages` are the same objects in every call, so that adapters can cache their encoding."""

    system_prompt: str
    messages: list[ModelMessage]
    tools: list[ToolSpec]
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    #: The same for a whole conversation; providers use it to route to a warm prompt cache.
    session_id: str | None = None
    #: Sees and changes what is sent to the provider; None: nothing does.
    interceptor: Interceptor | None = None
    #: Is called when the request has to wait because of limits of its key; None: nothing is.
    wait_listener: WaitListener | None = None
    #: Tokens by thinking level, for APIs that take a number. They come before those of the settings.
    thinking_budgets: dict[str, int] = {}


class StreamStart(Struct):
    """The provider has begun to answer. `message` has no content yet."""

    message: AssistantMessage
    #: The message that is arriving.
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
    """The message is complete, and the stream has ended. `stop_reason` says whether it failed or was aborted."""

    message: AssistantMessage
    #: By tool call id, the arguments as received if they were not a JSON object.
    bad_arguments: dict[str, str] = {}
    status: int | None = None
    retry_after: float | None = None
    #: Whether the same request can succeed later.
    transient: bool = False
    #: Whether a limit ended the run, so that there is nothing to retry.
    is_final: bool = False
    #: Whether the server cannot read something in the request, so that it can never succeed, whatever the status says.
    refused: bool = False


StreamEvent: TypeAlias = StreamStart | BlockStart | BlockDelta | BlockEnd | StreamEnd


class ModelStream(Protocol):
    """Calls a model. Yields lists of events; the last event is always a `StreamEnd`, also after errors and aborts. It raises
    nothing. After `cancel` fires it ends soon, and keeps what has arrived."""

    def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]: ...
