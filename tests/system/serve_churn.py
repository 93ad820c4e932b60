"""Begins and ends many sessions on a real `fairlead serve`, and checks that its memory does not grow.

    python -m tests.system.serve_churn [--sessions 20000] [--reopens 5000]

First, sessions are created and deleted; every twentieth has a run in between. Then 200 saved sessions are opened in random
order, 40 at a time, so that each one that is opened evicts another.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.serve_fuzz import PATIENCE, WORKERS, Server, running_server

from fairlead.client import ServerClient
from fairlead.testing import ProviderServer

#: How much the memory may grow from the first quarter of the work to its end, in MiB.
GROWTH = 8
#: Of how many sessions one has a run.
PROMPTED = 20
#: How many sessions are saved and opened again.
SAVED = 200


@dataclass
class Churn:
    """What happened. `memory` has the MiB after each quarter of the work."""

    name: str
    done: int = 0
    memory: list[float] = field(default_factory=list[float])
    seconds: float = 0.0

    @property
    def is_flat(self) -> bool:
        return self.memory[-1] - self.memory[0] <= GROWTH

    def __str__(self) -> str:
        memory = " -> ".join(f"{each:.1f}" for each in self.memory)
        return f"{self.done:,} sessions {self.name} in {self.seconds:.0f} s; memory: {memory} MiB"


async def churn(sessions: int, reopens: int, folder: Path) -> list[Churn]:
    """Begin and end sessions, then open saved ones. Returns what happened."""
    async with ProviderServer([{"text": "well " * 20}], loop=True) as provider, running_server(folder, provider.url) as server:
        client = ServerClient(f"http://127.0.0.1:{server.port}", token=server.token, timeout=PATIENCE)

        async def create_and_delete(number: int) -> None:
            session = await client.create_session()
            if number % PROMPTED == 0:
                await _prompt(client, session.id)
            await client.delete_session(session.id)

        created = await _repeat("created and deleted", sessions, create_and_delete, server)
        saved = [(await client.create_session()).id for _ in range(SAVED)]
        for each in saved:
            await _prompt(client, each)

        async def reopen(number: int) -> None:
            snapshot = await client.get_session(random.Random(number).choice(saved))
            assert snapshot.session.message_count == 2, snapshot

        reopened = await _repeat("opened and evicted", reopens, reopen, server)
        assert not server.log.read_text(), server.log.read_text()[:4000]
    return [created, reopened]


async def _prompt(client: ServerClient, session: str) -> None:
    """Prompt a session and wait for the end of its run."""
    await client.prompt(session, "hello")
    async with asyncio.timeout(PATIENCE):
        while (await client.get_session(session, messages=0)).session.status != "idle":
            pass


async def _repeat(name: str, count: int, work: Callable[[int], Awaitable[None]], server: Server) -> Churn:
    """Do something many times, several at once."""
    made = Churn(name)
    began = time.perf_counter()
    for quarter in range(4):
        numbers = iter(range(count * quarter // 4, count * (quarter + 1) // 4))

        async def worker(numbers: Iterator[int] = numbers) -> None:
            for number in numbers:
                await work(number)
                made.done += 1

        await asyncio.gather(*(worker() for _ in range(WORKERS)))
        await server.settle()
        made.memory.append(server.memory())
    made.seconds = time.perf_counter() - began
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--reopens", type=int, default=5_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fairlead-churn-") as folder:
        done = asyncio.run(churn(options.sessions, options.reopens, Path(folder)))
    print("\n".join(map(str, done)))
    sys.exit(0 if all(each.is_flat for each in done) else 1)


if __name__ == "__main__":
    main()
