"""A worker process for tests that begins or resumes a run of a session in a store, until the run is done.

    python -m tests.support.resuming_worker URL SESSION LEASE_SECONDS MARKS

The model calls a tool that leaves a mark, once for each number below TURNS. The model knows from the conversation which number is
next, so that it continues in another process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from fairlead import Agent, CancelToken, ModelRequest, Storage
from fairlead.errors import SessionError, SessionInUse
from fairlead.messages import ToolCall, ToolResultMessage
from fairlead.stores import open_store
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

TURNS = 12


async def answer(request: ModelRequest, cancel: CancelToken) -> AsyncGenerator[list[object]]:
    number = sum(isinstance(message, ToolResultMessage) for message in request.messages)
    call = ToolCall(f"call-{number}", "mark", {"number": number})
    turn = Turn(tool_calls=[call], pause=lambda: asyncio.sleep(0.05), chunk=1000) if number < TURNS else Turn(text="Done.")
    async for batch in Scripted([turn])(request, cancel):
        yield list(batch)


async def work(url: str, session: str, lease_seconds: float, marks: Path) -> str:
    def mark(number: int) -> str:
        """Leave a mark."""
        with marks.open("a") as file:
            file.write(f"{number}\n")
        return f"mark {number}"

    store = open_store(url)
    agent = Agent(
        model=SCRIPTED_MODEL,
        stream=answer,  # pyright: ignore[reportArgumentType]
        isolated=True,
        tools=[mark],
        store=Storage(store=store, lease_seconds=lease_seconds),
        session_id=session,
    )
    while True:
        try:
            await agent.open()
            break
        except SessionInUse:
            await asyncio.sleep(0.05)
    try:
        if agent.session.messages and not agent.interrupted:
            return "over"
        result = await agent.resume() if agent.interrupted else await agent.ask("Go")
        return result.text
    except SessionError as error:
        return type(error).__name__
    finally:
        await agent.close()
        await store.close()


if __name__ == "__main__":
    print(asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))), flush=True)
