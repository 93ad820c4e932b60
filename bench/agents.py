"""Measure the memory of an idle agent: many agents in one event loop, which share what they can.

It measures in a separate process: `python -m bench.agents COUNT` prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

from bench.driver import BenchError


def idle_agents(count: int) -> dict[str, float]:
    """Return the figures for a number of agents with the same options."""
    command = [sys.executable, "-m", "bench.agents", str(count)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the agents were not made: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


async def measure(count: int) -> dict[str, float]:
    from fairlead import Agent

    def an_agent(cwd: str) -> Agent:
        return Agent(model="anthropic/claude-sonnet-4-5", cwd=cwd, isolated=True, env={"ANTHROPIC_API_KEY": "no-secret"})

    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as cwd:
        first = an_agent(cwd)  # what all of them share
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        agents = [an_agent(cwd) for _ in range(count)]
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for agent in (first, *agents):
            await agent.close()
    return {"agent": (after - before) / count / 1024}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
