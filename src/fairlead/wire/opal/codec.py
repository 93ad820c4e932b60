"""Decodes the params of requests, with errors in the words that Opal's clients know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from fairlead.protocol.opal.method import Method
from fairlead.protocol.opal.methods import ConfigSet, SessionStart, SettingsSave
from fairlead.protocol.opal.objects import FeatureChanges
from fairlead.wire.jsonrpc import BadParams, JsonRpcCodec
from fairlead.wire.messages import Request

M = TypeVar("M", bound=Method)


class OpalCodec(JsonRpcCodec):
    """Implements `fairlead.wire.messages.Codec`."""

    def parameters(self, request: Request, declaration: type[Method]) -> Method:
        return decode(declaration, request.body)


def decode(declared: type[M], params: Any) -> M:
    """Decode a request from its params. Raises BadParams.

    Positional params count as none. If a required param is missing, the error names all required ones.
    """
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    wanted = [field.name for field in msgspec.structs.fields(declared) if field.required]
    if any(given.get(name) is None for name in wanted):
        raise BadParams(f"Missing required param{'s' if len(wanted) > 1 else ''}: {', '.join(wanted)}")
    if declared is SessionStart and not isinstance(params, dict):
        raise BadParams("params must be an object")
    check = _CHECKS.get(declared)
    if check is not None:
        check(given)
    try:
        return msgspec.convert(given, type=declared)
    except msgspec.ValidationError as error:
        from fairlead.protocol.explain import explain

        raise BadParams(explain(str(error), declared, whole="params")) from None


# Checks for params where clients expect certain words for what is wrong


def _check_start(params: dict[str, Any]) -> None:
    model = params.get("model")
    if model is not None:
        chosen: Any = cast("dict[str, Any]", model).get("id") if isinstance(model, dict) else None
        if not isinstance(chosen, str) or not chosen:
            raise BadParams("model must have a non-empty id string")
    _check_features(params)


def _check_features(params: dict[str, Any]) -> None:
    features = params.get("features")
    if features is None:
        return
    if not isinstance(features, dict):
        raise BadParams("features must be an object")
    given = cast("dict[str, Any]", features)
    if unknown := sorted(given.keys() - FeatureChanges.__struct_fields__):
        raise BadParams("Unknown feature keys", data=f"unknown features: {', '.join(unknown)}")
    for name, value in given.items():
        if not isinstance(value, bool | None):
            raise BadParams("Invalid feature value", data=f"{name} must be a boolean")


def _check_settings(params: dict[str, Any]) -> None:
    if not isinstance(params["settings"], dict):
        raise BadParams("Missing required param: settings")


_CHECKS: Mapping[type[Method], Callable[[dict[str, Any]], None]] = {
    SessionStart: _check_start,
    ConfigSet: _check_features,
    SettingsSave: _check_settings,
}
