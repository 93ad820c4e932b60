"""What a session used: tokens and cost, summed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.export.values import dollars, mapping, number, tokens


@dataclass(frozen=True, slots=True)
class Used:
    input: float = 0
    output: float = 0
    cache: float = 0
    cost: float = 0

    def __bool__(self) -> bool:
        return any((self.input, self.output, self.cache, self.cost))

    def words(self) -> str:
        """`12.3k in · 950 out · 1.2M cached · $0.42`, the parts that are not zero."""
        amounts = [(self.input, "in"), (self.output, "out"), (self.cache, "cached")]
        parts = [f"{tokens(amount)} {name}" for amount, name in amounts if amount]
        return " · ".join([*parts, dollars(self.cost)] if self.cost else parts)


def used(entry: Mapping[str, Any]) -> Used:
    """What one entry used: an assistant's message, a compaction, or a use recorded by itself."""
    usage = mapping(mapping(entry.get("message")).get("usage") or entry.get("usage"))
    return Used(
        number(usage.get("input")),
        number(usage.get("output")),
        number(usage.get("cacheRead")) + number(usage.get("cacheWrite")),
        number(mapping(usage.get("cost")).get("total")),
    )


def total(parts: Iterable[Used]) -> Used:
    everything = list(parts)
    return Used(
        sum(part.input for part in everything),
        sum(part.output for part in everything),
        sum(part.cache for part in everything),
        sum(part.cost for part in everything),
    )
