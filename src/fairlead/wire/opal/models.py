"""Models, thinking levels and credentials, as Opal's clients see them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from fairlead.core.model import Model, ThinkingLevel
from fairlead.errors import BadParams
from fairlead.models.catalog import PROVIDERS
from fairlead.models.registry import Registry
from fairlead.protocol.opal.objects import Auth, AuthProvider, ListedModel, ModelInUse

#: The thinking levels, by the names that clients use.
LEVELS: Mapping[str, ThinkingLevel] = {"off": "off", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}

_NAMES: Mapping[ThinkingLevel, str] = {**{level: name for name, level in LEVELS.items()}, "minimal": "low"}


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


def in_use(model: Model | None, level: ThinkingLevel) -> ModelInUse:
    if model is None:
        return ModelInUse("", "", _NAMES[level])
    return ModelInUse(model.provider, model.id, _NAMES[level])


def listed(model: Model) -> ListedModel:
    levels = dict.fromkeys(_NAMES[level] for level in model.levels() if level != "off")
    return ListedModel(model.id, model.name, model.provider, model.reasoning, list(levels))


def credentials(registry: Registry, model: Model | None, *, in_full: bool = False) -> Auth:
    """Whether there are credentials for some model, and the provider: that of `model`, if it is one of those.

    It looks everywhere credentials can be, but runs no command. With `in_full`, the result lists every provider.
    """
    usable = dict.fromkeys(each.provider for each in registry.available())
    provider = model.provider if model is not None and model.provider in usable else next(iter(usable), "")
    auth = Auth("ready" if provider else "setup_required", provider)
    if in_full:
        logins = registry.logins()
        auth.providers = [_described(name, name in usable, name in logins) for name, _ in registry.providers()]
    return auth


def _described(name: str, ready: bool, has_login: bool) -> AuthProvider:
    known = PROVIDERS.get(name)
    variable = known.key_variables[0] if known is not None and known.key_variables else UNSET
    return AuthProvider(name, name, "device_code" if has_login else "api_key", ready, variable)


def _loose(name: str) -> str:
    """A name to compare with others: some write versions as 4.5 and some as 4-5."""
    return name.lower().replace(".", "-")
