"""Real agents for the tests of clients, each with a model that plays a script."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import peers
from bench.contestants import own, scripted_provider
from bench.contestants import surroundings as peer_surroundings
from tests.support.stage import Turn
from tests.support.surroundings import rpc, surroundings

from fairlead.client import Client
from fairlead.testing import ProviderServer


@dataclass(frozen=True)
class Agent:
    """A program to drive: its name, and the command line that starts it in RPC mode."""

    name: str
    command: Callable[[], Sequence[str]]
    #: Whether it sends responses. pi of 2025 did not, and has only three commands.
    responses: bool = True


FAIRLEAD = [
    Agent("fairlead-pi", lambda: own()),
    Agent("fairlead-delta", lambda: own("--updates", "delta")),
    Agent("fairlead-omp", lambda: [own()[0], "--dialect", "omp"]),
    Agent("fairlead-xcsh", lambda: [own()[0], "--dialect", "xcsh"]),
]
FAIRLEAD_2025 = Agent("fairlead-pi-2025", lambda: [own()[0], "--dialect", "pi-2025"], responses=False)
PI = [
    Agent("pi-0.73", lambda: peers.PI_073.command()),
    Agent("pi-0.87", lambda: peers.PI_087.command()),
    Agent("pi-1.5", lambda: peers.PI_15.command()),
]


@asynccontextmanager
async def running(agent: Agent, *turns: Turn, root: Path, **options: Any) -> AsyncGenerator[Client]:
    """A client of an agent that has just started."""
    with scripted_provider(turns) as port:
        environment, directory = peer_surroundings(Path(tempfile.mkdtemp(dir=root)), port)
        argv = [*await asyncio.to_thread(agent.command), "--mode", "rpc", "--model", "scripted/one"]
        async with Client.start(argv, cwd=directory, env=environment, responses=agent.responses, **options) as client:
            yield client


@asynccontextmanager
async def fairlead(
    root: Path, *turns: Turn, dialect: str = "pi", flags: Sequence[str] = (), **options: Any
) -> AsyncGenerator[tuple[Client, ProviderServer]]:
    """A client of fairlead, and its model's provider."""
    async with ProviderServer(turns or [{"text": "ok"}]) as provider:
        around = surroundings(root, provider.url)
        async with Client.start(rpc(dialect, *flags), cwd=around.cwd, env=around.env, **options) as client:
            yield client, provider
