"""Encoded messages, kept: a conversation's past is not encoded again for each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.core import lenient
from fairlead.core.messages import ModelMessage
from fairlead.models.apis.history import Continued, acceptable

__all__ = ["Continued", "EncodedMessages", "acceptable", "encode_json"]

M = TypeVar("M", bound=ModelMessage)

_encoder = msgspec.json.Encoder()


class EncodedMessages(Generic[M]):
    """The encoding of messages, for as long as they appear in requests."""

    def __init__(self) -> None:
        # The messages are held, so that no other can get the same id.
        self._messages: list[M] = []
        self._parts: list[bytes] = []

    def parts(self, messages: Sequence[M], encode: Callable[[M], bytes]) -> list[bytes]:
        """The encoding of each message; `encode` is called for those that the last call did not have."""
        same = min(len(messages), len(self._messages))
        known: dict[int, bytes] = {}
        if messages[:same] != self._messages[:same]:  # messages are gone, or in another order
            known = {id(message): part for message, part in zip(self._messages, self._parts, strict=True)}
            same = 0
        parts = self._parts[:same]
        parts += [known.get(id(message)) or encode(message) for message in messages[same:]]
        self._messages, self._parts = list(messages), list(parts)
        return parts


def encode_json(value: Any) -> bytes:
    """The JSON of plain data or structs; lone surrogates, which have no UTF-8, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(lenient.scrub(msgspec.to_builtins(value)))
