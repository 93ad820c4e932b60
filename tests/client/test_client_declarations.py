"""The generated parts of the client are complete."""

from __future__ import annotations

import inspect

from fairlead.client import Client, SyncClient, events
from fairlead.client.agent_connection import command_types
from fairlead.client.opal import OpalClient
from fairlead.client.opal import events as opal_events
from fairlead.protocol.opal.opal_events import EVENTS
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.pi.frames import Response, RpcChunk
from fairlead.wire.pi.pi_schema import COMMANDS, FRAMES


def test_every_command_is_a_method_of_both_clients() -> None:
    assert command_types() == COMMANDS
    assert [name for name in COMMANDS if not inspect.iscoroutinefunction(getattr(Client, name, None))] == []
    assert [name for name in COMMANDS if not inspect.isfunction(getattr(SyncClient, name, None))] == []


def test_both_clients_have_the_same_public_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Client) - public(SyncClient) == {"exit_code", "pid"}
    assert public(SyncClient) - public(Client) == {"do"}


def test_every_frame_is_an_event() -> None:
    frames = {frame for frame in FRAMES if frame not in (Response, RpcChunk)}
    assert {base for event in events.EVENTS.values() for base in event.__mro__} >= frames


def test_every_method_and_event_of_opal_is_there() -> None:
    names = [name.replace("/", "_") for name in METHODS]
    assert [name for name in names if not inspect.iscoroutinefunction(getattr(OpalClient, name, None))] == []
    assert opal_events.EVENTS.keys() == EVENTS.keys()
