"""Uses many sessions in one process for a long time, and measures the process. `soak_sessions` starts it as a program.

    python -m tests.endurance.soak_worker ROOT URL SESSIONS SECONDS SAMPLES SEED

Each sample is a line of JSON: seconds, MiB of memory after a collection, descriptors, threads, tasks, and counts of the work.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fairlead import Agent
from fairlead.errors import CompactionCancelled, NothingToCompact, ProviderError, RunAborted
from fairlead.testing.agents import TEST_MODEL, agent_command

#: How many sessions work at the same moment. The others are open and idle.
AT_ONCE = 10
#: A session with more messages is deleted, so that the work stays the same from beginning to end.
MOST_MESSAGES = 40


@dataclass
class Soak:
    """The state of the process: where the sessions are, what they did, and whether they may begin something."""

    root: Path
    url: str
    end: float
    chance: random.Random
    work: Counter[str] = field(default_factory=Counter[str])
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    #: Cleared while the process is measured: nothing begins then.
    may_begin: asyncio.Event = field(default_factory=asyncio.Event)
    busy: int = 0
    at_rest: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait until this session may do something, and count it as busy meanwhile."""
        async with self.slots:
            await self.may_begin.wait()
            self.busy += 1
            self.at_rest.clear()
            try:
                yield
            finally:
                self.busy -= 1
                if not self.busy:
                    self.at_rest.set()

    async def use(self, number: int) -> None:
        """Open a session, use it and close it, again and again."""
        path = self.root / "sessions" / f"{number}.jsonl"
        command = agent_command(self.root, self.url)
        while not self.is_over:
            agent = Agent(model=TEST_MODEL, cwd=command.cwd, env=command.env, session=path, keep=True)
            self.work["opened"] += 1
            for _ in range(self.chance.randrange(1, 12)):
                async with self.turn():
                    if self.is_over:
                        break
                    await self.act(agent)
            is_long = len(agent.session.messages) > MOST_MESSAGES
            async with self.turn():
                await agent.close()
            if is_long:
                path.unlink()
                self.work["deleted"] += 1

    async def act(self, agent: Agent) -> None:
        """Prompt the agent, or compact its session."""
        kind = self.chance.choices(("ask", "abort", "compact", "steer"), (12, 2, 2, 2))[0]
        self.work[kind] += 1
        session = agent.session
        if kind == "compact":
            with suppress(NothingToCompact, CompactionCancelled, ProviderError):
                await session.compact()
            return
        if kind == "ask":
            with suppress(ProviderError):  # every attempt failed
                await agent.ask(f"Do some work: {self.chance.random()}")
            return
        with suppress(RunAborted):
            await session.prompt("Do some work that is interrupted.")
            await asyncio.sleep(self.chance.uniform(0, 0.05))
            await (session.abort() if kind == "abort" else session.steer("Do that instead."))
        await agent.idle()

    async def sample(self, began: float) -> None:
        """Wait until nothing is going on, then print what the process uses."""
        self.may_begin.clear()
        await self.at_rest.wait()
        gc.collect()
        status = Path("/proc/self/status").read_text()
        measured = {
            "seconds": round(time.monotonic() - began, 1),
            "memory": int(status.split("VmRSS:")[1].split()[0]) / 1024,
            "blocks": sys.getallocatedblocks(),
            "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
            "threads": threading.active_count(),
            "tasks": len(asyncio.all_tasks()),
            "work": self.work,
        }
        self.may_begin.set()
        print(json.dumps(measured), flush=True)


async def main(root: Path, url: str, sessions: int, seconds: float, samples: int, seed: int) -> None:
    began = time.monotonic()
    soak = Soak(root, url, began + seconds, random.Random(seed))
    soak.may_begin.set()
    soak.at_rest.set()
    (root / "sessions").mkdir()
    await soak.sample(began)
    users = [asyncio.create_task(soak.use(number)) for number in range(sessions)]
    pause = seconds / samples
    for number in range(1, samples + 1):
        await asyncio.wait(users, timeout=began + number * pause - time.monotonic(), return_when=asyncio.FIRST_EXCEPTION)
        if any(user.done() and user.exception() for user in users):
            break
        await soak.sample(began)
    await asyncio.gather(*users)
    await soak.sample(began)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])))
