"""What every command of the family is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import UNSET, Raw, Struct, UnsetType


class Command(Struct, tag_field="type", rename="camel", omit_defaults=True):
    id: Raw | UnsetType = UNSET
    #: The type of the response's `data`; None if it has none.
    result: ClassVar[Any] = None
    #: From a command as JSON to what is wrong with it, where hosts know certain words for that.
    fault: ClassVar[Callable[[dict[str, Any]], str | None] | None] = None


class Persisted(Command, kw_only=True):
    #: Also write the value to the user's settings; without it, only this session changes.
    persist: bool | None = None
