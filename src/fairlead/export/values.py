"""Values out of a session, which may hold anything, as the types that a page needs; and how they are written there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

#: The largest number that every reader of JSON takes as it is.
_LARGEST = 2**53 - 1
#: Characters of JSON that are laid out over several lines.
_LONGEST_INDENTED = 100_000


def text(value: Any) -> str:
    """A string, or the empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float:
    """A finite number, or zero. What no count and no cost can be is made as large as one may be."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return 0
    return min(max(value, -_LARGEST), _LARGEST)


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return []
    return [cast("Mapping[str, Any]", item) for item in cast("Sequence[Any]", value) if isinstance(item, Mapping)]


def strings(value: Any) -> list[str]:
    """The strings of a list."""
    return [item for item in cast("list[Any]", value) if isinstance(item, str)] if isinstance(value, list) else []


def blocks(content: Any) -> list[Mapping[str, Any]]:
    """The content blocks of a message, whose content may also be a plain string."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def plain(content: Any) -> str:
    """The text blocks of a message's content, joined."""
    return "\n".join(text(block.get("text")) for block in blocks(content) if block.get("type") == "text")


def snippet(value: str, limit: int = 90) -> str:
    """The beginning of a text on one line."""
    line = " ".join(value[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def pretty_json(value: Any) -> str:
    """A value as JSON over several lines; on one, if indents would make up most of it."""
    import json

    try:
        line = json.dumps(value, ensure_ascii=False, default=str)
        if len(line) > _LONGEST_INDENTED:
            return line
        pretty = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a nest of objects
        return "(a value that cannot be shown)"
    return pretty if len(pretty) < 10 * len(line) + 1000 else line


def count(amount: float, singular: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{amount:,.0f} {singular}{'' if amount == 1 else 's'}"


def tokens(amount: float) -> str:
    """A number of tokens, short: `950`, `12.3k`, `1.2M`."""
    if amount < 1000:
        return f"{amount:.0f}"
    return f"{amount / 1000:.1f}k" if amount < 999_950 else f"{amount / 1e6:.1f}M"


def dollars(amount: float) -> str:
    """A cost; small ones with enough digits to say something."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def moment(value: Any) -> tuple[str, str] | None:
    """An ISO timestamp as UTC: for machines, and for people to the minute."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ"), time.strftime("%Y-%m-%d %H:%M")
