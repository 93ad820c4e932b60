"""Fakes for tests of programs that embed fairlead.

    Scripted, Turn     a model in this process that answers with given turns
    SCRIPTED_MODEL     the `Model` that a `Scripted` plays
    scripted_agent     an agent in this process with such a model
    ProviderServer     an HTTP server on loopback that answers in the providers' wire formats from a script
    ReceivedRequest    a request that a `ProviderServer` received
    AgentCommand       how to start an agent, and clients for it
    agent_command      the command of a real agent whose model is a `ProviderServer`
    replay_command     the command of an agent that plays a recording
    check_store        tests a session store; `STORE_CHECKS` are its tests

The server also runs as a program: `python -m fairlead.testing.provider --script turns.json`.

**pytest** finds the fixtures `fairlead_agent`, `fairlead_provider`, `fairlead_process`, `fairlead_record` and `fairlead_replay`
by itself. Their types are `MakeAgent`, `MakeProvider`, `MakeProcess`, `MakeRecording` and `MakeReplay`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.testing.agents import (
        SCRIPTED_MODEL,
        AgentCommand,
        Scripted,
        Turn,
        agent_command,
        replay_command,
        scripted_agent,
    )
    from fairlead.testing.plugin import MakeAgent, MakeProcess, MakeProvider, MakeRecording, MakeReplay
    from fairlead.testing.provider import ProviderServer, ReceivedRequest
    from fairlead.testing.stores import STORE_CHECKS, check_store

__all__ = [
    "SCRIPTED_MODEL",
    "STORE_CHECKS",
    "AgentCommand",
    "MakeAgent",
    "MakeProcess",
    "MakeProvider",
    "MakeRecording",
    "MakeReplay",
    "ProviderServer",
    "ReceivedRequest",
    "Scripted",
    "Turn",
    "agent_command",
    "check_store",
    "replay_command",
    "scripted_agent",
]

#: The modules of the names. Each is imported on first use, so that the server's program and pytest do not load the rest.
_HOMES = {
    "provider": ("ProviderServer", "ReceivedRequest"),
    "agents": (
        "AgentCommand",
        "SCRIPTED_MODEL",
        "Scripted",
        "Turn",
        "agent_command",
        "replay_command",
        "scripted_agent",
    ),
    "plugin": ("MakeAgent", "MakeProcess", "MakeProvider", "MakeRecording", "MakeReplay"),
    "stores": ("STORE_CHECKS", "check_store"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fairlead.testing.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]
