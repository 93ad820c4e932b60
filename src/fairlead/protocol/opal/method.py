"""What a request of Opal's protocol is, from the client or to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from fairlead.errors import BadParams
from fairlead.protocol.opal.methods import ConfigSet, SessionStart, SettingsSave
from fairlead.protocol.opal.objects import FeatureChanges

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


M = TypeVar("M", bound=Method)


def required(declared: type[Method]) -> list[str]:
    """The names of the required params, in the order of their declaration."""
    return [field.name for field in msgspec.structs.fields(declared) if field.required]


def decode(declared: type[M], params: Any) -> M:
    """Decode a request from its params. Raises BadParams.

    Positional params count as none. If a required param is missing, the error names all required ones.
    """
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    wanted = required(declared)
    if any(given.get(name) is None for name in wanted):
        raise BadParams(f"Missing required param{'s' if len(wanted) > 1 else ''}: {', '.join(wanted)}")
    if declared is SessionStart and not isinstance(params, dict):
        raise BadParams("params must be an object")
    if declared.fault is not None and (fault := declared.fault(given)):
        raise BadParams(fault.message, data=fault.data)
    try:
        return msgspec.convert(given, type=declared)
    except msgspec.ValidationError as error:
        from fairlead.protocol.explain import explain

        raise BadParams(explain(str(error), declared, whole="params")) from None


def _start_fault(params: dict[str, Any]) -> Fault | None:
    model = params.get("model")
    if model is not None:
        chosen: Any = cast("dict[str, Any]", model).get("id") if isinstance(model, dict) else None
        if not isinstance(chosen, str) or not chosen:
            return Fault("model must have a non-empty id string")
    return _features_fault(params)


def _features_fault(params: dict[str, Any]) -> Fault | None:
    features = params.get("features")
    if features is None:
        return None
    if not isinstance(features, dict):
        return Fault("features must be an object")
    given = cast("dict[str, Any]", features)
    if unknown := sorted(given.keys() - FeatureChanges.__struct_fields__):
        return Fault("Unknown feature keys", f"unknown features: {', '.join(unknown)}")
    for name, value in given.items():
        if not isinstance(value, bool | None):
            return Fault("Invalid feature value", f"{name} must be a boolean")
    return None


def _settings_fault(params: dict[str, Any]) -> Fault | None:
    return None if isinstance(params["settings"], dict) else Fault("Missing required param: settings")


SessionStart.fault = staticmethod(_start_fault)
ConfigSet.fault = staticmethod(_features_fault)
SettingsSave.fault = staticmethod(_settings_fault)
