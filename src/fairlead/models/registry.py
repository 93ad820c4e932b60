"""Knows which models exist, which of them can be used, and with what key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.errors import ConfigError, ModelNotFound, NoCredentials
from fairlead.models import model_patterns
from fairlead.models.added_models import AddedModels
from fairlead.models.catalog import PROVIDERS, catalog_models
from fairlead.models.config_value import ConfigValue
from fairlead.models.context_windows import ContextWindows
from fairlead.models.credentials import CredentialStore, LoginToken, RequestAuth, needs_no_key, split_login
from fairlead.models.models_json import OAuthEntry, ProviderEntry, read_models_json
from fairlead.models.unlisted_providers import KEY_VARIABLE, UnlistedProviders

if TYPE_CHECKING:
    from fairlead.models.added_logins import AddedLogin

DEFAULT_LEVEL: ThinkingLevel = "medium"

#: The beginning of the variables in which a worker finds the keys of jobs, and the variable with the database of a fleet.
FLEET_KEY_PREFIX, DATABASE_VARIABLE = "FAIRLEAD_KEY_", "FAIRLEAD_JOBS_DB"


class Registry:
    """All models: those of the user's models.json first, in its order, then those of the catalog.

    Make one with `load`. Files are read when they are first needed; the catalog is not read while the user's own models
    suffice. `warnings` has a sentence for each thing that could not be used, and may grow.
    """

    def __init__(self, home: Home, env: Mapping[str, str], credentials: CredentialStore, warnings: list[str]) -> None:
        self.warnings = warnings
        self.home = home
        self.env = env
        self.windows = ContextWindows()
        self.added = AddedModels()
        self.unlisted = UnlistedProviders(self)
        self._credentials = credentials
        self._entries: dict[str, ProviderEntry] | None = None
        #: The Authorization headers of models whose base URL contains a user name, by provider and id.
        self._logins: dict[tuple[str, str], str] = {}
        self._own: list[Model] | None = None
        self._all: list[Model] | None = None
        #: Increases whenever keys may have changed. Streams that were opened with an older version are stale.
        self.version = 0

    @classmethod
    def load(
        cls, home: Home, env: Mapping[str, str], *, api_key: str | None = None, api_key_provider: str | None = None
    ) -> Registry:
        """Make the registry of a process. No file is read yet.

        Args:
            home: where models.json and auth.json are.
            env: the environment variables.
            api_key: a key from the command line.
            api_key_provider: the provider of that key; without one, the provider of the first model that is chosen with
                `match`, `default` or `auth`.
        """
        warnings: list[str] = []
        credentials = CredentialStore(home, env, api_key=api_key, api_key_provider=api_key_provider, warnings=warnings)
        return cls(home, env, credentials, warnings)

    # which models there are

    def all(self) -> list[Model]:
        """Return every known model."""
        return list(self._all_models())

    def available(self) -> list[Model]:
        """Return the models that have a key or need none. Runs no command to find out."""
        return self._usable(self._all_models())

    def has_usable(self) -> bool:
        """Whether any model has a key or needs none. Faster than `available`."""
        return any(self._can_use(model) for models in (self._own_models, self._all_models) for model in models())

    def providers(self) -> list[tuple[str, bool]]:
        """Return each provider that has models, and whether it has a key."""
        names = dict.fromkeys(model.provider for model in self._all_models())
        return [(name, self._has_key(name)) for name in names]

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model of exactly this name; None if there is none."""
        self.unlisted.look_for_local(provider)
        for models in (self._own_models, self._all_models):
            for model in models():
                if model.id == model_id and model.provider == provider:
                    return model
        return None

    def find_or_describe(self, provider: str, model_id: str) -> Model | None:
        """Return the model of exactly this name; None if the provider is not known.

        A model that is not known gets the features of the provider's default model, and leaves a warning.
        """
        found = self.find(provider, model_id)
        if found is None and model_id and any(model.provider == provider for model in self._all_models()):
            choice = self._unknown(f"{provider}/{model_id}")
            return None if choice is None else structs.replace(choice[0], id=model_id, name=model_id)
        return found

    def match(self, pattern: str, *, available_only: bool = False) -> tuple[Model, ThinkingLevel | None]:
        """Find the model that a pattern names; `model_patterns` describes patterns.

        Args:
            pattern: the pattern.
            available_only: only consider models that can be used.

        Returns:
            The model, and the thinking level that the pattern names, if it does.

        Raises:
            ModelNotFound: no model matches, or models of several providers do. A name with a known provider always matches: a
                model that is not known gets the features of the provider's default model, and leaves a warning.
        """
        is_local = self.unlisted.look_for_local(pattern.strip().partition("/")[0])
        try:
            choice = self._match(pattern.strip(), available_only=available_only)
        except model_patterns.Ambiguous:
            raise
        except ModelNotFound:
            if is_local:
                from fairlead.models.local.provider import missing_weights

                raise ModelNotFound(missing_weights(pattern.strip().partition("/")[2])) from None
            unknown = self._unknown(pattern.strip())
            if unknown is None or (available_only and not self._can_use(unknown[0])):
                raise
            choice = unknown
        self._credentials.choose(choice[0].provider)
        return choice

    def match_many(self, patterns: Sequence[str]) -> list[tuple[Model, ThinkingLevel | None]]:
        """Find the models that a list of patterns names, each once, in the order of the list. A glob names all it matches.

        A pattern that matches nothing leaves a warning. Raises ModelNotFound if no pattern matches anything.
        """
        chosen: dict[str, tuple[Model, ThinkingLevel | None]] = {}
        problems: list[ModelNotFound] = []
        for pattern in model_patterns.split_list(patterns):
            try:
                sources = (self._own_models, self._all_models)
                choices = model_patterns.match_all(pattern, sources, self._usable, self.warnings)
            except ModelNotFound as error:
                problems.append(error)
                continue
            for choice in choices:
                chosen.setdefault(model_patterns.full_name(choice[0]), choice)
        if problems and not chosen:
            raise problems[0]
        self.warnings += [str(problem) for problem in problems]
        return list(chosen.values())

    def default(self, settings: Settings) -> Model | None:
        """Choose the model to start with when the user does not name one.

        It is the model of the settings if that can be used, else the default of the first provider that can be used; None if
        no model can be used.
        """
        model = self._from_settings(settings) or self._first_usable()
        if model is not None:
            self._credentials.choose(model.provider)
        return model

    def reason_for_default(self, model: Model, settings: Settings) -> str:
        """Say in a few words why `default` chose a model."""
        if settings.default_model or settings.default_provider == model.provider:
            return "your settings name it"
        if model in self._own_models():
            return f"{self.home.models_path.name} describes it"
        known = PROVIDERS.get(model.provider)
        variable = next((name for name in known.key_variables if self.env.get(name, "").strip()), None) if known else None
        return f"{variable} is set" if variable else f"there is a key for {model.provider}"

    def default_of(self, provider: str) -> Model | None:
        """Return the model to use when only the provider is named; None if it has no model."""
        self.unlisted.look_for_local(provider)
        for model in self._own_models():
            if model.provider == provider:
                return model
        known = PROVIDERS.get(provider)
        return None if known is None else self.find(provider, known.default_model)

    def unknown_provider(self, name: str) -> ModelNotFound:
        """Make the error for a provider without models. It suggests a similar name."""
        known = [provider for provider, _ in self.providers()]
        if name in known:
            return ModelNotFound(f'The default model of the provider "{name}" is not known. Name a model with --model.')
        near = model_patterns.nearest_name(name, known)
        hint = f" Did you mean {near}?" if near else f" The providers are: {', '.join(known)}."
        return ModelNotFound(f'No model of the provider "{name}" is known.{hint}')

    # what others add

    def add_provider(
        self,
        name: str,
        entry: ProviderEntry,
        stream: Callable[[Model], ModelStream] | None = None,
        login: AddedLogin | None = None,
    ) -> None:
        """Add a provider, or change one. What `entry` does not mention stays as models.json says it.

        With `stream`, its models are asked through that. With `login`, the user can log in there.
        """
        self.added.set_provider(name, entry, stream, login)
        self._forget()

    def remove_provider(self, name: str) -> None:
        """Remove a provider that was added."""
        self.added.remove_provider(name)
        self._forget()

    def add_virtual_model(self, model: Model, stream: ModelStream) -> None:
        """Add a model that stands for others, or replace one. Raises ConfigError if a model that is not virtual has its name."""
        existing = self.find(model.provider, model.id)
        if existing is not None and not existing.is_virtual:
            raise ConfigError(f"Virtual model {model.provider}/{model.id} conflicts with a physical model.")
        self.added.virtual[model.provider, model.id] = model, stream
        self._forget()

    def remove_virtual_model(self, provider: str, model_id: str) -> None:
        """Remove a virtual model that was added."""
        if self.added.virtual.pop((provider, model_id), None) is not None:
            self._forget()

    def _forget(self) -> None:
        self._entries = self._own = self._all = None
        self.version += 1

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
        if expires is not None and expires <= time.time() * 1000:
            raise NoCredentials(f"The login for {model.provider} has expired. Log in again.")
        if key is not None:
            key = self.added.key_for(key)
        if key is None:
            if entry.auth != "none" and not needs_no_key(model.base_url, headers) and not self._is_virtual(model.provider):
                raise self._no_key(model.provider)
        elif entry.auth_header:
            headers["Authorization"] = f"Bearer {key}"
        return RequestAuth(key, headers, expires)

    def key(self, provider: str) -> str | None:
        """Return the key of a provider, without that of a login; None if it has none. It may run a command, like `auth`."""
        return self._credentials.key(provider, self.entry(provider).api_key)

    def key_source(self, provider: str) -> str | None:
        """Say where the key of a provider comes from, such as "the environment variable OPENAI_API_KEY"; None if it has none."""
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

    # inside: reading

    def provider_entries(self) -> dict[str, ProviderEntry]:
        """Return what models.json says about each provider, and the providers that were added."""
        if self._entries is None:
            entries: dict[str, ProviderEntry] = {}
            for path in self.home.models_files():
                is_own = self.home.peer is None and path == self.home.models_path
                for name, entry in read_models_json(path, self.warnings, checks_keys=is_own).items():
                    entries.setdefault(name, entry)
            added = {name: entries.get(name, ProviderEntry()).changed(entry) for name, entry in self.added.providers.items()}
            self._entries = entries | added
        return self._entries

    def entry(self, provider: str) -> ProviderEntry:
        """Return the description of a provider; an empty one if it has none."""
        return self.provider_entries().get(provider) or ProviderEntry()

    def _own_models(self) -> list[Model]:
        """The models that models.json or an extension describes in full."""
        if self._own is None:
            made = [
                self._without_login(model)
                for provider, entry in self.provider_entries().items()
                for model in entry.make_models(provider, self.env)
            ]
            made += [model for model, _ in self.added.virtual.values()]
            self._own = list({(model.provider, model.id): model for model in made}.values())
        return self._own

    def _all_models(self) -> list[Model]:
        if self._all is None:
            own, entries = self._own_models(), self.provider_entries()
            replaced = {(model.provider, model.id) for model in own}
            rest = [model for model in catalog_models(self.env) if (model.provider, model.id) not in replaced]
            adjusted = (entries[model.provider].adjust(model) if model.provider in entries else model for model in rest)
            self._all = own + [self._without_login(model) for model in adjusted]
        return self._all

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

    # inside: choosing

    def _match(self, pattern: str, *, available_only: bool) -> model_patterns.Choice:
        # The user's own models go first, also so that naming one of them does not read the catalog.
        own: model_patterns.Source = self._own_models
        every: model_patterns.Source = self._all_models
        if available_only:
            own, every = (lambda: self._usable(self._own_models())), (lambda: self._usable(self._all_models()))
        return model_patterns.match(pattern, (own, every), self._usable)

    def _unknown(self, pattern: str) -> model_patterns.Choice | None:
        """Describe a model that only its provider knows. Leaves a warning."""
        choice = model_patterns.unknown_model(pattern, self._all_models(), self.default_of)
        if choice is not None:
            model = choice[0]
            text = f'Model "{model.id}" not found for provider "{model.provider}". Using custom model id.'
            if text not in self.warnings:
                self.warnings.append(text)
        return choice

    def _from_settings(self, settings: Settings) -> Model | None:
        if settings.default_provider:
            self._credentials.choose(settings.default_provider)
        if not settings.default_model:
            model = self.default_of(settings.default_provider) if settings.default_provider else None
            return model if model is not None and self._can_use(model) else None
        try:
            pattern = model_patterns.qualified(settings.default_provider, settings.default_model)
            return self.match(pattern, available_only=True)[0]
        except ModelNotFound:
            return None

    def _first_usable(self) -> Model | None:
        for model in self._own_models():
            if self._can_use(model):
                return model
        for provider in PROVIDERS:
            model = self.default_of(provider) if self._has_key(provider) else None
            if model is not None:
                return model
        return None

    # inside: keys

    def _usable(self, models: Sequence[Model]) -> list[Model]:
        keys = {provider: self._has_key(provider) for provider in {model.provider for model in models}}
        return [model for model in models if keys[model.provider] or self._can_use(model)]

    def _has_key(self, provider: str) -> bool:
        if (self.added.has_stream(provider) and self.added.login(provider) is None) or self._is_virtual(provider):
            return True
        logins = self._supports_login(provider)
        return self._credentials.configured(provider, self.entry(provider).api_key, logins=logins)

    def _is_virtual(self, provider: str) -> bool:
        """Whether all models of a provider are virtual. It needs no key then."""
        return self.added.has_virtual_models(provider) and provider not in self.provider_entries() and provider not in PROVIDERS

    def _can_use(self, model: Model) -> bool:
        if self._has_key(model.provider) or needs_no_key(model.base_url, self._headers(model)):
            return True
        return self.entry(model.provider).auth == "none"

    def _no_key(self, provider: str) -> NoCredentials:
        known = PROVIDERS.get(provider)
        ways = [f"set {known.key_variables[0]}"] if known else []
        ways.append("pass --api-key")
        if not self.home.isolated:
            ways.append(f"add an apiKey for {provider} to {self.home.models_path}")
        text = f"No API key found for {provider}. To give one, {', '.join(ways[:-1])} or {ways[-1]}."
        if self._credentials.has_login(provider):
            text += " auth.json has a login for it that is not an API key; that needs an oauth block in models.json."
        return NoCredentials(text)
