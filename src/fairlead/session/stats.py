"""What a conversation came to: messages, tokens, dollars."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage


class TokenTotals(Struct, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class Totals(Struct):
    """Sums over the messages of a conversation, failed ones included: they were paid for."""

    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: TokenTotals
    cost: float


def totals(messages: Sequence[Message]) -> Totals:
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    tokens = TokenTotals(
        sum(answer.usage.input for answer in answers),
        sum(answer.usage.output for answer in answers),
        sum(answer.usage.cache_read for answer in answers),
        sum(answer.usage.cache_write for answer in answers),
    )
    tokens.total = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
    return Totals(
        user_messages=sum(isinstance(message, UserMessage) for message in messages),
        assistant_messages=len(answers),
        tool_calls=sum(len(answer.tool_calls()) for answer in answers),
        tool_results=sum(isinstance(message, ToolResultMessage) for message in messages),
        total_messages=len(messages),
        tokens=tokens,
        cost=sum(answer.usage.cost.total for answer in answers),
    )
