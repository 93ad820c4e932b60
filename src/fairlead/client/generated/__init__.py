"""Methods that `make generate` writes from the declarations, and what they need from a client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from msgspec import UnsetType


class Caller(ABC):
    """Sends a command by name and returns the typed data of its response."""

    @abstractmethod
    async def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any: ...


class SyncCaller(ABC):
    """The same, for callers that block."""

    @abstractmethod
    def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any: ...
