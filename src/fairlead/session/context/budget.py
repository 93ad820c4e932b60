"""How much of a model's context a session may use, what is sent when the conversation needs more, and what a session cost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct, ValidationError, convert, field

from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage, Usage, UserMessage, sum_of_counts
from fairlead.core.model import Model, ModelRequest, StreamEnd
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.models.context_windows import is_small, largest_reserve
from fairlead.session.context import overflow
from fairlead.session.context.tokens import (
    CHARACTERS_PER_TOKEN,
    DEFAULT_RESERVE_TOKENS,
    estimate,
    usable_reserve,
)
from fairlead.session.history.entries import BranchSummaryEntry, CompactionEntry, MessageEntry, UsageEntry

if TYPE_CHECKING:
    from fairlead.session.asyncio_runtime import AsyncioRuntime
    from fairlead.session.context.overflow import Fitter
    from fairlead.session.history.current import CurrentConversation
    from fairlead.session.history.log import Log
    from fairlead.session.selection import Models, Selection
    from fairlead.session.toolbox import Toolbox


#: The shortest answer that is asked for, in tokens.
_SHORTEST_ANSWER = 256
#: The part of the window that is left free for what estimates miss: marks around messages, rounding.
_MARGIN = 32
_LARGEST_MARGIN = 1_024
#: More than the system prompt and the tools ever take; with this much to spare they need not be measured.
_LARGE_OVERHEAD = 65_536
#: How many tokens a provider may count for one that is estimated. More than this is not a matter of the text.
_DENSEST = 16.0
#: A conversation of fewer tokens than this is not shortened further.
_SHORTEST_REQUEST = 64
#: The part of the conversation that is sent after the first overflow of a window of unknown size. Later parts are powers of it.
_LESS = 0.7


class ContextUsage(Struct, frozen=True):
    """How much of the model's context the conversation takes. `tokens` is None from a compaction to the next answer."""

    tokens: int | None
    #: The context window of the model, in tokens; 0 if it is not known.
    window: int
    percent: float | None


class SessionUsage:
    """What a session uses: how much of the model's context now, and how many tokens and dollars so far."""

    def __init__(self, current: CurrentConversation, selection: Selection) -> None:
        self._current = current
        self._selection = selection
        self._sums: RunningTotals | None = None

    @property
    def context(self) -> ContextUsage | None:
        """How much of the context is in use; None without a model."""
        model = self._selection.model
        if model is None:
            return None
        tokens, window = self._current.conversation.context_tokens(), self._selection.window(model)
        return ContextUsage(tokens, window, None if tokens is None or not window else tokens / window * 100)

    @property
    def totals(self) -> Totals:
        """What all branches of the conversation came to so far: messages, tokens, dollars. Counts only what is new."""
        log = self._current.log
        if self._sums is None or self._sums.log is not log:
            self._sums = RunningTotals(log)
        return self._sums.up_to_now()


class ContextBudget:
    """How much of its model's context one conversation may use.

    It trusts the declared window until a request overflows. From then on it relies on what the server said, and makes
    every request fit by shortening what is sent.
    """

    def __init__(
        self,
        models: Models,
        selection: Selection,
        toolbox: Toolbox,
        current: CurrentConversation,
        runtime: AsyncioRuntime,
        *,
        system_prompt: Callable[[], str],
        reserve_tokens: int | None,
    ) -> None:
        #: How much of the window to leave free, in tokens, if it is large enough.
        self.reserve_tokens = DEFAULT_RESERVE_TOKENS if reserve_tokens is None else reserve_tokens
        #: Whether a small window has a smaller reserve: unless one was asked for.
        self._scales_reserve = reserve_tokens is None
        self._models = models
        self._selection = selection
        self._toolbox = toolbox
        self._current = current
        self._runtime = runtime
        self._system_prompt = system_prompt
        #: Tokens that a model counts for one that is estimated, at least 1, where that is known.
        self._densities: dict[tuple[str, str], float] = {}
        #: The most that is sent in the present run, in tokens, because more has overflowed a window of unknown size.
        self._ceiling: int | None = None
        self._fitter: Fitter | None = None
        #: Whether the last request was shortened; then the usage that is reported is not that of the whole conversation.
        self._is_shortened = False
        #: The last request, as it was sent.
        self._sent: ModelRequest | None = None

    def begin(self) -> None:
        """A new run: what was guessed in the last one does not count any more."""
        self._ceiling = None

    # How much there is

    def reserve(self, window: int) -> int:
        """How much of a window to leave free: at most half of what the system prompt and the tools leave, and of a small
        window a quarter unless a reserve was asked for."""
        wanted = self.reserve_tokens
        if self._scales_reserve and is_small(window):
            wanted = min(wanted, largest_reserve(window))
        if window <= 0 or wanted <= (window - _LARGE_OVERHEAD) // 2:
            return wanted
        return usable_reserve(wanted, max(window - self._overhead(), 2))

    def for_messages(self, window: int) -> int:
        """What the system prompt and the tools leave of a window, in tokens as they are estimated here."""
        return max(self.convert_tokens(window) - self._estimate_overhead(), 0)

    def convert_tokens(self, tokens: int) -> int:
        """As many tokens as the provider counts, in those that are estimated here."""
        return int(tokens / self._density)

    @property
    def _density(self) -> float:
        model = self._selection.model
        return 1.0 if model is None else self._densities.get((model.provider, model.id), 1.0)

    def _overhead(self) -> int:
        return int(self._estimate_overhead() * self._density)

    def _estimate_overhead(self) -> int:
        specs = [tool.spec() for tool in self._toolbox.list_declared().values()]
        return _overhead(self._system_prompt(), specs)

    # What is sent

    def prepare(self, request: ModelRequest, model: Model, window: int) -> None:
        """Make `request` fit the model's context window, if need be, and limit its answer to what is left of that."""
        if window <= 0 and self._ceiling is None:
            return
        size = self._current.conversation.context_size()
        used = size.tokens if size.is_reported and not self._is_shortened else None
        if used is None:
            used = self._size(request)
        if self._models.windows.is_reported(model) or self._ceiling is not None:
            limit = self._limit(window)
            if used > limit or self._is_shortened:
                self._shorten(request, limit)
                used = self._size(request)
        if window > 0 and model.max_tokens > 0:
            margin = min(window // _MARGIN, _LARGEST_MARGIN)
            least = min(_SHORTEST_ANSWER, window // 8)
            longest = max(window - used - margin, least)
            if longest < model.max_tokens:
                request.max_tokens = longest
        self._sent = request

    def _limit(self, window: int) -> int:
        """How many tokens may be sent."""
        limit = window - self.reserve(window) if window > 0 else None
        if limit is None or self._ceiling is None:
            return limit or self._ceiling or 0
        return min(limit, self._ceiling)

    def _shorten(self, request: ModelRequest, limit: int) -> None:
        if self._fitter is None:
            self._fitter = overflow.Fitter()
        room = self.convert_tokens(limit) - _overhead(request.system_prompt, request.tools)
        fitted = self._fitter.fit(request.messages, max(room, 0) * CHARACTERS_PER_TOKEN)
        self._is_shortened = fitted != request.messages
        request.messages = fitted

    def _size(self, request: ModelRequest) -> int:
        return int(_estimate(request) * self._density)

    # Overflows

    def on_answer(self, message: AssistantMessage) -> None:
        """Learn from an answer how large the window is at least."""
        model = self._selection.model
        if model is not None and (model.provider, model.id) == (message.provider, message.model):
            usage = message.usage  # without the answer: some servers drop the beginning while they write
            self._models.windows.prove(model, usage.input + usage.cache_read + usage.cache_write)

    async def learn(self, end: StreamEnd, model: Model, cancel: CancelToken) -> bool:
        """Learn from a request that overflowed. Whether it can be sent again as it is, with a shorter answer."""
        text, sent = end.message.error_message or "", self._sent
        windows = self._models.windows
        window = overflow.window_in_error(text)
        if window is None and not windows.is_reported(model):
            window = await self._ask_window(model, cancel)
        if window is not None:
            windows.learn(model, window)
        if sent is None:
            return False
        size, estimated = overflow.size_in_error(text), max(_estimate(sent), 1)
        if size is not None and size <= estimated * _DENSEST:
            self._densities[model.provider, model.id] = max(self._density, size / estimated)
        longest = model.max_tokens if sent.max_tokens is None else sent.max_tokens
        window = self._selection.window(model)
        return windows.is_reported(model) and size is not None and size + _SHORTEST_ANSWER <= window < size + longest

    def squeeze(self, model: Model, overflows: int) -> bool:
        """Send less the next time than the last time, and each time a smaller part of it. The window may be a hundredth of the
        declared one, and only few requests are made to find that out. False if nothing is left that could be shortened.
        """
        sent = self._sent
        if sent is None:
            return False
        size, limit = self._size(sent), self._limit(self._selection.window(model))
        overhead = int(_overhead(sent.system_prompt, sent.tools) * self._density)
        if limit <= 0 or size <= limit:  # nothing that is known explains the overflow
            limit = overhead + int((size - overhead) * _LESS**overflows)
        self._ceiling = limit
        return limit - overhead >= _SHORTEST_REQUEST

    async def _ask_window(self, model: Model, cancel: CancelToken) -> int | None:
        try:
            asking = self._models.ask_window(model)
            return await self._runtime.run_bounded(asking, cancel, timeout=None, grace=0)
        except Interrupted:
            return None

    def explain_overflow(self, model: Model) -> str:
        """Why nothing more can be done about an overflow, and what the user can do."""
        window, overhead = self._selection.window(model), self._overhead()
        known = f" of {window} tokens" if window > 0 else ""
        return (
            f"The request still does not fit the context window{known} of {model.provider}/{model.id}, although as little as "
            f"possible was sent. The system prompt and the tools alone take about {overhead} tokens. Use fewer tools, start the "
            "model server with a larger context, or switch to a larger-context model."
        )


def _estimate(request: ModelRequest) -> int:
    return _overhead(request.system_prompt, request.tools) + sum(map(estimate, request.messages))


def _overhead(system_prompt: str, tools: object) -> int:
    return (len(system_prompt) + len(msgspec.json.encode(tools))) // CHARACTERS_PER_TOKEN


class TokenTotals(Struct, rename="camel"):
    """Tokens by kind. `total` is their sum."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class Totals(Struct):
    """Sums over all branches of a session. Failed answers, summaries and sub-agents count too, since they cost money."""

    user_messages: int = 0
    assistant_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    total_messages: int = 0
    tokens: TokenTotals = field(default_factory=TokenTotals)
    cost: float = 0

    def add(self, usage: Usage) -> None:
        """Add the tokens and the cost of one answer."""
        tokens = self.tokens
        tokens.input = sum_of_counts(tokens.input, usage.input)
        tokens.output = sum_of_counts(tokens.output, usage.output)
        tokens.cache_read = sum_of_counts(tokens.cache_read, usage.cache_read)
        tokens.cache_write = sum_of_counts(tokens.cache_write, usage.cache_write)
        tokens.total = sum_of_counts(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
        self.cost += usage.cost.total


class RunningTotals:
    """The totals of a log. Each time, only the entries that are new are counted: a log never changes those it has."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._totals = Totals()
        #: How many entries are counted.
        self._counted = 0

    def up_to_now(self) -> Totals:
        """Return the totals of all entries so far."""
        sums = self._totals
        while self._counted < len(self.log):
            entry, _ = self.log.at(self._counted)
            self._counted += 1
            if isinstance(entry, MessageEntry):
                sums.total_messages += 1
                for message in self.log.read(entry, keep=False):
                    _count(sums, message)
            elif isinstance(entry, CompactionEntry | BranchSummaryEntry | UsageEntry) and entry.usage is not UNSET:
                with suppress(ValidationError):
                    sums.add(convert(entry.usage, Usage))
        return msgspec.structs.replace(sums, tokens=msgspec.structs.replace(sums.tokens))


def totals(log: Log) -> Totals:
    """Return the totals of a session."""
    return RunningTotals(log).up_to_now()


def _count(sums: Totals, message: Message) -> None:
    match message:
        case UserMessage():
            sums.user_messages += 1
        case ToolResultMessage():
            sums.tool_results += 1
            if message.usage is not UNSET:
                sums.add(message.usage)
        case AssistantMessage():
            sums.assistant_messages += 1
            sums.tool_calls += len(message.tool_calls())
            sums.add(message.usage)
        case _:
            pass
