"""What the adapters share: blocks in strict order, values whose types nobody promised, images of tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast

from fairlead.core import lenient
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.request_building import encode_json

#: What servers call trouble of their own that passes.
_PASSING_TROUBLE = frozenset(
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


#: The fields whose strings are pieces, which `PartialMessage.add` puts together.
_PIECES = frozenset(
    "arguments content delta partial_json reasoning reasoning_content reasoning_text refusal summary text thinking".split()
)


class BlockWriter:
    """Feeds a message so that a block ends before the next one starts.

    `text` and `thinking` go on with the open block if it is of that kind, and start a new one if not.
    """

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._kind: Literal["text", "thinking", "call"] | None = None
        self._key = 0

    def text(self, piece: str) -> int:
        """Add text; the key is that of its block."""
        if self._kind != "text":
            self._partial.start_text(self._next("text"))
        self._partial.add(self._key, piece)
        return self._key

    def thinking(self, piece: str) -> int:
        """Add thinking; the key is that of its block."""
        if self._kind != "thinking":
            self._partial.start_thinking(self._next("thinking"))
        self._partial.add(self._key, piece)
        return self._key

    def call(self, id: str, name: str) -> int:
        """Start a tool call, to whose key arguments may be added even after another block has started."""
        self._partial.start_tool_call(self._next("call"), id, name)
        return self._key

    def end(self, key: int | None = None) -> None:
        """End the open block (with `key`: only if it is that one), so that the next piece starts a new one."""
        if self._kind is not None and key in (None, self._key):
            self._partial.end(self._key)
            self._kind = None

    def _next(self, kind: Literal["text", "thinking", "call"]) -> int:
        self.end()
        self._kind = kind
        self._key += 1
        return self._key


def new_call_id() -> str:
    """An id for a tool call whose provider gave none."""
    from os import urandom

    return f"call_{urandom(12).hex()}"


def fail_with(partial: PartialMessage, error: Any, fallback: str) -> None:
    """End the message with an error that came inside a stream: an object or a text, in whatever form."""
    fields = record(error)
    inner = record(fields.get("error")) or fields
    message = string(inner.get("message")) or string(inner.get("error")) or string(error)
    code = inner.get("code")
    status = count(code) or count(inner.get("status"))
    names = (string(code), string(inner.get("type")), string(inner.get("status")))
    partial.fail(
        message or (encode_json(inner).decode() if inner else fallback),
        status=status if 100 <= status < 600 else None,
        transient=status in (408, 409, 429) or 500 <= status < 600 or any(name.lower() in _PASSING_TROUBLE for name in names),
    )


def string(value: Any) -> str:
    """`value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """`value` as a number of tokens, also from a float or digits; 0 if it is none."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 16 else 0
    return int(value) if isinstance(value, int | float) and 0 < value < 1e15 else 0


def record(value: Any) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def records(value: Any) -> Iterable[dict[str, Any]]:
    """The objects in `value` if it is a list."""
    return (record(item) for item in cast("list[Any]", value) if isinstance(item, dict)) if isinstance(value, list) else ()


def decode_event(data: bytes) -> Any:
    """The JSON of an event that msgspec refuses: it has half a surrogate pair, or is no valid UTF-8.

    In pieces such halves are kept, since the other one may come with the next piece. Raises ValueError if it is no JSON.
    """
    import json

    try:
        return _valid(json.loads(data.decode("utf-8", "replace"), parse_constant=_no_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _valid(value: Any, field: str = "") -> Any:
    """A JSON value whose strings are all valid Unicode, but for the pieces."""
    if isinstance(value, str):
        return value if field in _PIECES else lenient.scrub_text(value)
    if isinstance(value, list):
        return [_valid(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {lenient.scrub_text(key): _valid(item, key) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def decoded(text: str) -> Any:
    """The value of a JSON text that we once wrote, or another program did; None if it is none."""
    try:
        return lenient.decode(text)
    except ValueError:
        return None
