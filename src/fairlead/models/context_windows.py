"""The context windows that model servers really have, as far as they told us."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fairlead.core.runtime import Cancel
from fairlead.errors import ProviderError

if TYPE_CHECKING:
    from fairlead.core.model import Model
    from fairlead.models.credentials import RequestAuth
    from fairlead.models.http.client import Http

#: A smaller window than this is a misread number, not a window.
_SMALLEST = 128
#: Seconds that a server gets to list its models.
_PATIENCE = 5.0
_LONGEST_LIST = 4 << 20

#: Where servers state the window in an entry of their model list, in order of preference:
#: llama.cpp (`meta.n_ctx`), LM Studio, vLLM and SGLang, OpenRouter and others.
_FIELDS = ("n_ctx", "loaded_context_length", "max_model_len", "context_length", "context_window", "max_context_length")


class ContextWindows:
    """What servers told of their windows, by model. A window is never larger than the one that is declared."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], int] = {}
        #: The most tokens that a request has had that was answered.
        self._proven: dict[tuple[str, str, str], int] = {}

    def of(self, model: Model) -> int:
        """The window to count on, in tokens; 0 if neither the user nor the server says."""
        told = self._told.get(_key(model))
        if told is None:
            return model.context_window
        return min(told, model.context_window) if model.context_window > 0 else told

    def is_told(self, model: Model) -> bool:
        return _key(model) in self._told

    def learn(self, model: Model, tokens: int) -> None:
        """Remember what the server of `model` says. A number that cannot be its window is ignored."""
        if tokens >= max(_SMALLEST, self._proven.get(_key(model), 0)):
            self._told[_key(model)] = tokens

    def prove(self, model: Model, tokens: int) -> None:
        """A request of so many tokens was answered: the window is not smaller, whatever was read in an error."""
        key = _key(model)
        self._proven[key] = max(tokens, self._proven.get(key, 0))
        if tokens > self._told.get(key, tokens):
            del self._told[key]


async def served_window(http: Http, model: Model, auth: RequestAuth) -> int | None:
    """The window that the server states in its list of models; None if it states none, or has no such list."""
    url = _list_url(model)
    if url is None:
        return None
    from fairlead.models.http.client import HttpRequest, RequestAborted

    key = auth.api_key
    headers = [("accept", "application/json"), ("anthropic-version", "2023-06-01")]
    if key is not None:
        headers.append(("x-api-key", key) if model.api == "anthropic-messages" else ("authorization", f"Bearer {key}"))
    request = HttpRequest("GET", url, auth.apply_to(headers), b"")
    try:
        async with asyncio.timeout(_PATIENCE), http.stream(request, Cancel()) as response:
            if response.status != 200:
                return None
            return _window_in(await response.read(_LONGEST_LIST), model.id)
    except (ProviderError, RequestAborted, TimeoutError):
        return None


def _key(model: Model) -> tuple[str, str, str]:
    return model.provider, model.id, model.base_url


def _list_url(model: Model) -> str | None:
    base = model.base_url.rstrip("/")
    if model.api == "anthropic-messages":
        return f"{base.removesuffix('/v1')}/v1/models"
    return f"{base}/models" if model.api in ("openai-completions", "openai-responses") else None


def _window_in(body: bytes, model_id: str) -> int | None:
    from fairlead.models.apis.response_reading import decoded, record, records

    listed = list(records(record(decoded(body.decode("utf-8", "replace"))).get("data")))
    entry = next((each for each in listed if each.get("id") == model_id), listed[0] if len(listed) == 1 else {})
    places: list[dict[str, Any]] = [record(entry.get("meta")), entry, record(entry.get("top_provider"))]
    for field in _FIELDS:
        for place in places:
            value = place.get(field)
            if isinstance(value, int) and not isinstance(value, bool) and value >= _SMALLEST:
                return value
    return None
