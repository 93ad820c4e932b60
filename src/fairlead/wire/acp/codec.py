"""Decodes the params of requests as leniently as the official schema: an optional field that is wrong counts as absent."""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from fairlead.wire.jsonrpc import BadParams, JsonRpcCodec
from fairlead.wire.messages import Request

P = TypeVar("P", bound=Struct)

#: How many wrong fields of one request are left out.
_MOST_LEFT_OUT = 20
#: Where a message from msgspec says the wrong value is. Places in lists and maps have no name.
_PLACE = re.compile(r" - at `\$((?:\.[A-Za-z_]+)+)`$")


class AcpCodec(JsonRpcCodec):
    """Implements `fairlead.wire.messages.Codec`."""

    def parameters(self, request: Request, declaration: type[P]) -> P:
        return decode(declaration, request.body)


def decode(declared: type[P], params: Any) -> P:
    """Decode the params of a request. Raises BadParams if a required one is missing or wrong."""
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    first: msgspec.ValidationError | None = None
    for _ in range(_MOST_LEFT_OUT):
        try:
            return msgspec.convert(given, type=declared)
        except msgspec.ValidationError as error:
            first = first or error
            place = _PLACE.search(str(error))
            if place is None or "missing required field" in str(error):
                break
            given = _without(given, place[1].split(".")[1:])
    from fairlead.protocol.explain import explain

    raise BadParams(explain(str(first), declared, whole="params"))


def _without(params: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """Return params without one field, wherever it is."""
    copy = dict(params)
    inner = copy
    for name in path[:-1]:
        inner[name] = dict(inner[name])
        inner = inner[name]
    inner.pop(path[-1], None)
    return copy
