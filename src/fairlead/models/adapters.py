"""The adapter of each API: which module has it, and how a stream is opened with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from fairlead.core.model import Model, ModelStream
from fairlead.errors import ConfigError
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http

if TYPE_CHECKING:
    from fairlead.models.apis.adapter import Adapter
    from fairlead.models.limiter import KeyLimiter

#: The module and class of the adapter for each API. Adapters are imported when a model first needs them.
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
    ) -> Adapter: ...


def load_adapter(api: str) -> _Adapter:
    """Return the adapter for an API. Raises KeyError if there is none."""
    module, name = ADAPTERS[api]
    return cast("_Adapter", getattr(import_module(f"fairlead.models.apis.{module}"), name))


def open_stream(
    model: Model,
    auth: RequestAuth,
    http: Http,
    now_ms: Callable[[], int],
    *,
    thinking_budgets: Mapping[str, int] | None = None,
    limiter: KeyLimiter | None = None,
    priority: int = 0,
) -> ModelStream:
    """Open a stream for `model`. Keep it for a whole conversation: it remembers how it encoded earlier messages.

    Args:
        model: the model to ask.
        auth: the key and headers of its requests.
        http: the connections to use.
        now_ms: the time, in milliseconds since the epoch.
        thinking_budgets: tokens by thinking level, for APIs that take a number.
        limiter: says when a request may be sent; None: at once.
        priority: that of its requests among those that wait.

    Raises:
        ConfigError: the model's API is unknown, or its `compat` settings are unusable.
    """
    if model.api not in ADAPTERS:
        known = ", ".join(ADAPTERS)
        raise ConfigError(
            f'The model {model.provider}/{model.id} has the unknown API "{model.api}". Set its `api` to one of: {known}.'
        )
    stream = load_adapter(model.api)(model, auth, http, now_ms, thinking_budgets)
    if limiter is not None:
        stream.limit(limiter, priority)
    return stream
