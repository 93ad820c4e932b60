"""The providers that work without configuration, and the models they are known to have.

The providers are declared here. The models are data that scripts/make_catalog.py writes to catalog.json; the file is read only
when a model is wanted that the user's models.json does not describe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.core.model import Model, Price


class Provider(Struct, frozen=True):
    """A built-in provider."""

    name: str
    #: Its name for people.
    label: str
    api: str
    base_url: str
    #: Environment variables that may hold the key. The first one that is set wins.
    key_variables: tuple[str, ...]
    #: The model to use when the user does not name one.
    default_model: str
    #: Environment variables that may name another server.
    url_variables: tuple[str, ...] = ()
    #: The end of the URL that users leave out in such a variable.
    url_suffix: str = ""
    #: Whether users can grant a program a key on a page of the provider. OpenRouter documents that for all programs.
    grants_keys: bool = False

    def url(self, env: Mapping[str, str]) -> str:
        """Return the base URL for requests: the one that the environment names, else the built-in one."""
        for variable in self.url_variables:
            if value := env.get(variable, "").strip().rstrip("/"):
                return value if value.endswith(self.url_suffix) else value + self.url_suffix
        return self.base_url


_COMPLETIONS = "openai-completions"

#: By name, in the order in which a default model is searched for.
PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            "Anthropic",
            "anthropic-messages",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_KEY",),
            "claude-opus-5-5",
            ("ANTHROPIC_BASE_URL",),
        ),
        # Many servers that imitate OpenAI only offer chat completions. To reach them, users set
        # `"api": "openai-completions"` for `openai` in models.json, or add a provider there.
        Provider(
            "openai",
            "OpenAI",
            "openai-responses",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            "gpt-6.1-sol",
            ("OPENAI_BASE_URL",),
        ),
        # Google's SDK takes the server's URL without the API version.
        Provider(
            "google",
            "Google Gemini",
            "google-generative-ai",
            "https://generativelanguage.googleapis.com/v1beta",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "gemini-4-argon",
            ("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
            "/v1beta",
        ),
        Provider(
            "openrouter",
            "OpenRouter",
            _COMPLETIONS,
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            "anthropic/claude-opus-5.5",
            grants_keys=True,
        ),
        Provider("xai", "xAI", "openai-responses", "https://api.x.ai/v1", ("XAI_API_KEY",), "grok-4.7"),
        Provider("deepseek", "DeepSeek", _COMPLETIONS, "https://api.deepseek.com", ("DEEPSEEK_API_KEY",), "deepseek-v4-pro"),
        Provider("mistral", "Mistral", _COMPLETIONS, "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), "mistral-medium-latest"),
        Provider("moonshotai", "Moonshot AI", _COMPLETIONS, "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), "kimi-k3"),
        Provider("zai", "Z.ai", _COMPLETIONS, "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",), "glm-5.3"),
        Provider("groq", "Groq", _COMPLETIONS, "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), "openai/gpt-oss-120b"),
        Provider("cerebras", "Cerebras", _COMPLETIONS, "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), "gpt-oss-120b"),
        Provider(
            "together", "Together AI", _COMPLETIONS, "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), "moonshotai/Kimi-K3"
        ),
        Provider(
            "fireworks",
            "Fireworks AI",
            _COMPLETIONS,
            "https://api.fireworks.ai/inference/v1",
            ("FIREWORKS_API_KEY",),
            "accounts/fireworks/models/kimi-k3",
        ),
    )
}


def provider_label(name: str) -> str:
    """Return the name of a provider for people: its own name unless it is built in."""
    known = PROVIDERS.get(name)
    return name if known is None else known.label


class CatalogModel(Struct, rename="camel", frozen=True, omit_defaults=True):
    """A model as catalog.json describes it. What all models of its provider share is left out."""

    id: str
    name: str
    context_window: int
    max_tokens: int
    cost: Price
    reasoning: bool = False
    #: Whether it accepts images.
    images: bool = False
    thinking_level_map: dict[str, str | None] | None = None
    compat: dict[str, Any] | None = None


class CatalogSource(Struct, frozen=True):
    """The source of the prices and context windows."""

    name: str
    version: str
    date: str


class Catalog(Struct, frozen=True):
    """The content of catalog.json."""

    source: CatalogSource
    models: dict[str, list[CatalogModel]]


def read_catalog() -> Catalog:
    """Read the catalog.json that ships with this version."""
    return msgspec.json.decode(Path(__file__).with_name("catalog.json").read_bytes(), type=Catalog)


def catalog_models(env: Mapping[str, str]) -> Sequence[Model]:
    """Return every model of the catalog, grouped by provider. `env` may name other servers for them.

    Callers with the same servers get the same models: they take 130 KiB, and a process may have hundreds of agents.
    """
    return _catalog_models(tuple(provider.url(env) for provider in PROVIDERS.values()))


@lru_cache(4)
def _catalog_models(urls: tuple[str, ...]) -> Sequence[Model]:
    catalog = read_catalog()
    return tuple(
        _model(entry, provider, url)
        for provider, url in zip(PROVIDERS.values(), urls, strict=True)
        for entry in catalog.models.get(provider.name, [])
    )


def _model(entry: CatalogModel, provider: Provider, url: str) -> Model:
    return Model(
        entry.id,
        entry.name,
        provider.api,
        provider.name,
        url,
        entry.reasoning,
        ["text", "image"] if entry.images else ["text"],
        entry.cost,
        entry.context_window,
        entry.max_tokens,
        entry.thinking_level_map,
        entry.compat,
    )
