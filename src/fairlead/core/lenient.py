"""JSON that msgspec refuses although every other party reads it: escapes of lone surrogates, invalid UTF-8.

What cannot be written as valid UTF-8 becomes U+FFFD, so that output is always valid.
"""

from __future__ import annotations

from typing import Any

import msgspec


def decode(data: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError with a readable text if it is none, or is nested too deeply."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError):
        pass
    import json

    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return scrub(json.loads(text, parse_constant=_no_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def scrub(value: Any) -> Any:
    """A JSON value whose strings are all valid Unicode."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list):
        return [scrub(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {scrub_text(key): scrub(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return value


def scrub_text(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
