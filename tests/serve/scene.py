"""A hub with a scripted provider, and the project and home that its sessions use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions, Discovery
from fairlead.serve.sessions.feed import Ended, Listener
from fairlead.serve.sessions.hub import Hub
from fairlead.serve.sessions.hub_sessions import HubLimits
from fairlead.serve.sessions.served import ServedSession
from fairlead.serve.sessions.spaces import Space
from fairlead.session.behaviour import Behaviour, Confinement
from fairlead.sessions.catalogue import common_parts
from fairlead.testing import ProviderServer
from fairlead.testing.agents import TEST_MODEL, agent_command

#: Seconds that a wait may take.
PATIENCE = 15
USER = "me"


async def nothing(agent: Agent) -> None:
    """Prepare an agent in no way."""


def options(tmp_path: Path, url: str, **more: Any) -> AgentOptions:
    """Return options of agents whose home and project are in a folder, and whose model is a scripted provider."""
    command = agent_command(tmp_path, url)
    given: dict[str, Any] = {"model": TEST_MODEL, "env": command.env, "cwd": command.cwd, "keep": True, **more}
    return AgentOptions(discovery=Discovery(context_files=False), **given)


class Scene(Struct):
    """A hub and its provider."""

    hub: Hub
    provider: ProviderServer
    project: Path


@asynccontextmanager
async def scene(
    tmp_path: Path, turns: Sequence[Any], limits: HubLimits | None = None, *, root: Path | None = None, **more: Any
) -> AsyncGenerator[Scene]:
    """Run a hub with one user."""
    async with ProviderServer(list(turns)) as provider, asyncio.timeout(PATIENCE * 2):
        base = options(tmp_path, provider.url, behaviour=Behaviour(confinement=Confinement(root=root)), **more)
        hub = Hub({USER: Space(common=common_parts(base), agent_options=lambda profile: base, prepare=nothing)}, limits)
        try:
            yield Scene(hub, provider, Path(base.cwd))
        finally:
            await hub.close()


#: Events that were taken from a listener but not looked at.
_LEFT: WeakKeyDictionary[Listener, list[tuple[int, bytes]]] = WeakKeyDictionary()


async def until(listener: Listener, found: Callable[[Any], object]) -> list[Any]:
    """Return the events up to the first one that a function accepts, each with its number as `number`."""
    seen: list[Any] = []
    left = _LEFT.setdefault(listener, [])
    async with asyncio.timeout(PATIENCE):
        while True:
            while left:
                number, event = left.pop(0)
                seen.append({**json.loads(event), "number": number})
                if found(seen[-1]):
                    return seen
            left += await listener.next()


def of_type(name: str) -> Callable[[Any], bool]:
    return lambda event: event["type"] == name


async def until_ended(listener: Listener) -> Ended:
    """Return why a listener gets no more events."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await listener.next()
            except Ended as ended:
                return ended


def snapshot(session: ServedSession) -> Any:
    return json.loads(session.snapshot())


class Mirror:
    """What a client knows from a snapshot and the events after it: the texts of all messages, and the open one."""

    def __init__(self, snapshot: Any) -> None:
        self.texts = [text_of(message) for message in snapshot["messages"]]
        opened = snapshot["openMessage"]
        self.open: str | None = None if opened is None else text_of(opened)
        self.number = snapshot["lastEvent"]

    def apply(self, event: Any) -> None:
        assert event["number"] == self.number + 1, "a gap"
        self.number += 1
        match event:
            case {"type": "message_start", "message": {"role": "assistant"}}:
                self.open = ""
            case {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": delta}}:
                self.open = (self.open or "") + delta
            case {"type": "message_end", "message": message}:
                if message["role"] == "assistant":
                    assert self.open == text_of(message)
                    self.open = None
                self.texts.append(text_of(message))
            case _:
                pass


def text_of(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
