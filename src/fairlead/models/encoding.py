"""Encoded messages, kept: a conversation's past is not encoded again for each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.core import lenient
from fairlead.core.messages import ModelMessage
from fairlead.models.history import acceptable

__all__ = ["EncodedMessages", "acceptable", "encode_json"]

M = TypeVar("M", bound=ModelMessage)

_encoder = msgspec.json.Encoder()


class EncodedMessages(Generic[M]):
    """The encoding of messages by identity, for as long as they appear in requests."""

    def __init__(self) -> None:
        # An entry holds its message, so that no other can get the same id.
        self._entries: dict[int, tuple[M, bytes]] = {}

    def parts(self, messages: Sequence[M], encode: Callable[[M], bytes]) -> list[bytes]:
        """The encoding of each message; `encode` is called for those that the last call did not have."""
        known = self._entries
        entries: dict[int, tuple[M, bytes]] = {}
        parts: list[bytes] = []
        for message in messages:
            key = id(message)
            entry = known.get(key)
            if entry is None:
                entry = (message, encode(message))
            entries[key] = entry
            parts.append(entry[1])
        self._entries = entries
        return parts


def encode_json(value: Any) -> bytes:
    """The JSON of plain data or structs; lone surrogates, which have no UTF-8, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(lenient.scrub(msgspec.to_builtins(value)))
