"""The options of pi with which an extension calls a model, where fairlead asks the model itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, cast

from fairlead.core.model import Model, StreamEnd
from fairlead.errors import ProviderError
from fairlead.extend.extensions.values import convert, object_or_empty

#: The longest time that a server may ask us to wait before another attempt, in milliseconds, as in pi.
_LONGEST_DELAY_MS = 60_000
#: These providers refuse fields about how long a prompt is cached.
_SHORT_CACHES = ("together", "cloudflare-workers-ai", "cloudflare-ai-gateway", "nvidia", "ant-ling")


class CallOptions:
    """The options of one call. Raises TypeError if one of them has another type than pi documents."""

    def __init__(self, given: Mapping[str, Any], model: Model) -> None:
        self._given = given
        self._api = model.api
        self._provider = model.provider
        self._compat = model.compat or {}
        timeout = convert(float | None, given.get("timeoutMs"), "timeoutMs")
        #: How many seconds the server has to begin its response; None: no limit.
        self.timeout = None if timeout is None else timeout / 1000
        self._attempts = 1 + (convert(int | None, given.get("maxRetries"), "maxRetries") or 0)
        self._longest_delay = convert(float | None, given.get("maxRetryDelayMs"), "maxRetryDelayMs")
        self._retention = given.get("cacheRetention")
        self.thinking_budgets: dict[str, int] = convert(dict[str, int], given.get("thinkingBudgets") or {}, "thinkingBudgets")

    @property
    def session_id(self) -> str | None:
        """The conversation whose prompt cache is used."""
        id = convert(str | None, self._given.get("sessionId"), "sessionId")
        return None if self._retention == "none" else id

    def delay(self, attempts: int, end: StreamEnd | None) -> float | None:
        """Return how many seconds to wait before another attempt; None if there is none.

        `end` is None if the server was too slow. Raises ProviderError if it asks for a longer wait than the options allow.
        """
        if attempts >= self._attempts or (end is not None and not _may_repeat(end)):
            return None
        if end is None or end.retry_after is None:
            return min(0.5 * 2 ** (attempts - 1), 8.0)
        longest = _LONGEST_DELAY_MS if self._longest_delay is None else self._longest_delay
        if 0 < longest < end.retry_after * 1000:
            wanted, reason = ceil(end.retry_after), end.message.error_message or ""
            raise ProviderError(f"Server requested {wanted}s retry delay (max: {ceil(longest / 1000)}s). {reason}".rstrip())
        return end.retry_after

    def apply(self, payload: dict[str, Any]) -> None:
        """Change the body of a request."""
        match self._api:
            case "anthropic-messages":
                self._change_anthropic(payload)
            case "openai-completions" | "openai-responses":
                self._change_openai(payload)
            case "google-generative-ai":
                self._change_google(payload)
            case _:
                self._set_temperature(payload)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request with those of the options. A null removes one."""
        mine = object_or_empty(self._given.get("headers"))
        names = {name.lower() for name in mine}
        kept = {name: value for name, value in headers.items() if name.lower() not in names}
        return kept | {name: str(value) for name, value in mine.items() if value is not None}

    def _change_anthropic(self, payload: dict[str, Any]) -> None:
        thinking = payload.get("thinking")
        if not isinstance(thinking, dict) or cast("dict[str, Any]", thinking).get("type") == "disabled":
            self._set_temperature(payload)  # which the API refuses while the model thinks
        self._mark_caches(payload)
        user = object_or_empty(self._given.get("metadata")).get("user_id")
        if isinstance(user, str):
            payload["metadata"] = {"user_id": user}
        choice = self._given.get("toolChoice")
        if choice:
            payload["tool_choice"] = {"type": choice} if isinstance(choice, str) else choice

    def _change_openai(self, payload: dict[str, Any]) -> None:
        self._set_temperature(payload)
        self._mark_caches(payload)
        if self._keeps_long:
            payload["prompt_cache_retention"] = "24h"
            if self.session_id:
                payload["prompt_cache_key"] = self.session_id[:64]
        if self._given.get("toolChoice"):
            payload["tool_choice"] = self._given["toolChoice"]
        payload |= object_or_empty(self._given.get("samplingParams"))

    def _change_google(self, payload: dict[str, Any]) -> None:
        if self._given.get("temperature") is not None:
            self._set_temperature(payload.setdefault("generationConfig", {}))
        choice = self._given.get("toolChoice")
        if choice and payload.get("tools"):
            mode = choice.upper() if choice in ("none", "any") else "AUTO"
            payload["toolConfig"] = {"functionCallingConfig": {"mode": mode}}

    def _set_temperature(self, part: dict[str, Any]) -> None:
        if self._given.get("temperature") is not None:
            part["temperature"] = self._given["temperature"]

    @property
    def _keeps_long(self) -> bool:
        accepts = self._compat.get("supportsLongCacheRetention", self._provider not in _SHORT_CACHES)
        return self._retention == "long" and bool(accepts)

    def _mark_caches(self, payload: dict[str, Any]) -> None:
        """Remove what marks the prompt for the cache, or have it kept for longer."""
        for part in _find_marked(payload) if self._retention == "none" or self._keeps_long else ():
            if self._keeps_long:
                part["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
            else:
                del part["cache_control"]


def _may_repeat(end: StreamEnd) -> bool:
    """Whether another attempt makes sense after a request that failed before its response began, as in pi."""
    if end.refused or end.message.stop_reason != "error":
        return False
    return end.transient if end.status is None else end.status in (408, 409, 429) or end.status >= 500


def _find_marked(payload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a request that are marked for the cache."""
    messages = [object_or_empty(message).get("content") for message in _list(payload.get("messages"))]
    for parts in (payload.get("system"), payload.get("tools"), *messages):
        for part in _list(parts):
            if isinstance(part, dict) and "cache_control" in part:
                yield cast("dict[str, Any]", part)


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
