"""Extensions between an adapter and its provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.extend.extensions import events as e
from fairlead.extend.extensions.engine import Engine

_NAMES = ("before_provider_request", "before_provider_headers", "after_provider_response")


class Interception:
    """Implements `fairlead.core.interceptor.Interceptor`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def is_wanted(self) -> bool:
        return any(name in self._engine.listeners for name in _NAMES)

    async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        request = e.BeforeProviderRequest(payload)
        await self._tell("before_provider_request", request)
        heads = e.BeforeProviderHeaders(headers)
        await self._tell("before_provider_headers", heads)
        return request.payload, heads.headers

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        await self._tell("after_provider_response", e.AfterProviderResponse(status, dict(headers)))

    async def _tell(self, name: str, about: Any) -> None:
        for handler in self._engine.listeners.get(name, ()):
            await self._engine.heard(name, handler, about)
