"""Which models there are, which of them can be used, and with what key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.errors import ModelNotFound, NoCredentials
from fairlead.models import model_patterns
from fairlead.models.catalog import PROVIDERS, catalog_models
from fairlead.models.context_windows import ContextWindows
from fairlead.models.credentials import Credentials, LoginToken, RequestAuth, needs_no_key, split_login
from fairlead.models.models_json import OAuthEntry, ProviderEntry, read_models_json

DEFAULT_LEVEL: ThinkingLevel = "medium"


class Registry:
    """All models: those of the user's models.json first, in its order, then the catalog's.

    Made with `load`. Files are read when first needed: the catalog not at all while the user's own
    models suffice. `warnings` has a sentence for everything that could not be used, and may grow.
    """

    def __init__(self, home: Home, env: Mapping[str, str], credentials: Credentials, warnings: list[str]) -> None:
        self.warnings = warnings
        self.home = home
        self.windows = ContextWindows()
        self._env = env
        self._credentials = credentials
        self._entries: dict[str, ProviderEntry] | None = None
        #: The Authorization headers of models whose base URL has a user in it, by provider and id.
        self._logins: dict[tuple[str, str], str] = {}
        self._own: list[Model] | None = None
        self._all: list[Model] | None = None
        #: Providers that a program has added, and how to ask their models, where the program does that itself.
        self._added: dict[str, ProviderEntry] = {}
        self._streams: dict[str, Callable[[Model], ModelStream]] = {}
        #: Grows whenever keys may have changed: what was made with an older one is stale.
        self.version = 0

    @classmethod
    def load(
        cls, home: Home, env: Mapping[str, str], *, api_key: str | None = None, api_key_provider: str | None = None
    ) -> Registry:
        """`api_key` is the key of `api_key_provider`; without one, of the provider of the first model that is chosen
        with `match`, `default` or `auth`."""
        warnings: list[str] = []
        credentials = Credentials(home, env, api_key=api_key, api_key_provider=api_key_provider, warnings=warnings)
        return cls(home, env, credentials, warnings)

    # which models there are

    def all(self) -> list[Model]:
        """Every model that is known."""
        return list(self._all_models())

    def available(self) -> list[Model]:
        """The models whose provider has a key, or needs none. No command is run to find out."""
        return self._usable(self._all_models())

    def providers(self) -> list[tuple[str, bool]]:
        """Whose models there are, and whether there is a key for them."""
        names = dict.fromkeys(model.provider for model in self._all_models())
        return [(name, self._has_key(name)) for name in names]

    def find(self, provider: str, model_id: str) -> Model | None:
        """The model of exactly this name."""
        for models in (self._own_models, self._all_models):
            for model in models():
                if model.id == model_id and model.provider == provider:
                    return model
        return None

    def match(self, pattern: str, *, available_only: bool = False) -> tuple[Model, ThinkingLevel | None]:
        """The model that `pattern` means, and the thinking level it names. Raises ModelNotFound."""
        choice = self._match(pattern.strip(), available_only=available_only)
        self._credentials.choose(choice[0].provider)
        return choice

    def match_many(self, patterns: Sequence[str]) -> list[tuple[Model, ThinkingLevel | None]]:
        """The models that a list of patterns means, each once, in the list's order; a glob means all it matches.

        A pattern that matches nothing leaves a warning. Raises ModelNotFound if none matches anything.
        """
        chosen: dict[str, tuple[Model, ThinkingLevel | None]] = {}
        problems: list[ModelNotFound] = []
        for pattern in model_patterns.split_list(patterns):
            try:
                choices = model_patterns.match_all(pattern, (self._own_models, self._all_models), self._usable)
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
        """The model to start with when none is named: the one of the settings if it can be used, else the best one of
        the first provider that can."""
        model = self._from_settings(settings) or self._first_usable()
        if model is not None:
            self._credentials.choose(model.provider)
        return model

    def default_of(self, provider: str) -> Model | None:
        """The model to use when only a provider is named."""
        for model in self._own_models():
            if model.provider == provider:
                return model
        known = PROVIDERS.get(provider)
        return None if known is None else self.find(provider, known.default_model)

    # what programs add

    def add_provider(self, name: str, entry: ProviderEntry, stream: Callable[[Model], ModelStream] | None = None) -> None:
        """Add a provider, in the place of what models.json says of it. With `stream`, that is how its models are asked."""
        self._added[name] = entry
        self._streams.pop(name, None)
        if stream is not None:
            self._streams[name] = stream
        self._forget()

    def remove_provider(self, name: str) -> None:
        """Take back a provider that was added."""
        self._added.pop(name, None)
        self._streams.pop(name, None)
        self._forget()

    def stream(self, model: Model) -> ModelStream | None:
        """How a program that has added the model asks it."""
        make = self._streams.get(model.provider)
        return None if make is None else make(model)

    def _forget(self) -> None:
        self._entries = self._own = self._all = None
        self.version += 1

    # reaching one

    def auth(self, model: Model) -> RequestAuth:
        """The key and headers for requests to `model`. Raises NoCredentials, which says how to give a key.

        A `!command` in models.json or auth.json is run, for up to ten seconds, when its output is first
        needed; callers with an event loop ask from a thread.
        """
        self._credentials.choose(model.provider)
        entry = self._entry(model.provider)
        headers = {
            name: self._credentials.resolve(value, f"The header {name} of {model.provider}")
            for name, value in self._headers(model).items()
        }
        logins = entry.oauth is not None
        token = self._credentials.token(model.provider) if logins else None
        key = self._credentials.key(model.provider, entry.api_key, logins=logins)
        expires = token.expires if token is not None and token.access == key else None
        if expires is not None and expires <= time.time() * 1000:
            raise NoCredentials(f"The login for {model.provider} has expired. Log in again.")
        if key is None:
            if not needs_no_key(model.base_url, headers):
                raise self._no_key(model.provider)
        elif entry.auth_header:
            headers["Authorization"] = f"Bearer {key}"
        return RequestAuth(key, headers, expires)

    # keys and logins

    def logins(self) -> dict[str, OAuthEntry]:
        """How to log in, by provider, where that is possible; in the order of models.json."""
        return {name: entry.oauth for name, entry in self._provider_entries().items() if entry.oauth is not None}

    def login(self, provider: str) -> LoginToken | None:
        """The token that a login at the provider has left, if it is to be used."""
        return self._credentials.token(provider) if provider in self.logins() else None

    def keys_changed(self) -> None:
        """auth.json was changed: what it says is read anew."""
        self._credentials.reload()
        self.version += 1

    # inside: reading

    def _provider_entries(self) -> dict[str, ProviderEntry]:
        if self._entries is None:
            entries: dict[str, ProviderEntry] = {}
            for path in self.home.models_files():
                for name, entry in read_models_json(path, self.warnings).items():
                    entries.setdefault(name, entry)
            self._entries = entries | self._added
        return self._entries

    def _entry(self, provider: str) -> ProviderEntry:
        return self._provider_entries().get(provider) or ProviderEntry()

    def _own_models(self) -> list[Model]:
        """The models that models.json has in full."""
        if self._own is None:
            made = [
                self._without_login(model)
                for provider, entry in self._provider_entries().items()
                for model in entry.make_models(provider, self._env)
            ]
            self._own = list({(model.provider, model.id): model for model in made}.values())
        return self._own

    def _all_models(self) -> list[Model]:
        if self._all is None:
            own, entries = self._own_models(), self._provider_entries()
            replaced = {(model.provider, model.id) for model in own}
            rest = [model for model in catalog_models(self._env) if (model.provider, model.id) not in replaced]
            adjusted = (entries[model.provider].adjust(model) if model.provider in entries else model for model in rest)
            self._all = own + [self._without_login(model) for model in adjusted]
        return self._all

    def _without_login(self, model: Model) -> Model:
        """The model without the user and password of its base URL, which become a header: hosts see the URL."""
        base_url, authorization = split_login(model.base_url)
        if authorization is None:
            # Of two entries with one name the last counts, and no other server may hear of this one's password.
            self._logins.pop((model.provider, model.id), None)
            return model
        self._logins[model.provider, model.id] = authorization
        return structs.replace(model, base_url=base_url)

    def _headers(self, model: Model) -> dict[str, str]:
        """The extra headers for a model, as written: its provider's, its own, its override's, the login of its URL."""
        found = self._entry(model.provider).headers_for(model.id)
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

    def _from_settings(self, settings: Settings) -> Model | None:
        if settings.default_provider:
            self._credentials.choose(settings.default_provider)
        if not settings.default_model:
            model = self.default_of(settings.default_provider) if settings.default_provider else None
            return model if model is not None and self._can_use(model) else None
        try:
            pattern = model_patterns.qualified(settings.default_provider, settings.default_model)
            return self._match(pattern, available_only=True)[0]
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
        if provider in self._streams:
            return True
        entry = self._entry(provider)
        return self._credentials.configured(provider, entry.api_key, logins=entry.oauth is not None)

    def _can_use(self, model: Model) -> bool:
        return self._has_key(model.provider) or needs_no_key(model.base_url, self._headers(model))

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
