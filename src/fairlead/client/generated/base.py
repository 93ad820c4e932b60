"""What the generated methods need from a client."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType


class Caller:
    """Sends a command by name and returns the typed data of its response."""

    async def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        raise NotImplementedError


class SyncCaller:
    """The same, for callers that block."""

    def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        raise NotImplementedError
