"""Providers of models: what files and extensions say about them, and where their keys come from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from fairlead.config.home import Home
from fairlead.core.model import Model, ModelStream
from fairlead.core.secrets import learn
from fairlead.errors import NoCredentials
from fairlead.models.catalog import PROVIDERS
from fairlead.models.config_value import ConfigValue
from fairlead.models.credentials import CredentialStore, LoginToken, RequestAuth, needs_no_key, split_login
from fairlead.models.models_json import OAuthEntry, ProviderEntry, read_models_json
from fairlead.models.unlisted_providers import KEY_VARIABLE

if TYPE_CHECKING:
    from fairlead.models.added_logins import AddedLogin

#: The beginning of the variables in which a worker finds the keys of jobs, and the variable with the database of a fleet.
FLEET_KEY_PREFIX, DATABASE_VARIABLE = "FAIRLEAD_KEY_", "FAIRLEAD_JOBS_DB"


class LoginAuth(Struct, frozen=True):
    """What a login stands for: a key, headers, or both. With `base_url`, requests go there."""

    key: str | None
    headers: Mapping[str, str] = {}
    base_url: str | None = None


class AddedModels:
    """What extensions and commands have added: providers, streams, logins and virtual models.

    The registry owns it, and changes it, because a change affects which models exist.
    """

    def __init__(self) -> None:
        #: The providers, by name.
        self.providers: dict[str, ProviderEntry] = {}
        #: The virtual models, and how to ask them, by provider and id.
        self.virtual: dict[tuple[str, str], tuple[Model, ModelStream]] = {}
        #: How to ask the models of a provider that is not asked over HTTP.
        self._streams: dict[str, Callable[[Model], ModelStream]] = {}
        #: How to log in at a provider, and what its access tokens stand for.
        self._logins: dict[str, AddedLogin] = {}
        self._login_auths: dict[str, LoginAuth] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no models and no providers were added."""
        return not (self.virtual or self.providers)

    def set_provider(
        self, name: str, entry: ProviderEntry, stream: Callable[[Model], ModelStream] | None, login: AddedLogin | None
    ) -> None:
        """Add a provider, or replace all that was added with this name."""
        self.remove_provider(name)
        self.providers[name] = entry
        if stream is not None:
            self._streams[name] = stream
        if login is not None:
            self._logins[name] = login

    def remove_provider(self, name: str) -> None:
        """Remove a provider, if it was added."""
        self.providers.pop(name, None)
        self._streams.pop(name, None)
        self._logins.pop(name, None)

    # streams

    def stream(self, model: Model) -> ModelStream | None:
        """Return the stream of a model that is asked in its own way; None for all other models."""
        virtual = self.virtual.get((model.provider, model.id))
        if virtual is not None:
            return virtual[1]
        make = self._streams.get(model.provider)
        return None if make is None else make(model)

    def has_stream(self, provider: str) -> bool:
        """Return whether the models of a provider are asked in their own way."""
        return provider in self._streams

    def has_virtual_models(self, provider: str) -> bool:
        """Return whether a provider has virtual models."""
        return any(name == provider for name, _ in self.virtual)

    # logins

    def login(self, provider: str) -> AddedLogin | None:
        """Return how to log in at a provider; None if no extension added that."""
        return self._logins.get(provider)

    def logins(self) -> list[str]:
        """Return the providers at which extensions log in."""
        return list(self._logins)

    def set_login_auth(self, access: str, auth: LoginAuth) -> None:
        """Use a key and headers for requests instead of an access token."""
        learn(*(secret for secret in (auth.key, *auth.headers.values()) if secret))
        self._login_auths[access] = auth

    def auth_for(self, access: str) -> LoginAuth:
        """Return what an access token stands for: the token itself unless `set_login_auth` gave something else."""
        return self._login_auths.get(access) or LoginAuth(access)


class Providers:
    """The providers of a process, and their keys. `Registry` adds their models.

    Args:
        home: where models.json and auth.json are.
        env: the environment variables.
        credentials: the keys.
        warnings: gets a sentence for each thing that could not be used.
    """

    def __init__(self, home: Home, env: Mapping[str, str], credentials: CredentialStore, warnings: list[str]) -> None:
        self.warnings: list[str] = warnings
        self.home: Home = home
        self.env: Mapping[str, str] = env
        self.added: AddedModels = AddedModels()
        #: Increases whenever keys may have changed. Streams that were opened with an older version are stale.
        self.version: int = 0
        self._credentials = credentials
        self._entries: dict[str, ProviderEntry] | None = None
        #: The Authorization headers of models whose base URL contains a user name, by provider and id.
        self._logins: dict[tuple[str, str], str] = {}

    def provider_entries(self) -> dict[str, ProviderEntry]:
        """Return what models.json says about each provider, and the providers that were added."""
        if self._entries is None:
            entries: dict[str, ProviderEntry] = {}
            for path in self.home.models_files():
                is_own = self.home.peer is None and path == self.home.models_path
                for name, entry in read_models_json(path, self.warnings, checks_keys=is_own).items():
                    entries.setdefault(name, entry)
            added = {name: entries.get(name, ProviderEntry()).merge(entry) for name, entry in self.added.providers.items()}
            self._entries = entries | added
        return self._entries

    def entry(self, provider: str) -> ProviderEntry:
        """Return the description of a provider; an empty one if it has none."""
        return self.provider_entries().get(provider) or ProviderEntry()

    # keys and logins

    def auth(self, model: Model) -> RequestAuth:
        """Find the key and headers for requests to `model`.

        Call it from a thread: a `!command` in models.json or auth.json may run for up to ten seconds when its output is first
        needed.

        Raises:
            NoCredentials: there is no key, or the login has expired. The text says how to provide a key.
        """
        self._credentials.choose(model.provider)
        entry = self.entry(model.provider)
        headers = {
            name: self._credentials.resolve(value, f"The header {name} of {model.provider}")
            for name, value in self._headers(model).items()
        }
        logins = self._supports_login(model.provider)
        token = self._credentials.token(model.provider) if logins else None
        key = self._credentials.key(model.provider, entry.api_key, logins=logins)
        expires = token.expires if token is not None and token.access == key else None
        base_url = None
        if expires is not None and expires <= time.time() * 1000:
            raise NoCredentials(f"The login for {model.provider} has expired. Log in again.")
        if key is not None:
            login = self.added.auth_for(key)
            key, base_url = login.key, login.base_url
            headers |= login.headers
            if key is None and headers:
                return RequestAuth(None, headers, expires, base_url)
        if key is None:
            if entry.auth != "none" and not needs_no_key(model.base_url, headers) and not self._is_virtual(model.provider):
                raise self._make_no_key_error(model.provider)
        elif entry.auth_header:
            headers["Authorization"] = f"Bearer {key}"
        return RequestAuth(key, headers, expires, base_url)

    def key(self, provider: str) -> str | None:
        """Return the key of a provider, without that of a login; None if it has none. It may run a command, like `auth`."""
        return self._credentials.key(provider, self.entry(provider).api_key)

    def key_source(self, provider: str) -> str | None:
        """Describe where the key of a provider comes from: "the environment variable OPENAI_API_KEY"; None if it has none."""
        if self.added.has_stream(provider):
            return "the extension that adds the provider"
        entry = self.entry(provider)
        return self._credentials.source(provider, entry.api_key, logins=entry.oauth is not None)

    def key_variables(self) -> set[str]:
        """Return the names of all environment variables from which keys or secret headers of providers are read.

        The address of a fleet's database is among them: it may have a password.
        """
        names = {KEY_VARIABLE, *(name for provider in PROVIDERS.values() for name in provider.key_variables)}
        names |= {DATABASE_VARIABLE, *(name for name in self.env if name.startswith(FLEET_KEY_PREFIX))}
        names |= self._credentials.variables()
        for entry in self.provider_entries().values():
            changes = (entry, *(entry.models or ()), *(entry.model_overrides or {}).values())
            for text in (entry.api_key, *(value for each in changes for value in (each.headers or {}).values())):
                if text:
                    names.update(ConfigValue(text).variables)
        return names

    def logins(self) -> dict[str, OAuthEntry]:
        """Return the login settings of each provider that supports login, in the order of models.json."""
        return {name: entry.oauth for name, entry in self.provider_entries().items() if entry.oauth is not None}

    def login(self, provider: str) -> LoginToken | None:
        """Return the token of a login at the provider; None if there is none or the provider does not support login."""
        return self._credentials.token(provider) if self._supports_login(provider) else None

    def login_entry(self, provider: str) -> dict[str, Any] | None:
        """Return the login at a provider of an extension as it is stored; None if there is none."""
        return self._credentials.login_entry(provider) if self.added.login(provider) is not None else None

    def _supports_login(self, provider: str) -> bool:
        return self.added.login(provider) is not None or self.entry(provider).oauth is not None

    def keys_changed(self) -> None:
        """Read auth.json again when it is next needed, because it has changed."""
        self._credentials.reload()
        self.version += 1

    # which models have what they need

    def _usable(self, models: Sequence[Model]) -> list[Model]:
        keys = {provider: self._has_key(provider) for provider in {model.provider for model in models}}
        return [model for model in models if keys[model.provider] or self._can_use(model)]

    def _has_key(self, provider: str) -> bool:
        if (self.added.has_stream(provider) and self.added.login(provider) is None) or self._is_virtual(provider):
            return True
        logins = self._supports_login(provider)
        return self._credentials.has_key(provider, self.entry(provider).api_key, logins=logins)

    def _is_virtual(self, provider: str) -> bool:
        """Whether all models of a provider are virtual. It needs no key then."""
        return self.added.has_virtual_models(provider) and provider not in self.provider_entries() and provider not in PROVIDERS

    def _can_use(self, model: Model) -> bool:
        if self._has_key(model.provider) or needs_no_key(model.base_url, self._headers(model)):
            return True
        return self.entry(model.provider).auth == "none"

    def _make_no_key_error(self, provider: str) -> NoCredentials:
        known = PROVIDERS.get(provider)
        ways = [f"set {known.key_variables[0]}"] if known else []
        if known and self.home.peer is None and not self.home.isolated:
            ways.append(f"run `fairlead login {provider}`")
        ways.append("pass --api-key")
        if not self.home.isolated:
            ways.append(f"add an apiKey for {provider} to {self.home.models_path}")
        text = f"No API key found for {provider}. To give one, {', '.join(ways[:-1])} or {ways[-1]}."
        if self._credentials.has_login(provider):
            text += " auth.json has a login for it that is not an API key; that needs an oauth block in models.json."
        return NoCredentials(text)

    def _without_login(self, model: Model) -> Model:
        """Take the user and password out of the base URL, which hosts see, and keep them as a header."""
        base_url, authorization = split_login(model.base_url)
        if authorization is None:
            # Of two entries with one name the last wins, and the password of the first must not go to its server.
            self._logins.pop((model.provider, model.id), None)
            return model
        self._logins[model.provider, model.id] = authorization
        return structs.replace(model, base_url=base_url)

    def _headers(self, model: Model) -> dict[str, str]:
        """The extra headers for a model, as written, and the login of its URL."""
        found = self.entry(model.provider).headers_for(model.id)
        login = self._logins.get((model.provider, model.id))
        if login is not None and not any(name.lower() == "authorization" for name in found):
            found["Authorization"] = login
        return found
