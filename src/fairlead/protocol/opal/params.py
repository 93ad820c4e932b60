"""Decodes the params of requests, with errors in the words that Opal's clients know."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from fairlead.errors import BadParams
from fairlead.protocol.opal.method import Fault, Method
from fairlead.protocol.opal.methods import ConfigSet, SessionStart, SettingsSave
from fairlead.protocol.opal.objects import FeatureChanges

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
