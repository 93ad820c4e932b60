"""Messages as JSON, as any program and version may have written them."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec
from msgspec import Raw

from fairlead.core import lenient
from fairlead.core.messages import Message, Usage


@cache
def _message() -> msgspec.json.Decoder[Message]:
    return msgspec.json.Decoder(Message)


def encode_message(message: Message) -> Raw:
    """Return a message as JSON. Lone surrogates are replaced."""
    try:
        return Raw(msgspec.json.encode(message))
    except UnicodeEncodeError:
        return Raw(msgspec.json.encode(lenient.scrub(msgspec.to_builtins(message))))


def decode_message(data: Raw | bytes) -> Message | None:
    """Decode a message from any program and version; return None if its role is unknown here (such as pi's `system`).

    A message in a slightly different form, from an old version or an extension, keeps the parts that can be understood.
    """
    try:
        return _message().decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return msgspec.convert(_repaired(lenient.decode(bytes(data))), cast("type[Message]", Message))
    except (msgspec.ValidationError, ValueError):
        return None


#: A tuple and not a set, because a value of any type is looked up in it.
_BLOCK_TYPES = ("text", "thinking", "image", "toolCall")


def _repaired(value: Any) -> Any:
    """Bring the parts of a message that are known to vary into the form that `Message` accepts."""
    if not isinstance(value, dict):
        return value
    message = cast("dict[str, Any]", value)
    content = message.get("content")
    if content is None and message.get("role") != "bashExecution":
        message["content"] = []
    elif isinstance(content, str) and message.get("role") in ("assistant", "toolResult"):
        message["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        blocks = cast("list[Any]", content)
        message["content"] = [block for block in blocks if isinstance(block, dict) and block.get("type") in _BLOCK_TYPES]  # pyright: ignore[reportUnknownMemberType]
    if message.get("role") == "toolResult" and not isinstance(message.get("details", {}), dict):
        del message["details"]
    if message.get("role") == "assistant":
        message["usage"] = _repaired_usage(message.get("usage"))
        if message.get("stopReason") not in ("stop", "length", "toolUse", "error", "aborted"):
            message["stopReason"] = "stop"
    return message


def _repaired_usage(value: Any) -> dict[str, Any]:
    try:
        return msgspec.to_builtins(msgspec.convert(value, Usage))
    except msgspec.ValidationError:
        return msgspec.to_builtins(Usage())
