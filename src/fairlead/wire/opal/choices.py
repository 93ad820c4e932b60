"""Models and levels of thinking, as Opal's clients name them."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.core.model import Model, ThinkingLevel
from fairlead.errors import BadParams
from fairlead.models.registry import Registry
from fairlead.protocol.opal.objects import ListedModel, ModelInUse

#: The levels that clients know, by their names.
LEVELS: Mapping[str, ThinkingLevel] = {"off": "off", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}

_NAMES: Mapping[ThinkingLevel, str] = {**{level: name for name, level in LEVELS.items()}, "minimal": "low"}


def level_named(name: str, field: str) -> ThinkingLevel:
    """Raises BadParams if there is no such level."""
    level = LEVELS.get(name)
    if level is None:
        allowed = ", ".join(f'"{each}"' for each in LEVELS)
        raise BadParams(f'{field}: expected one of {allowed}, got "{name}"')
    return level


def model_named(registry: Registry, name: str, provider: str | None = None) -> Model:
    """The model of that id, or `provider/id`; of several with one id, the first that can be used. A provider that is named
    beside the id counts if it has such a model.

    Raises BadParams if there is none.
    """
    if provider is not None and (model := registry.find(provider, name)) is not None:
        return model
    wanted, models = _loose(name), registry.all()
    # As Opal's own documents write it: provider:id.
    names = {wanted, wanted.replace(":", "/", 1)}
    found = [model for model in models if _loose(f"{model.provider}/{model.id}") in names]
    found = found or [model for model in models if _loose(model.id) == wanted]
    if not found:
        raise BadParams(f'Unknown model: "{name}"', data="models/list lists the models that there are.")
    usable = registry.available()
    return next((model for model in found if model in usable), found[0])


def in_use(model: Model | None, level: ThinkingLevel) -> ModelInUse:
    if model is None:
        return ModelInUse("", "", _NAMES[level])
    return ModelInUse(model.provider, model.id, _NAMES[level])


def listed(model: Model) -> ListedModel:
    levels = dict.fromkeys(_NAMES[level] for level in model.levels() if level != "off")
    return ListedModel(model.id, model.name, model.provider, model.reasoning, list(levels))


def _loose(name: str) -> str:
    """Versions are written 4.5 or 4-5; both mean both."""
    return name.lower().replace(".", "-")
