"""Decodes the params of requests, and the names in them, with errors in the words that Opal's clients know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from fairlead.core.model import Model, ThinkingLevel
from fairlead.protocol.opal.methods import ConfigSet, SessionStart, SettingsSave
from fairlead.protocol.opal.objects import FeatureChanges, Method
from fairlead.wire.jsonrpc import BadParams, JsonRpcCodec
from fairlead.wire.messages import Request

if TYPE_CHECKING:
    from fairlead.models.registry import Registry

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


# Names of models and thinking levels

#: The thinking levels, by the names that clients use.
LEVELS: Mapping[str, ThinkingLevel] = {"off": "off", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}


def level_named(name: str, field: str) -> ThinkingLevel:
    """Return the level that a client names in `field`. Raises BadParams if there is no such level."""
    level = LEVELS.get(name)
    if level is None:
        allowed = ", ".join(f'"{each}"' for each in LEVELS)
        raise BadParams(f'{field}: expected one of {allowed}, got "{name}"')
    return level


def model_named(registry: Registry, name: str, provider: str | None = None) -> Model:
    """Find a model by its id, or by `provider/id`. If several have the id, take the first with credentials.

    `provider` is tried first, and ignored if it has no such model. Raises BadParams if there is no such model.
    """
    if provider is not None and (model := registry.find(provider, name)) is not None:
        return model
    wanted, models = _loose(name), registry.all()
    # Opal's documents write provider:id.
    names = {wanted, wanted.replace(":", "/", 1)}
    found = [model for model in models if _loose(f"{model.provider}/{model.id}") in names]
    found = found or [model for model in models if _loose(model.id) == wanted]
    if not found:
        raise BadParams(f'Unknown model: "{name}"', data="models/list lists all models.")
    usable = registry.available()
    return next((model for model in found if model in usable), found[0])


def _loose(name: str) -> str:
    """A name to compare with others: some write versions as 4.5 and some as 4-5."""
    return name.lower().replace(".", "-")
