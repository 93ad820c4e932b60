"""What a request of Opal's protocol is, from the client or to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from msgspec import Meta, Struct

#: The version of Opal's protocol that fairlead speaks.
PROTOCOL_VERSION = "0.1.0"

#: Marks an object that Opal's published schema does not describe further. Our schema has its fields under `types`.
OPEN = Meta(extra={"open": True})
#: Marks a field that Opal's published schema requires but its server does not.
DEMANDED = Meta(extra={"demanded": True})


class Fault(NamedTuple):
    """What is wrong with the params of a request, in words that clients know."""

    message: str
    data: str | None = None


class Method(Struct, omit_defaults=True):
    """A request. The fields are its params; `null` for an optional one means absent."""

    #: Its name on the wire.
    method: ClassVar[str]
    #: The type of the response's `result`.
    result: ClassVar[type[Struct]]
    #: Finds what is wrong with the params, where clients expect certain words for it.
    fault: ClassVar[Callable[[dict[str, Any]], Fault | None] | None] = None


class Nothing(Struct):
    """An empty object: the request was carried out."""
