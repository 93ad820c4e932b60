"""Describes a server that the user names by its address alone."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace

from fairlead.errors import ConfigError
from fairlead.models.catalog import PROVIDERS
from fairlead.models.models_json import ModelEntry, ProviderEntry

#: The name of the provider at an address that the user gives without one.
CUSTOM = "custom"
#: Holds the key for such an address. The variables of other providers are not used: their keys must not go to any address.
KEY_VARIABLE = "FAIRLEAD_API_KEY"


def described_server(
    base_url: str, provider: str | None, model_id: str | None, entries: Mapping[str, ProviderEntry], env: Mapping[str, str]
) -> tuple[str, ProviderEntry]:
    """Describe a server as a provider.

    Args:
        base_url: its address.
        provider: the provider whose key and API it takes. None: the built-in provider at that address, else one called `custom`,
            which speaks OpenAI's Chat Completions API, needs no key and takes that of `--api-key` or `FAIRLEAD_API_KEY`.
        model_id: the model to add; None if it is not known yet.
        entries: what models.json says about providers.
        env: the environment variables.

    Returns:
        The name of the provider, and its description.

    Raises:
        ConfigError: the address is not that of a web server.
    """
    address = urlsplit(base_url)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise ConfigError(f"--base-url: expected an address such as http://localhost:11434/v1, got {base_url!r}.")
    hosts = {urlsplit(known.base_url).hostname: known.name for known in PROVIDERS.values()}
    name = provider or hosts.get(address.hostname) or CUSTOM
    entry = replace(entries.get(name) or ProviderEntry(), base_url=base_url.rstrip("/"))
    if name in PROVIDERS:
        return name, entry
    key = entry.api_key or (f"${KEY_VARIABLE}" if env.get(KEY_VARIABLE, "").strip() else None)
    models = [*(entry.models or ()), *([ModelEntry(id=model_id)] if model_id else ())]
    api = entry.api or "openai-completions"
    return name, replace(entry, api=api, api_key=key, auth=entry.auth or "none", models=models)
