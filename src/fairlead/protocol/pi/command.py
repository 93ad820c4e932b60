"""The base classes of all commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import UNSET, Raw, Struct, UnsetType


class Command(Struct, tag_field="type", rename="camel", omit_defaults=True):
    id: Raw | UnsetType = UNSET
    #: The type of the response's `data`; None if it has none.
    result: ClassVar[Any] = None
    #: Takes a command as JSON and returns what is wrong with it, in the words that hosts of a peer know; None if all is well.
    fault: ClassVar[Callable[[dict[str, Any]], str | None] | None] = None


class Persisted(Command, kw_only=True):
    #: Also write the value to the user's settings. Otherwise only this session changes.
    persist: bool | None = None
