"""What the adapters share to read a response.

`BlockWriter` keeps a message's blocks in strict order. The small functions read JSON whose types cannot be relied on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import urandom
from typing import Any, Literal, cast

from fairlead.core import lenient
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.request_building import encode_json

#: Names that servers use for temporary failures.
_TEMPORARY_FAILURES = frozenset(
    {
        "internal",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "resource_exhausted",
        "server_error",
        "service_unavailable",
        "timeout",
        "unavailable",
    }
)


#: The fields that hold pieces of a text, which `PartialMessage.add` joins.
_PIECES = frozenset(
    "arguments content delta partial_json reasoning reasoning_content reasoning_text refusal summary text thinking".split()
)


class BlockWriter:
    """Writes the blocks of a message, and ends each before it starts the next.

    `text` and `thinking` append to the open block if it is of that kind; otherwise they start a new one.
    """

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._kind: Literal["text", "thinking", "call"] | None = None
        self._key = 0

    def text(self, piece: str) -> int:
        """Add text. Returns the key of its block."""
        if self._kind != "text":
            self._partial.start_text(self._next("text"))
        self._partial.add(self._key, piece)
        return self._key

    def thinking(self, piece: str) -> int:
        """Add thinking. Returns the key of its block."""
        if self._kind != "thinking":
            self._partial.start_thinking(self._next("thinking"))
        self._partial.add(self._key, piece)
        return self._key

    def call(self, id: str, name: str) -> int:
        """Start a tool call. Returns its key, to which arguments may be added even after another block has started."""
        self._partial.start_tool_call(self._next("call"), id, name)
        return self._key

    def end(self, key: int | None = None) -> None:
        """End the open block, so that the next piece starts a new one. With `key`, only if the open block has that key."""
        if self._kind is not None and key in (None, self._key):
            self._partial.end(self._key)
            self._kind = None

    def _next(self, kind: Literal["text", "thinking", "call"]) -> int:
        self.end()
        self._kind = kind
        self._key += 1
        return self._key


def new_call_id() -> str:
    """Make an id for a tool call that came without one."""
    return f"call_{urandom(12).hex()}"


def fail_with(partial: PartialMessage, error: Any, fallback: str) -> None:
    """End the message with an error from inside a stream. `error` is an object or a text; if it is empty, `fallback` is shown."""
    fields = record(error)
    inner = record(fields.get("error")) or fields
    message = string(inner.get("message")) or string(inner.get("error")) or string(error)
    code = inner.get("code")
    status = count(code) or count(inner.get("status"))
    names = (string(code), string(inner.get("type")), string(inner.get("status")))
    partial.fail(
        message or (encode_json(inner).decode() if inner else fallback),
        status=status if 100 <= status < 600 else None,
        transient=status in (408, 409, 429) or 500 <= status < 600 or any(name.lower() in _TEMPORARY_FAILURES for name in names),
    )


def string(value: Any) -> str:
    """Return `value` if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """Return `value` as a number of tokens. A float or a string of digits counts; anything else is 0."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 16 else 0
    return int(value) if isinstance(value, int | float) and 0 < value < 1e15 else 0


def record(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def records(value: Any) -> Iterable[dict[str, Any]]:
    """Return the objects in `value` if it is a list, else nothing."""
    return (record(item) for item in cast("list[Any]", value) if isinstance(item, dict)) if isinstance(value, list) else ()


def decode_event(data: bytes) -> Any:
    """Decode an event that msgspec refuses because it has half a surrogate pair or is not valid UTF-8.

    Pieces keep such halves, since the other half may come with the next piece. Raises ValueError if the event is not JSON.
    """
    try:
        return _valid(json.loads(data.decode("utf-8", "replace"), parse_constant=_reject_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _valid(value: Any, field: str = "") -> Any:
    """Make all strings of a JSON value valid Unicode, except the pieces."""
    if isinstance(value, str):
        return value if field in _PIECES else lenient.scrub_text(value)
    if isinstance(value, list):
        return [_valid(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {lenient.scrub_text(key): _valid(item, key) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def decode_json(text: str) -> Any:
    """Decode JSON that fairlead or another program once wrote; None if it is not JSON."""
    try:
        return lenient.decode(text)
    except ValueError:
        return None
