"""The models of a registry, ready to be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.model import Model, ModelStream
from fairlead.errors import ConfigError, FairleadError
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.client import Http
from fairlead.models.registry import Registry

if TYPE_CHECKING:
    from fairlead.models.context_windows import ContextWindows

#: Milliseconds before its end at which a key counts as expired.
EARLY_MS = 60_000


class _Connected(Struct, frozen=True):
    """A stream, and how long the key that it was made with holds."""

    stream: ModelStream
    version: int
    expires: int | None


class ModelStreams:
    """Streams for models, one each, kept for the conversation."""

    def __init__(
        self,
        registry: Registry,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
        *,
        block_images: bool = False,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """With `block_images` models get a note in the place of every image. `after` is called when a model's key has been
        looked up, which may have added to the registry's warnings."""
        self._registry = registry
        self._http = http
        self._now_ms = now_ms
        self._budgets = thinking_budgets
        self._block_images = block_images
        self._after = after
        self._streams: dict[tuple[str, str], _Connected] = {}

    def available(self) -> list[Model]:
        return self._registry.available()

    def find(self, provider: str, model_id: str) -> Model | None:
        return self._registry.find(provider, model_id)

    def providers(self) -> list[tuple[str, bool]]:
        return self._registry.providers()

    @property
    def windows(self) -> ContextWindows:
        return self._registry.windows

    async def served_window(self, model: Model) -> int | None:
        if self._registry.stream(model) is not None:
            return None  # a program asks the model in its own way
        from fairlead.models.context_windows import served_window

        try:
            auth = await asyncio.to_thread(self._registry.auth, model)
        except FairleadError:
            return None
        return await served_window(self._http, model, auth)

    def known(self, model: Model) -> ModelStream | None:
        added = self._registry.stream(model)
        if added is not None:
            return added
        kept = self._streams.get((model.provider, model.id))
        if kept is None or kept.version != self._registry.version:
            return None
        return kept.stream if kept.expires is None or self._now_ms() + EARLY_MS < kept.expires else None

    async def stream(self, model: Model) -> ModelStream:
        stream = self.known(model)
        if stream is None:
            registry = self._registry
            if registry.login(model.provider) is not None:
                from fairlead.models.logins import renew_if_due

                await renew_if_due(registry, self._http, model.provider)
            version = registry.version
            # In a thread, because the key may be the output of a command.
            try:
                auth = await asyncio.to_thread(registry.auth, model)
            finally:
                self._after()
            asked = replace(model, input=["text"]) if self._block_images else model
            stream = open_stream(asked, auth, self._http, self._now_ms, thinking_budgets=self._budgets)
            self._streams[model.provider, model.id] = _Connected(stream, version, auth.expires)
        return stream


#: The module and class for each API. Adapters are imported when a model needs them.
ADAPTERS: Mapping[str, tuple[str, str]] = {
    "anthropic-messages": ("anthropic", "AnthropicMessages"),
    "openai-completions": ("openai_completions", "OpenAICompletions"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "google-generative-ai": ("google", "GoogleGenerativeAI"),
}


class _Adapter(Protocol):
    def __call__(
        self,
        model: Model,
        auth: RequestAuth,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
    ) -> ModelStream: ...


def open_stream(
    model: Model,
    auth: RequestAuth,
    http: Http,
    now_ms: Callable[[], int],
    *,
    thinking_budgets: Mapping[str, int] | None = None,
) -> ModelStream:
    """A stream for `model`. Keep it for a whole conversation: it remembers the encoding of earlier messages.

    `thinking_budgets` are tokens per thinking level, for APIs that want a number. Raises ConfigError for an unknown API.
    """
    if model.api not in ADAPTERS:
        known = ", ".join(ADAPTERS)
        raise ConfigError(f'The model {model.provider}/{model.id} has an unknown API, "{model.api}". Known are: {known}.')
    from importlib import import_module

    module, name = ADAPTERS[model.api]
    adapter = cast("_Adapter", getattr(import_module(f"fairlead.models.apis.{module}"), name))
    return adapter(model, auth, http, now_ms, thinking_budgets)
