"""The models of a registry as one session uses them: found by name, and asked through a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.model import Model, ModelStream
from fairlead.core.secrets import learn
from fairlead.errors import FairleadError
from fairlead.models import added_logins, logins
from fairlead.models import limiter as rate_limiter
from fairlead.models.adapters import open_stream
from fairlead.models.context_windows import ask_window
from fairlead.models.credentials import EARLY_MS, RequestAuth
from fairlead.models.http.http_client import Http
from fairlead.models.registry import Registry
from fairlead.platform.process import run_in_thread

if TYPE_CHECKING:
    from fairlead.config.settings import RateLimit
    from fairlead.models.context_windows import ContextWindows


class _Connected(Struct, frozen=True):
    """A stream, and when the key that it was opened with expires."""

    stream: ModelStream
    version: int
    expires: int | None


class ModelStreams:
    """Opens one stream per model and keeps it for the session. Implements `fairlead.session.selection.Models`."""

    def __init__(
        self,
        registry: Registry,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
        *,
        block_images: bool = False,
        rate_limits: Mapping[str, RateLimit] | None = None,
        priority: int = 0,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Use the models of `registry`.

        Args:
            registry: the models and their keys.
            http: the connections to use.
            now_ms: the time, in milliseconds since the epoch.
            thinking_budgets: tokens by thinking level, for APIs that take a number.
            block_images: send a note instead of every image.
            rate_limits: limits by the name of the provider; `*` stands for every other one.
            priority: of the requests that wait for a limit, those with a higher one come first.
            after: called when a model's key has been looked up, which may have added to the registry's warnings.
        """
        self._registry = registry
        self._http = http
        self._now_ms = now_ms
        self._budgets = thinking_budgets
        self._block_images = block_images
        self._rate_limits = rate_limits or {}
        self._priority = priority
        self._after = after
        self._streams: dict[tuple[str, str], _Connected] = {}

    def available(self) -> list[Model]:
        """Return the models that have credentials."""
        return self._registry.available()

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model. If it is not known, it gets the features of the provider's default model.

        Returns None if the provider is not known.
        """
        return self._registry.find_or_describe(provider, model_id)

    def providers(self) -> list[tuple[str, bool]]:
        """Return each provider that has models, and whether it has a key."""
        return self._registry.providers()

    @property
    def windows(self) -> ContextWindows:
        """The context windows that servers reported. All sessions of a process share them."""
        return self._registry.windows

    async def ask_window(self, model: Model) -> int | None:
        """Ask the server of `model` for its context window, in tokens; None if it does not say. Raises nothing."""
        if self._registry.added.stream(model) is not None:
            return None  # an extension asks the model in its own way

        try:
            auth = await run_in_thread(partial(self._registry.auth, model))
        except FairleadError:
            return None
        return await ask_window(self._http, model, auth)

    def find_open_stream(self, model: Model) -> ModelStream | None:
        """Return the stream of `model` if it is open and its key still holds."""
        added = self._registry.added.stream(model)
        if added is not None:
            return added
        kept = self._streams.get((model.provider, model.id))
        if kept is None or kept.version != self._registry.version:
            return None
        return kept.stream if kept.expires is None or self._now_ms() + EARLY_MS < kept.expires else None

    async def stream(self, model: Model, api_key: str | None = None) -> ModelStream:
        """Return the stream of `model`, and open it if it is not. That takes long if its key is the output of a command.

        With `api_key`, the stream uses that key and is not kept.

        Raises:
            NoCredentials: there is no key, or its login has expired and cannot be renewed.
            ConfigError: the model's API or its `compat` settings are unusable.
        """
        if api_key is not None and self._registry.added.stream(model) is None:
            return await self._with_key(model, api_key)
        stream = self.find_open_stream(model)
        if stream is None:
            registry = self._registry
            if registry.added.login(model.provider) is not None:
                await added_logins.prepare_key(registry, model.provider)
            elif registry.login(model.provider) is not None:
                await logins.renew_if_due(registry, self._http, model.provider)
            version = registry.version
            # In a thread, because the key may be the output of a command.
            try:
                auth = await run_in_thread(partial(registry.auth, model))
            finally:
                self._after()
            stream = self._open_stream(model, auth)
            self._streams[model.provider, model.id] = _Connected(stream, version, auth.expires)
        return stream

    async def _with_key(self, model: Model, api_key: str) -> ModelStream:
        try:
            headers = (await run_in_thread(partial(self._registry.auth, model))).headers
        except FairleadError:
            headers = {}
        learn(api_key)
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        return self._open_stream(model, RequestAuth(api_key, headers))

    def _open_stream(self, model: Model, auth: RequestAuth) -> ModelStream:
        asked = replace(model, input=["text"]) if self._block_images else model
        if auth.base_url is not None:
            asked = replace(asked, base_url=auth.base_url)
        limiter = rate_limiter.limiter_for(model.provider, auth.api_key)
        limit = self._rate_limits.get(model.provider) or self._rate_limits.get("*")
        if limit is not None:
            limiter.restrict(limit)
        return open_stream(
            asked, auth, self._http, self._now_ms, thinking_budgets=self._budgets, limiter=limiter, priority=self._priority
        )
