"""A worker that asks a scripted model in one session, or resumes its run, and is killed by a test again and again.

killed_worker.py FOLDER SEED

The model chooses each turn from the number of its answers so far: bash commands that append a line to `ledger`, and reads, some
at the same time. The first line of output says that the work begins, the last one that it is done.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from fairlead import Agent, Storage
from fairlead.core.messages import AssistantMessage, ToolCall
from fairlead.core.model import ModelRequest, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

TURNS = 4


class Model:
    """Answers by what the conversation has, so that every worker of a session plays the same part."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        number = sum(isinstance(message, AssistantMessage) for message in request.messages)
        return Scripted([self._turn(number)])(request, cancel)

    def _turn(self, number: int) -> Turn:
        chance = random.Random(f"{self._seed}.{number}")
        pause = chance.uniform(0, 0.002)
        if number >= TURNS:
            return Turn(text="All of it is done.", chunk=2, pause=lambda: asyncio.sleep(pause))
        calls: list[ToolCall] = []
        for place in range(chance.randint(1, 3)):
            name = f"{number}-{place}"
            if chance.random() < 0.3:
                calls.append(ToolCall(name, "read", {"path": "notes"}))
            else:
                command = f"sleep {chance.uniform(0, 0.03):.3f}; echo {name} >> ledger; sleep {chance.uniform(0, 0.03):.3f}"
                calls.append(ToolCall(name, "bash", {"command": command}))
        return Turn(text="Next.", tool_calls=calls, chunk=2, pause=lambda: asyncio.sleep(pause))


async def work(folder: Path, seed: str) -> None:
    agent = Agent(
        model=SCRIPTED_MODEL,
        stream=Model(seed),
        cwd=folder,
        isolated=True,
        store=Storage(folder / "sessions"),
        session_id="work",
        tools=["bash", "read"],
    )
    async with agent:
        print("begins", flush=True)
        if agent.interrupted:
            await agent.resume()
        elif not agent.session.messages:
            await agent.ask("Do all of it.")
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
