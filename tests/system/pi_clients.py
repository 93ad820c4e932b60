"""The clients of pi's that the tests drive, and what the tests of them share."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import pytest
from bench.contestants import Turn
from bench.peers import PI_073, PI_087, PI_15, Peer

clients = pytest.mark.parametrize("client", [PI_073, PI_087, PI_15], ids=["pi-0.73", "pi-0.87", "pi-1.5"])

#: A tool call that lasts until `client.bash("touch go")`: what is said before that is said to a busy agent.
WAIT: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "until [ -e go ]; do sleep 0.02; done"}}]}


class Drive(Protocol):
    """Runs JavaScript that has pi's `client` in it, against an agent (this program, unless given) whose model plays the turns.

    The script also has `until(test)`, which waits for an event that passes, and `refusal(promise)`, the text with which a
    call is refused. What it returns is the result. `env` is added to the environment of the agent.
    """

    def __call__(
        self, client: Peer, script: str, *turns: Turn, agent: Peer | None = None, env: Mapping[str, str] | None = None
    ) -> Any: ...


def rpc_client(client: Peer) -> Path:
    """The module that has the RpcClient; the whole package would take ten times as long to load."""
    return client.package_directory / "dist" / "modes" / "rpc" / "rpc-client.js"


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def said(messages: list[dict[str, Any]], role: str = "user") -> list[str]:
    """The texts of those who have this role."""
    return [message["content"][0]["text"] for message in messages if message["role"] == role]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types of events, each run of like ones once."""
    return [kind for kind, _ in groupby(event["type"] for event in events)]
