"""The totals of a session: messages, tokens and cost."""

from __future__ import annotations

from contextlib import suppress

from msgspec import UNSET, Struct, ValidationError, convert, field

from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage, Usage, UserMessage, sum_of_counts
from fairlead.session.history.entries import BranchSummaryEntry, CompactionEntry, MessageEntry, UsageEntry
from fairlead.session.history.log import Log


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


def totals(log: Log) -> Totals:
    """Return the totals of a session."""
    sums = Totals()
    for entry in log.entries():
        if isinstance(entry, MessageEntry):
            sums.total_messages += 1
            for message in log.read(entry):
                _count(sums, message)
        elif isinstance(entry, CompactionEntry | BranchSummaryEntry | UsageEntry) and entry.usage is not UNSET:
            with suppress(ValidationError):
                sums.add(convert(entry.usage, Usage))
    return sums


def _count(sums: Totals, message: Message) -> None:
    match message:
        case UserMessage():
            sums.user_messages += 1
        case ToolResultMessage():
            sums.tool_results += 1
        case AssistantMessage():
            sums.assistant_messages += 1
            sums.tool_calls += len(message.tool_calls())
            sums.add(message.usage)
        case _:
            pass
