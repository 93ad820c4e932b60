"""A worker process for tests: an agent whose session is in a store, and whose tool leaves a mark each time it runs.

    python -m tests.support.store_worker URL SESSION LEASE_SECONDS MARKS

It prints how its run ended. The model calls the tool again and again, 0.05 seconds apart.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fairlead import Storage
from fairlead.errors import FairleadError
from fairlead.messages import ToolCall
from fairlead.stores import open_store
from fairlead.testing import Turn, scripted_agent

ENDLESS = 10_000


async def work(url: str, session: str, lease_seconds: float, marks: Path, turns: int = ENDLESS) -> str:
    def mark(number: int) -> str:
        """Leave a mark."""
        with marks.open("a") as file:
            file.write(f"{number}\n")
        return f"mark {number}"

    calls = [
        Turn(tool_calls=[ToolCall(f"call-{n}", "mark", {"number": n})], pause=lambda: asyncio.sleep(0.05), chunk=1000)
        for n in range(turns)
    ]
    store = open_store(url)
    agent = scripted_agent(
        *calls, "Done.", tools=[mark], store=Storage(store=store, lease_seconds=lease_seconds), session_id=session
    )
    try:
        return (await agent.ask("Go")).text
    except FairleadError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await agent.close()
        await store.close()


if __name__ == "__main__":
    print(asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))), flush=True)
