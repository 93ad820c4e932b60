"""Stepping in between an adapter and its provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Interceptor(Protocol):
    """Sees every HTTP exchange with a provider, and may change what is sent. Raises nothing, and ends in bounded time."""

    async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """The body, as JSON, and the headers to send instead."""
        ...

    async def response(self, status: int, headers: Mapping[str, str]) -> None: ...
