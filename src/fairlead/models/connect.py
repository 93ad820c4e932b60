"""From the description of a model to something that can be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

from fairlead.core.model import Model, ModelStream
from fairlead.errors import ConfigError
from fairlead.models.endpoint import Endpoint
from fairlead.models.http.client import Http

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
        endpoint: Endpoint,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
    ) -> ModelStream: ...


def connect(
    model: Model,
    endpoint: Endpoint,
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
    return adapter(model, endpoint, http, now_ms, thinking_budgets)
