"""What extensions and commands have added to the known models: providers, streams, logins and virtual models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.core.model import Model, ModelStream
from fairlead.core.secrets import learn
from fairlead.models.models_json import ProviderEntry

if TYPE_CHECKING:
    from fairlead.models.added_logins import AddedLogin


class AddedModels:
    """A record of what was added. The registry owns it, and changes it, because a change affects which models exist."""

    def __init__(self) -> None:
        #: The providers, by name.
        self.providers: dict[str, ProviderEntry] = {}
        #: The virtual models, and how to ask them, by provider and id.
        self.virtual: dict[tuple[str, str], tuple[Model, ModelStream]] = {}
        #: How to ask the models of a provider that is not asked over HTTP.
        self._streams: dict[str, Callable[[Model], ModelStream]] = {}
        #: How to log in at a provider, and the keys that its access tokens stand for.
        self._logins: dict[str, AddedLogin] = {}
        self._login_keys: dict[str, str] = {}

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

    def set_login_key(self, access: str, key: str) -> None:
        """Use a key for requests instead of an access token."""
        learn(key)
        self._login_keys[access] = key

    def key_for(self, access: str) -> str:
        """Return the key that an access token stands for: the token itself unless `set_login_key` gave another."""
        return self._login_keys.get(access, access)
