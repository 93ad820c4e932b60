"""Providers that no file describes: a server that the user names by its address, and models that run on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from fairlead.errors import ConfigError
from fairlead.models.catalog import PROVIDERS
from fairlead.models.local import local_servers
from fairlead.models.models_json import ModelEntry, ProviderEntry

if TYPE_CHECKING:
    from fairlead.core.model import Model
    from fairlead.models.http.http_client import Http
    from fairlead.models.local.llama import LocalModels
    from fairlead.models.local.local_servers import FoundServer
    from fairlead.models.registry import Registry

#: The name of the provider whose models run on this machine, in child processes.
LOCAL = "local"
#: The name of the provider at an address that the user gives without one.
CUSTOM = "custom"
#: Holds the key for such an address. The variables of other providers are not used: their keys must not go to any address.
KEY_VARIABLE = "FAIRLEAD_API_KEY"


class UnlistedProviders:
    """Adds such providers to a registry, which owns this."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: The models that run in child processes, once one of them was asked for.
        self._local: LocalModels | None = None
        #: The names of the servers that `use_found` has added.
        self._found: set[str] = set()
        #: The names that `look_for_server` has looked for, each with the address of a server that did not answer there.
        self._sought: dict[str, str | None] = {}
        #: The provider of the server that `use_server` has set; None if there is none.
        self.server_name: str | None = None

    def takes_no_login(self, provider: str) -> bool:
        """Tell whether a provider is a server that is known only by its address: no key can be stored for it."""
        if provider in PROVIDERS:
            return False
        return provider == self.server_name or provider in self._found

    def use_found(self, server: FoundServer) -> None:
        """Use a server that was found on this machine as a provider."""
        self._found.add(server.name)
        self._registry.add_provider(server.name, server.entry())

    def use_server(self, base_url: str, provider: str | None, model_id: str | None) -> None:
        """Use a server as a provider. `describe_server` explains the arguments, and which provider it is then."""
        registry = self._registry
        self.server_name, entry = describe_server(base_url, provider, model_id, registry.provider_entries(), registry.env)
        registry.add_provider(self.server_name, entry)

    async def learn_from_server(self, http: Http, model_id: str | None) -> Model | None:
        """Ask the server of `use_server` for its models, and remember their windows.

        Returns the model with this id, or the first one if `model_id` is None; None if the server does not list it.
        """
        name, registry = self.server_name, self._registry
        if name is None:
            return None
        entry, key = registry.entry(name), registry.key(name)
        served = await local_servers.list_served_models(
            http, entry.base_url or "", [("authorization", f"Bearer {key}")] if key else []
        )
        chosen = next((each for each in served if model_id in (None, each.id)), None)
        if chosen is None:
            return None
        if model_id is None and name not in PROVIDERS:
            registry.add_provider(name, replace(entry, models=served))
        model = registry.find_or_describe(name, chosen.id)
        if model is not None and chosen.context_window:
            registry.windows.learn(model, chosen.context_window)
        return model

    def use_local(self, file: Path | None = None) -> LocalModels:
        """Add the provider `local`, whose models llama.cpp runs on this machine; with `file`, also the weights in that file.

        Raises:
            ConfigError: `file` cannot be used.
        """
        from fairlead.models.local.llama import LocalModels  # noqa: PLC0415  an extra

        if self._local is None or file is not None:
            self._local = LocalModels(self._registry.home, self._registry.env, file)
            self._registry.add_provider(LOCAL, self._local.entry(), self._local.stream)
        return self._local

    def look_for_local(self, provider: str) -> bool:
        """Add the provider `local` if it is the one in question and no file describes one. Returns whether it is."""
        if provider.lower() != LOCAL:
            return False
        if self._local is None and LOCAL not in self._registry.provider_entries():
            self.use_local()
        return self._local is not None

    def look_for_server(self, provider: str, model_id: str | None = None) -> None:
        """Add the model server with this name if one runs on this machine and no file describes it.

        Each is asked once, so that a server that hangs blocks its callers for 200 ms and no longer.
        """
        if provider in PROVIDERS or provider in self._sought or provider in self._registry.provider_entries():
            return
        self._sought[provider] = None
        try:
            address = dict(local_servers.addresses(self._registry.env)).get(provider)
        except ConfigError as error:
            self._registry.warnings.append(str(error))
            return
        if address is not None:
            found = local_servers.find_servers_now(self._registry.env, provider, model_id)
            self._sought[provider] = None if found else address
            for server in found:
                self.use_found(server)

    def look_for_servers(self) -> bool:
        """Add all model servers that run on this machine. Returns whether there are any. Raises ConfigError."""
        found = local_servers.find_servers_now(self._registry.env)
        for server in found:
            self.use_found(server)
        return bool(found)

    def silent_server(self, provider: str) -> str | None:
        """Return what to tell a user who has named a model server that did not answer; None if they have not."""
        address = self._sought.get(provider)
        if address is None:
            return None
        return f"No model server answers at {address}, where {provider} would be. Start it, or name its address with --base-url."

    def close(self) -> None:
        """End the models that run in child processes. They start again when they are asked again."""
        if self._local is not None:
            self._local.close()


def describe_server(
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
    hosts = {urlsplit(known.base_url).hostname: known.name for known in PROVIDERS.values()}
    name = provider or hosts.get(_host(base_url)) or CUSTOM
    entry = replace(entries.get(name) or ProviderEntry(), base_url=base_url.rstrip("/"))
    if name in PROVIDERS:
        return name, entry
    key = entry.api_key or (f"${KEY_VARIABLE}" if env.get(KEY_VARIABLE, "").strip() else None)
    models = [*(entry.models or ()), *([ModelEntry(id=model_id)] if model_id else ())]
    api = entry.api or "openai-completions"
    return name, replace(entry, api=api, api_key=key, auth=entry.auth or "none", models=models)


def _host(base_url: str) -> str:
    """Return the host in the address of a web server. Raises ConfigError for anything else."""
    try:
        address = urlsplit(base_url)
        host = address.hostname if address.scheme in ("http", "https") and address.port != 0 else None
    except ValueError:  # half a pair of brackets, or a port that is not one
        host = None
    if not host:
        raise ConfigError(f"--base-url: expected an address such as http://localhost:11434/v1, got {base_url!r}.")
    return host
