"""Fakes for tests of programs that embed fairlead, and for fairlead's own.

    Scripted, Turn     a model that plays given turns, in the process
    ProviderServer     a real HTTP server on loopback that speaks the providers' wire formats from a script

The server also runs by itself: `python -m fairlead.testing.provider --script turns.json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.testing.provider import ProviderServer, ReceivedRequest
    from fairlead.testing.scripted import SCRIPTED_MODEL, Scripted, Turn

__all__ = ["SCRIPTED_MODEL", "ProviderServer", "ReceivedRequest", "Scripted", "Turn"]


def __getattr__(name: str) -> Any:
    # On first use, so that the server's command needs nothing of the rest.
    from importlib import import_module

    if name in ("ProviderServer", "ReceivedRequest"):
        return getattr(import_module("fairlead.testing.provider"), name)
    if name in ("Scripted", "Turn", "SCRIPTED_MODEL"):
        return getattr(import_module("fairlead.testing.scripted"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
