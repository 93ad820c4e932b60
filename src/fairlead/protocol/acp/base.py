"""The base classes of every object, request and notification. Field names are in camel case on the wire."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

#: The version of the protocol that fairlead speaks.
PROTOCOL_VERSION = 1

#: Error codes beyond those of JSON-RPC.
AUTH_REQUIRED, RESOURCE_NOT_FOUND = -32000, -32002


class Object(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """An object. An absent field has its default, and `null` for an optional one means absent."""

    #: Additional data that clients and agents agree on.
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class Request(Object):
    """A request. The fields are its params."""

    #: Its name on the wire.
    method: ClassVar[str]
    #: The type of the answer's `result`.
    result: ClassVar[type[Struct]]


class Notification(Object):
    """A request without an answer. The fields are its params."""

    #: Its name on the wire.
    method: ClassVar[str]
