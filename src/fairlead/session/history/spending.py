"""What model calls used, read from session files: tokens and cost, each call once.

A fork copies the entries of the session that it starts from, with their ids and times. `Spending.key` is therefore the same in
both files, and a reader that counts keys counts each call once. A sub-agent's session is not read: its parent has an entry with
the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from fairlead.core import lenient

_MARK = b'"usage"'
#: The largest number that every JSON parser keeps exact.
_LARGEST = 2**53 - 1


class Spending(Struct, frozen=True):
    """One model call, or the sum of those of a sub-agent."""

    key: tuple[str, str, float]
    #: ISO 8601.
    timestamp: str
    provider: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float


class _Message(Struct):
    """The fields of a message that matter here. They accept any type, so that one bad field does not hide the others."""

    usage: Any = None
    provider: Any = ""
    model: Any = ""


class _Line(Struct):
    """A line with a message, whose content is skipped without being decoded."""

    id: Any = ""
    timestamp: Any = ""
    message: _Message | None = None
    usage: Any = None
    provider: Any = ""
    model: Any = ""


_decoder = msgspec.json.Decoder(_Line)


def spendings(data: bytes) -> Iterator[Spending]:
    """Yield the model calls that the lines of a session file report, in order. Lines that cannot be read are skipped."""
    start = 0
    last: Spending | None = None
    while (at := data.find(_MARK, start)) >= 0:
        begin = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        start = end + 1 if end >= 0 else len(data)
        found = _spending(data[begin : end if end >= 0 else len(data)])
        if found is None:
            continue
        if not found.model and last is not None:  # a summary, which the model before it wrote
            found = msgspec.structs.replace(found, provider=last.provider, model=last.model)
        last = found
        yield found


def _spending(text: bytes) -> Spending | None:
    line = _decode(text)
    if line is None:
        return None
    source = line.message if line.message is not None and isinstance(line.message.usage, dict) else line
    usage = _object(source.usage)
    amounts = [int(_number(usage.get(name))) for name in ("input", "output", "cacheRead", "cacheWrite")]
    dollars = _number(_object(usage.get("cost")).get("total"))
    if not dollars and not any(amounts):
        return None
    timestamp = _text(line.timestamp)
    read, written, cache_read, cache_write = amounts
    key = (_text(line.id), timestamp, dollars + sum(amounts))
    return Spending(key, timestamp, _text(source.provider), _text(source.model), read, written, cache_read, cache_write, dollars)


def _decode(text: bytes) -> _Line | None:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return msgspec.convert(lenient.decode(text), _Line)
    except (msgspec.ValidationError, ValueError):
        return None


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return 0
    return min(max(value, 0), _LARGEST)
