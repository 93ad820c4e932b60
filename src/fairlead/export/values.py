"""Values from a session file, which may be anything, in the types that a page needs; and how the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

#: The largest number that every JSON parser keeps exact.
_LARGEST = 2**53 - 1
#: Longer JSON is not indented.
_LONGEST_INDENTED = 100_000


def text(value: Any) -> str:
    """Return a string; an empty one if `value` is not a string."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float:
    """Return a finite number; 0 if `value` is not a number. Numbers beyond the largest are reduced to it."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return 0
    return min(max(value, -_LARGEST), _LARGEST)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one if `value` is not an object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return []
    return [cast("Mapping[str, Any]", item) for item in cast("Sequence[Any]", value) if isinstance(item, Mapping)]


def strings(value: Any) -> list[str]:
    """Return the strings in a list."""
    return [item for item in cast("list[Any]", value) if isinstance(item, str)] if isinstance(value, list) else []


def blocks(content: Any) -> list[Mapping[str, Any]]:
    """Return the content blocks of a message, whose content may also be a string."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def plain_text(content: Any) -> str:
    """Return the text blocks of a message's content, joined."""
    return "\n".join(text(block.get("text")) for block in blocks(content) if block.get("type") == "text")


def snippet(value: str, limit: int = 90) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(value[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def pretty_json(value: Any) -> str:
    """Return a value as indented JSON; on one line if the indents would be most of it."""
    import json

    try:
        line = json.dumps(value, ensure_ascii=False, default=str)
        if len(line) > _LONGEST_INDENTED:
            return line
        pretty = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):  # an integer with thousands of digits, or deep nesting
        return "(a value that cannot be shown)"
    return pretty if len(pretty) < 10 * len(line) + 1000 else line


def count(amount: float, singular: str, plural: str = "") -> str:
    """Return `1 line` or `2,000 lines`. The plural ends in `s` unless it is given."""
    return f"{amount:,.0f} {singular if amount == 1 else plural or f'{singular}s'}"


def tokens(amount: float) -> str:
    """Format a number of tokens: `950`, `12.3k`, `1.2M`."""
    if amount < 1000:
        return f"{amount:.0f}"
    return f"{amount / 1000:.1f}k" if amount < 999_950 else f"{amount / 1e6:.1f}M"


def dollars(amount: float) -> str:
    """Format a cost, with more digits for small ones."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def utc_time(value: Any) -> tuple[str, str] | None:
    """Convert an ISO timestamp to UTC: for machines, and to the minute for people. None if it cannot be parsed."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ"), time.strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class TokensAndCost:
    """What a part of a session used."""

    input: float = 0
    output: float = 0
    cache: float = 0
    cost: float = 0

    def __bool__(self) -> bool:
        return any((self.input, self.output, self.cache, self.cost))

    def words(self) -> str:
        """Return `12.3k in · 950 out · 1.2M cached · $0.42`, without the parts that are zero."""
        amounts = [(self.input, "in"), (self.output, "out"), (self.cache, "cached")]
        parts = [f"{tokens(amount)} {name}" for amount, name in amounts if amount]
        return " · ".join([*parts, dollars(self.cost)] if self.cost else parts)


def usage_of(entry: Mapping[str, Any]) -> TokensAndCost:
    """Return the usage of an entry: of an assistant's message, a compaction, or a usage entry."""
    usage = mapping(mapping(entry.get("message")).get("usage") or entry.get("usage"))
    return TokensAndCost(
        number(usage.get("input")),
        number(usage.get("output")),
        number(usage.get("cacheRead")) + number(usage.get("cacheWrite")),
        number(mapping(usage.get("cost")).get("total")),
    )


def total(usages: Iterable[TokensAndCost]) -> TokensAndCost:
    """Return the sum of usages."""
    parts = list(usages)
    return TokensAndCost(
        sum(part.input for part in parts),
        sum(part.output for part in parts),
        sum(part.cache for part in parts),
        sum(part.cost for part in parts),
    )
