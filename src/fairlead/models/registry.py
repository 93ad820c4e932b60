"""Knows which models exist, and which of them can be used. `fairlead.models.providers` knows their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.core.model import THINKING_LEVELS, Model, ModelStream, ThinkingLevel
from fairlead.errors import ConfigError, ModelNotFound
from fairlead.models import model_patterns
from fairlead.models.catalog import PROVIDERS, catalog_models
from fairlead.models.context_windows import ContextWindows
from fairlead.models.credentials import CredentialStore
from fairlead.models.models_json import ProviderEntry
from fairlead.models.providers import Providers
from fairlead.models.unlisted_providers import KEY_VARIABLE, UnlistedProviders

if TYPE_CHECKING:
    from fairlead.models.added_logins import AddedLogin

DEFAULT_LEVEL: ThinkingLevel = "medium"


class Registry(Providers):
    """All models: those of the user's models.json first, in its order, then those of the catalog. And their providers.

    Make one with `load`. Files are read when they are first needed; the catalog is not read while the user's own models
    suffice. `warnings` has a sentence for each thing that could not be used, and may grow.
    """

    def __init__(self, home: Home, env: Mapping[str, str], credentials: CredentialStore, warnings: list[str]) -> None:
        super().__init__(home, env, credentials, warnings)
        self.windows = ContextWindows()
        #: The thinking levels that models may have.
        self.levels: Sequence[ThinkingLevel] = THINKING_LEVELS
        #: Whether `available` sorts the models by name.
        self.sorts_models = False
        self.unlisted = UnlistedProviders(self)
        self._own: list[Model] | None = None
        self._all: list[Model] | None = None

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
        usable = self._usable(self._all_models())
        return sorted(usable, key=self._make_sort_key()) if self.sorts_models else usable

    def can_use(self, model: Model) -> bool:
        """Whether the model has a key or needs none. Runs no command to find out."""
        return self._can_use(model)

    def has_usable(self) -> bool:
        """Whether any model has a key or needs none. Faster than `available`."""
        return any(self._can_use(model) for models in (self._own_models, self._all_models) for model in models())

    def providers(self) -> list[tuple[str, bool]]:
        """Return each provider that has models, and whether it has a key."""
        names = dict.fromkeys(model.provider for model in self._all_models())
        return [(name, self._has_key(name)) for name in names]

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model with exactly this name; None if there is none."""
        self.unlisted.look_for_local(provider)
        self.unlisted.look_for_server(provider, model_id)
        for models in (self._own_models, self._all_models):
            for model in models():
                if model.id == model_id and model.provider == provider:
                    return model
        return None

    def find_or_describe(self, provider: str, model_id: str) -> Model | None:
        """Return the model with exactly this name; None if the provider is not known.

        A model that is not known gets the features of the provider's default model, and leaves a warning.
        """
        found = self.find(provider, model_id)
        if found is None and model_id and any(model.provider == provider for model in self._all_models()):
            choice = self._choose_unlisted(f"{provider}/{model_id}")
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
        pattern = pattern.strip()
        provider, slash, model_id = pattern.partition("/")
        is_local = self.unlisted.look_for_local(provider)
        if slash:
            self.unlisted.look_for_server(provider, model_id)
        try:
            choice = self._match(pattern, available_only=available_only)
        except model_patterns.Ambiguous:
            raise
        except ModelNotFound:
            if is_local:
                from fairlead.models.local.llama import missing_weights  # noqa: PLC0415  an extra

                raise ModelNotFound(missing_weights(model_id)) from None
            if (problem := self.unlisted.silent_server(provider)) is not None:
                raise ModelNotFound(problem) from None
            unknown = self._choose_unlisted(pattern)
            if unknown is None or (available_only and not self._can_use(unknown[0])):
                # Without a key, a name alone can only be that of a model on this machine.
                if not slash and not available_only and not self.has_usable() and self.unlisted.look_for_servers():
                    return self.match(pattern)
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
                if self.sorts_models and len(choices) > 1:
                    sort_key = self._make_sort_key()
                    choices.sort(key=lambda choice: sort_key(choice[0]))
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
        """Explain in a few words why `default` chose a model."""
        if settings.default_model or settings.default_provider == model.provider:
            return "your settings name it"
        if model in self._own_models():
            return f"{self.home.models_path.name} describes it"
        known = PROVIDERS.get(model.provider)
        variable = next((name for name in known.key_variables if self.env.get(name, "").strip()), None) if known else None
        if variable is None and not self._has_key(model.provider):
            return f"its server, {model.base_url}, needs no key"
        return f"{variable} is set" if variable else f"there is a key for {model.provider}"

    def default_of(self, provider: str) -> Model | None:
        """Return the model to use when only the provider is named; None if it has no model."""
        self.unlisted.look_for_local(provider)
        self.unlisted.look_for_server(provider)
        for model in self._own_models():
            if model.provider == provider:
                return model
        known = PROVIDERS.get(provider)
        return None if known is None else self.find(provider, known.default_model)

    def key_source(self, provider: str) -> str | None:
        source = super().key_source(provider)
        if source is not None and source.endswith(KEY_VARIABLE) and provider == self.unlisted.server_name:
            return f"the environment variable {KEY_VARIABLE}"  # which no file names
        return source

    def unknown_provider(self, name: str) -> ModelNotFound:
        """Make the error for a provider without models. It suggests a similar name."""
        if (problem := self.unlisted.silent_server(name)) is not None:
            return ModelNotFound(problem)
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

    # inside: reading

    def _own_models(self) -> list[Model]:
        """The models that models.json or an extension describes in full."""
        if self._own is None:
            made = [
                self._without_login(model)
                for provider, entry in self.provider_entries().items()
                for model in entry.make_models(provider, self.env)
            ]
            made += [model for model, _ in self.added.virtual.values()]
            made = [self._without_unknown_levels(model) for model in made]
            self._own = list({(model.provider, model.id): model for model in made}.values())
        return self._own

    def _all_models(self) -> list[Model]:
        if self._all is None:
            own, entries = self._own_models(), self.provider_entries()
            replaced = {(model.provider, model.id) for model in own}
            rest = [model for model in catalog_models(self.env) if (model.provider, model.id) not in replaced]
            adjusted = (entries[model.provider].adjust(model) if model.provider in entries else model for model in rest)
            self._all = own + [self._without_unknown_levels(self._without_login(model)) for model in adjusted]
        return self._all

    def _make_sort_key(self) -> Callable[[Model], tuple[bool, str, bool, str]]:
        """Return what sorts models as pi does: the catalog by name, then added models, last those of added providers."""
        listed = {(model.provider, model.id) for model in catalog_models(self.env)}
        providers = {provider for provider, _ in listed}

        def key(model: Model) -> tuple[bool, str, bool, str]:
            if model.provider not in providers:
                return True, "", True, ""
            is_listed = (model.provider, model.id) in listed
            return False, model.provider, not is_listed, model.id if is_listed else ""

        return key

    def _without_unknown_levels(self, model: Model) -> Model:
        names = model.thinking_level_map
        if names is None or self.levels is THINKING_LEVELS:
            return model
        known = {level: name for level, name in names.items() if level in self.levels}
        return structs.replace(model, thinking_level_map=known)

    # inside: choosing

    def _match(self, pattern: str, *, available_only: bool) -> model_patterns.Choice:
        # The user's own models go first, also so that naming one of them does not read the catalog.
        own: model_patterns.Source = self._own_models
        every: model_patterns.Source = self._all_models
        if available_only:
            own, every = (lambda: self._usable(self._own_models())), (lambda: self._usable(self._all_models()))
        return model_patterns.match(pattern, (own, every), self._usable)

    def _choose_unlisted(self, pattern: str) -> model_patterns.Choice | None:
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
            pattern = model_patterns.qualify(settings.default_provider, settings.default_model)
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
        for provider in PROVIDERS.values():  # another server may need no key
            if provider.url(self.env) != provider.base_url or provider.name in self.provider_entries():
                model = self.default_of(provider.name)
                if model is not None and self._can_use(model):
                    return model
        return None
