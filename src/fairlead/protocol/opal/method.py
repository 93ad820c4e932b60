"""What every request of the dialect is, in either direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from msgspec import Meta, Struct

#: Marks an object of which Opal's published schema says only that it is one. The schema has its fields under `types`.
OPEN = Meta(extra={"open": True})
#: Marks a field that Opal's published schema demands, and that its server does without.
DEMANDED = Meta(extra={"demanded": True})


class Fault(NamedTuple):
    """What is wrong with the params of a request, in the words that clients know."""

    message: str
    data: str | None = None


class Method(Struct, omit_defaults=True):
    """A request. The fields are its params; `null` for an optional one means absent."""

    #: Its name on the wire.
    method: ClassVar[str]
    #: The type of the response's `result`.
    result: ClassVar[type[Struct]]
    #: From params as JSON to what is wrong with them, where clients know certain words for that.
    fault: ClassVar[Callable[[dict[str, Any]], Fault | None] | None] = None


class Nothing(Struct):
    """An empty object: the request was carried out."""
