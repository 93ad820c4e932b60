"""A client for servers of Opal, such as `fairlead --mode opal`.

    OpalClient, SyncOpalClient      a server, for async and for blocking programs; every method of the protocol is a method here
    OpalRun, SyncOpalRun            a prompt that the server has accepted, and
    OpalResult                      its outcome
    events                          the events of sessions
    Confirm, Input, AskUser         what the server asks the user

A server holds many sessions, so events and runs name theirs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.client.opal import events
    from fairlead.client.opal.client import AskUser, Confirm, Input, OpalClient, OpalResult, OpalRun
    from fairlead.client.opal.sync import SyncOpalClient, SyncOpalRun

__all__ = ["AskUser", "Confirm", "Input", "OpalClient", "OpalResult", "OpalRun", "SyncOpalClient", "SyncOpalRun", "events"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fairlead.client.opal' has no attribute {name!r}")

    if name == "events":
        return import_module("fairlead.client.opal.events")
    if name.startswith("Sync"):
        return getattr(import_module("fairlead.client.opal.sync"), name)
    return getattr(import_module("fairlead.client.opal.client"), name)


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]
