"""What a model is to the agent: a description, a request, and a stream of events that builds one message.

An adapter (see `fairlead.models`) reads a provider's stream and feeds a `PartialMessage`; after each
network read it hands over `PartialMessage.take()`, the events since the last one with neighbouring
deltas merged. Nothing here grows with the square of an answer's length.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.core import lenient
from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    Cost,
    ModelMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    reported_count,
)
from fairlead.core.runtime import Cancel
from fairlead.core.secrets import redacted

if TYPE_CHECKING:
    from fairlead.core.interceptor import Interceptor

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh")

ABORTED = "Request was aborted"

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


class _OpenBlock:
    __slots__ = ("block", "ended", "half", "index", "parts")

    def __init__(self, index: int, block: AssistantBlock) -> None:
        self.index = index
        self.block = block
        self.parts: list[str] = []
        #: The first half of a surrogate pair, whose other half may come with the next piece.
        self.half = ""
        self.ended = False

    def mended(self, piece: str) -> str:
        """What `piece` adds to the block as valid Unicode: halves are joined, or become U+FFFD."""
        if not self.half and piece.isascii():
            return piece
        piece, self.half = self.half + piece, ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self.half = piece[:-1], piece[-1]
        return lenient.scrub_text(piece)


class PartialMessage:
    """An assistant message while it arrives.

    Blocks are named by whatever key the provider uses for them; their place in the message is the
    order in which they start. A block of text or thinking is the sum of its deltas.
    """

    def __init__(self, model: Model, timestamp: int) -> None:
        self.model = model
        self.usage = Usage()
        self.response_id: str | None = None
        self.finished: StreamEnd | None = None
        self._timestamp = timestamp
        self._blocks: list[_OpenBlock] = []
        self._by_key: dict[Hashable, _OpenBlock] = {}
        self._open: dict[Hashable, _OpenBlock] = {}
        self._events: list[StreamEvent] = []
        #: The pieces that came for one block since the last event.
        self._pending: tuple[_OpenBlock, list[str]] | None = None
        self._opened = False

    # what adapters call

    def open(self) -> None:
        """The provider began to answer. Called once usage and id of the message start are known."""
        if not self._opened:
            self._opened = True
            self._events.append(StreamStart(self.shell(), self))

    def start_text(self, key: Hashable) -> None:
        self._start(key, TextContent(""))

    def start_thinking(self, key: Hashable, *, redacted: bool = False) -> None:
        self._start(key, ThinkingContent("", redacted=redacted))

    def start_tool_call(self, key: Hashable, id: str, name: str) -> None:
        self._start(key, ToolCall(id, name, {}))

    def has(self, key: Hashable) -> bool:
        return key in self._by_key

    def is_open(self, key: Hashable) -> bool:
        return key in self._open

    def add(self, key: Hashable, delta: str) -> None:
        """Add text, thinking or argument JSON. Halves of a surrogate pair in neighbouring deltas are joined.

        After a block's end only arguments still count, without an event: calls that a provider writes at the
        same time are ended one by one, and their arguments are read when the message is complete.
        """
        if not delta:
            return
        block = self._by_key[key]
        if self._pending is not None and self._pending[0] is block:
            self._pending[1].append(delta)
        elif not block.ended or isinstance(block.block, ToolCall):
            self._flush()
            self._pending = (block, [delta])

    def sign(self, key: Hashable, signature: str) -> None:
        """Set the provider's signature of a block; a second one is appended."""
        block = self._by_key[key].block
        if isinstance(block, ThinkingContent):
            block.thinking_signature = (block.thinking_signature or "") + signature
        elif isinstance(block, TextContent):
            block.text_signature = (block.text_signature or "") + signature
        else:
            block.thought_signature = (block.thought_signature or "") + signature

    def end(self, key: Hashable) -> None:
        block = self._open.pop(key, None)
        if block is None:
            return
        self._flush()
        self._end_half(block)
        block.ended = True
        self._events.append(BlockEnd(block.index, _complete(block)[0]))

    def end_open_blocks(self) -> None:
        for key in list(self._open):
            self.end(key)

    def finish(self, stop_reason: StopReason) -> None:
        """The provider said that the message is complete."""
        self.open()
        self.end_open_blocks()
        self._end(stop_reason, None)

    def fail(self, error: str, *, status: int | None = None, retry_after: float | None = None, transient: bool = False) -> None:
        """The message ends here because of an error; what had arrived stays. Secrets that the error quotes are left out."""
        self._end("error", redacted(error), status=status, retry_after=retry_after, transient=transient)

    def abort(self) -> None:
        """The message ends here because the run was aborted; what had arrived stays."""
        self._end("aborted", ABORTED)

    def take(self) -> list[StreamEvent]:
        """The events since the last call."""
        self._flush()
        events, self._events = self._events, []
        return events

    # what readers of a run may ask

    def snapshot(self) -> AssistantMessage:
        """The message as it stands, as a copy. Costs as much as the message is long."""
        self._flush()
        content = [_complete(block, strict=False)[0] for block in self._blocks]
        return self._message(content, "stop")

    def shell(self) -> AssistantMessage:
        """The message as it stands, without its content."""
        return self._message([], "stop")

    # inside

    def _start(self, key: Hashable, block: AssistantBlock) -> None:
        self.open()
        self._flush()
        opened = _OpenBlock(len(self._blocks), block)
        self._blocks.append(opened)
        self._by_key[key] = self._open[key] = opened
        self._events.append(BlockStart(opened.index, msgspec.structs.replace(block)))

    def _flush(self) -> None:
        if self._pending is not None:
            block, pieces = self._pending
            self._pending = None
            self._append(block, block.mended("".join(pieces)))

    def _append(self, block: _OpenBlock, delta: str) -> None:
        if delta:
            block.parts.append(delta)
            if not block.ended:
                self._events.append(BlockDelta(block.index, delta))

    def _end_half(self, block: _OpenBlock) -> None:
        """The other half of a surrogate pair did not come."""
        if block.half:
            self._append(block, lenient.scrub_text(block.half))
            block.half = ""

    def _end(
        self,
        stop_reason: StopReason,
        error: str | None,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
    ) -> None:
        if self.finished is not None:
            return
        self._flush()
        content: list[AssistantBlock] = []
        bad: dict[str, str] = {}
        for opened in self._blocks:
            self._end_half(opened)
            block, problem = _complete(opened)
            content.append(block)
            if problem is not None and isinstance(block, ToolCall):
                bad[block.id] = problem
        message = self._message(content, stop_reason, error)
        self.finished = StreamEnd(message, bad, status, retry_after, transient)
        self._events.append(self.finished)

    def _message(self, content: list[AssistantBlock], stop_reason: StopReason, error: str | None = None) -> AssistantMessage:
        model = self.model
        usage = model.priced(msgspec.structs.replace(self.usage))
        return AssistantMessage(
            content, model.api, model.provider, model.id, usage, stop_reason, self._timestamp, self.response_id, error
        )


def _complete(opened: _OpenBlock, *, strict: bool = True) -> tuple[AssistantBlock, str | None]:
    """The block with all that arrived for it, and the raw arguments if they are no JSON object."""
    block = msgspec.structs.replace(opened.block)
    text = "".join(opened.parts)
    if isinstance(block, TextContent):
        block.text = text
    elif isinstance(block, ThinkingContent):
        block.thinking = text
    else:
        arguments = parse_arguments(text) if strict else preview_arguments(text)
        if arguments is None:
            return block, text
        block.arguments = dict(arguments)
    return block, None


def parse_arguments(text: str) -> Mapping[str, Any] | None:
    """A tool call's arguments, strictly: None unless they are a JSON object. No text at all means no arguments."""
    if not text.strip():
        return {}
    try:
        value: Any = lenient.decode(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def preview_arguments(text: str) -> Mapping[str, Any]:
    """As much of unfinished arguments as can be read; only for showing."""
    import jiter

    try:
        value: Any = jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
