"""Which providers there are credentials for, and where they may come from."""

from __future__ import annotations

from msgspec import UNSET

from fairlead.core.model import Model
from fairlead.models.catalog import PROVIDERS
from fairlead.models.registry import Registry
from fairlead.protocol.opal.objects import Auth, AuthProvider


def probe(registry: Registry, model: Model | None, *, in_full: bool = False) -> Auth:
    """Whether some model can be used, and at which provider: that of `model`, if it is one of them. Every place that may have
    credentials is looked at, but no command is run; `in_full` tells of each provider."""
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
