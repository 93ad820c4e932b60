"""Types for JSON that comes from a process, a file or a server: its shape is known to the test alone."""

from __future__ import annotations

from typing import Any, TypeGuard

#: A JSON object.
Json = dict[str, Any]


def is_object(value: Any) -> TypeGuard[Json]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
