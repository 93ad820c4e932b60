"""The context windows that model servers really have, as far as they report them, and what a small one changes.

The limits of a small window are facts of the window alone. The session asks for them when it prepares a turn; the loop does
not know them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeGuard

from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.apis import response_reading
from fairlead.models.http.http_client import HttpRequest, RequestAborted

if TYPE_CHECKING:
    from fairlead.core.model import Model
    from fairlead.models.credentials import RequestAuth
    from fairlead.models.http.http_client import Http

#: The largest window that counts as small, in tokens.
SMALL_WINDOW = 32_768
_CHARACTERS_PER_TOKEN = 4
#: The parts of a small window that the result of one tool may take, and that stay free for the answer.
_TOOL_OUTPUT_PART = 4
_RESERVE_PART = 4
#: A smaller number than this was misread and is not a window.
_SMALLEST = 128
#: Seconds that a server has to list its models.
_PATIENCE = 5.0
#: Bytes of such a list that are read.
_LONGEST_LIST = 4 << 20

#: The fields in which servers state the window in an entry of their model list, in order of preference:
#: llama.cpp (`meta.n_ctx`), LM Studio, vLLM and SGLang, OpenRouter and others.
_FIELDS = ("n_ctx", "loaded_context_length", "max_model_len", "context_length", "context_window", "max_context_length")


class ContextWindows:
    """The context windows that servers reported, by model. A window is never larger than the one declared for the model.

    That of a virtual model is the window of the model that its last request went to.
    """

    def __init__(self) -> None:
        self._reported: dict[tuple[str, str, str], int] = {}
        #: The size in tokens of the largest request that was answered.
        self._proven: dict[tuple[str, str, str], int] = {}

    def of(self, model: Model) -> int:
        """Return the window to count on, in tokens; 0 if neither the user nor the server states one."""
        reported = self._reported.get(_key(model)) if self._reported else None
        if reported is None:
            return model.context_window
        return min(reported, model.context_window) if model.context_window > 0 and not model.is_virtual else reported

    def is_reported(self, model: Model) -> bool:
        """Return whether the server of `model` has reported a window."""
        return _key(model) in self._reported

    def learn(self, model: Model, tokens: int) -> None:
        """Remember the window that the server of `model` reports. A number that cannot be its window is ignored."""
        proven = 0 if model.is_virtual else self._proven.get(_key(model), 0)
        if tokens >= max(_SMALLEST, proven):
            self._reported[_key(model)] = tokens

    def prove(self, model: Model, tokens: int) -> None:
        """Note that a request of `tokens` was answered: the window is at least that large, whatever an error message said."""
        key = _key(model)
        self._proven[key] = max(tokens, self._proven.get(key, 0))
        if tokens > self._reported.get(key, tokens):
            del self._reported[key]


async def ask_window(http: Http, model: Model, auth: RequestAuth) -> int | None:
    """Ask a server for the window of one of its models.

    Args:
        http: the connections to use.
        model: the model in question.
        auth: the key and headers for the request.

    Returns:
        The window that the server states in its list of models, in tokens; None if it has no such list or does not say.
    """
    url = _list_url(model)
    if url is None:
        return None

    key = auth.api_key
    headers = [("accept", "application/json"), ("anthropic-version", "2023-06-01")]
    if key is not None:
        headers.append(("x-api-key", key) if model.api == "anthropic-messages" else ("authorization", f"Bearer {key}"))
    request = HttpRequest("GET", url, auth.apply_to(headers), b"")
    try:
        async with asyncio.timeout(_PATIENCE), http.stream(request, CancelToken()) as response:
            if response.status != 200:
                return None
            return _window_in(await response.read(_LONGEST_LIST), model.id)
    except (ProviderError, RequestAborted, TimeoutError) as error:
        logging.getLogger("fairlead.models").debug("%s did not list its models (%s)", model.provider, type(error).__name__)
        return None


def _key(model: Model) -> tuple[str, str, str]:
    return model.provider, model.id, model.base_url


def _list_url(model: Model) -> str | None:
    base = model.base_url.rstrip("/")
    if model.api == "anthropic-messages":
        return f"{base.removesuffix('/v1')}/v1/models"
    return f"{base}/models" if model.api in ("openai-completions", "openai-responses") else None


def _window_in(body: bytes, model_id: str) -> int | None:
    listed = list(
        response_reading.records(
            response_reading.record(response_reading.decode_json(body.decode("utf-8", "replace"))).get("data")
        )
    )
    only = listed[0] if len(listed) == 1 else None
    entry = next((each for each in listed if each.get("id") == model_id), only)
    return None if entry is None else read_window(entry)


def read_window(entry: dict[str, Any]) -> int | None:
    """Return the context window that an entry of a server's model list states, in tokens; None if it states none."""
    sources: list[dict[str, Any]] = [
        response_reading.record(entry.get("meta")),
        entry,
        response_reading.record(entry.get("top_provider")),
    ]
    for field in _FIELDS:
        for source in sources:
            value = source.get(field)
            if isinstance(value, int) and not isinstance(value, bool) and value >= _SMALLEST:
                return value
    return None


def is_small(window: int | None) -> TypeGuard[int]:
    """Return whether a context window, in tokens, is small. One that is not known (0 or None) is not."""
    return window is not None and 0 < window <= SMALL_WINDOW


def longest_tool_output(window: int) -> int | None:
    """Return how many characters of text one tool result may have; None if the tools' own limits suffice."""
    return window // _TOOL_OUTPUT_PART * _CHARACTERS_PER_TOKEN if is_small(window) else None


def largest_reserve(window: int) -> int:
    """Return how much of a small window may stay free for the answer, in tokens."""
    return window // _RESERVE_PART
