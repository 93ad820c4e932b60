"""Compares what a host sends with what was recorded, by meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from fairlead.core.secrets import REDACTED
from fairlead.replay.lines import HostMessage

#: Fields that differ from one run of a host to the next.
VOLATILE = frozenset("_meta clientInfo cwd outputPath sessionPath timestamp working_dir workingDir".split())
_LONGEST_SHOWN = 200
_MOST_SHOWN = 5


def differences(recorded: Any, sent: Any, where: str = "") -> Iterator[str]:
    """Yield a phrase for each difference. A field that is null counts as absent, and a secret that was left out as equal."""
    if isinstance(recorded, dict) or isinstance(sent, dict):
        old, new = _fields(recorded), _fields(sent)
        if old is None or new is None:
            yield _phrase(where, recorded, sent)
            return
        for name in (*old, *(name for name in new if name not in old)):
            yield from differences(old.get(name), new.get(name), f"{where}.{name}" if where else name)
    elif isinstance(recorded, list) and isinstance(sent, list):
        before, now = cast("list[Any]", recorded), cast("list[Any]", sent)
        if len(before) != len(now):
            yield f"{where}: expected {len(before)} items, got {len(now)}"
            return
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{where}[{index}]")
    elif not _is_equal(recorded, sent):
        yield _phrase(where, recorded, sent)


def described(message: HostMessage) -> str:
    """Name a message, with what it says."""
    if message.body in (None, {}):
        return message.name
    return f"{message.name} {_shown(message.body)}"


def summary(found: list[str]) -> str:
    """Join differences into one text of bounded length."""
    more = f"; and {len(found) - _MOST_SHOWN} more differences" if len(found) > _MOST_SHOWN else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields that are compared; None if it is not an object. Nothing counts as an empty object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    return {name: each for name, each in fields.items() if name not in VOLATILE and each is not None}


def _is_equal(recorded: Any, sent: Any) -> bool:
    if isinstance(recorded, str) and isinstance(sent, str) and REDACTED in recorded:
        return _fits(recorded.split(REDACTED), sent)
    return recorded == sent and (type(recorded) is type(sent) or (_is_number(recorded) and _is_number(sent)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(parts: list[str], text: str) -> bool:
    """Whether a text consists of the parts in order, with anything between them."""
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at <= len(text) - len(last)


def _phrase(where: str, recorded: Any, sent: Any) -> str:
    prefix = f"{where}: " if where else ""
    if recorded is None:
        return f"{prefix}expected nothing, got {_shown(sent)}"
    return f"{prefix}expected {_shown(recorded)}, got {'nothing' if sent is None else _shown(sent)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
