"""What a request of Opal's protocol is, from the client or to it."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Meta, Struct

#: The version of Opal's protocol that fairlead speaks.
PROTOCOL_VERSION = "0.1.0"

#: Marks an object that Opal's published schema does not describe further. Our schema has its fields under `types`.
OPEN = Meta(extra={"open": True})
#: Marks a field that Opal's published schema requires but its server does not.
DEMANDED = Meta(extra={"demanded": True})


class Method(Struct, omit_defaults=True):
    """A request. The fields are its params; `null` for an optional one means absent."""

    #: Its name on the wire.
    method: ClassVar[str]
    #: The type of the response's `result`.
    result: ClassVar[type[Struct]]


class Nothing(Struct):
    """An empty object: the request was carried out."""
