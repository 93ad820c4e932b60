"""Fakes for tests of programs that embed fairlead.

    Scripted, Turn     a model in this process that answers with given turns
    SCRIPTED_MODEL     the `Model` that a `Scripted` plays
    ProviderServer     an HTTP server on loopback that answers in the providers' wire formats from a script
    ReceivedRequest    a request that a `ProviderServer` received

The server also runs as a program: `python -m fairlead.testing.provider --script turns.json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.testing.provider import ProviderServer, ReceivedRequest
    from fairlead.testing.scripted import SCRIPTED_MODEL, Scripted, Turn

__all__ = ["SCRIPTED_MODEL", "ProviderServer", "ReceivedRequest", "Scripted", "Turn"]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that the server's program does not load the rest.
    from importlib import import_module

    if name in ("ProviderServer", "ReceivedRequest"):
        return getattr(import_module("fairlead.testing.provider"), name)
    if name in ("Scripted", "Turn", "SCRIPTED_MODEL"):
        return getattr(import_module("fairlead.testing.scripted"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
