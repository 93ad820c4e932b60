"""Measure what long use costs: 1,000 prompts in one session, and the memory that closed sessions leave.

The memory is measured in a separate process: `python -m bench.lasting SESSIONS ENTRIES` prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from bench.contestants import Contestant, running
from bench.driver import BenchError, Frame
from bench.sessions import write_session

#: Prompts whose cost is compared: the first ones of a session, and the last ones.
HUNDRED = 100


def prompts(contestant: Contestant, count: int) -> dict[str, float]:
    """Return the milliseconds of CPU for each of the first hundred and of the last hundred prompts of one session."""
    costs: list[float] = []
    with running(contestant, [{"text": "An answer of some words."}]) as agent:
        agent.ask("get_state", 60)
        agent.wait_until_idle()
        for hundred in range(count // HUNDRED):
            before = agent.cpu_seconds()
            for number in range(HUNDRED):
                agent.send(id=f"{hundred}-{number}", type="prompt", message="What is the next step?")
                agent.wait_for(_is_end, "agent_end", 60)
            costs.append((agent.cpu_seconds() - before) / HUNDRED * 1000)
        return {"first_prompts": costs[0], "last_prompts": costs[-1], "memory": agent.finish()}


def _is_end(frame: Frame) -> bool:
    return frame.type == "agent_end"


def closed_sessions(sessions: int, entries: int) -> dict[str, float]:
    """Return the memory of a process before it opens sessions, while they are open, and after it has closed them."""
    command = [sys.executable, "-m", "bench.lasting", str(sessions), str(entries)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the sessions were not opened: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


async def measure(sessions: int, entries: int) -> dict[str, float]:
    from fairlead import Agent

    def open_agent(path: Path) -> Agent:
        agent = Agent(
            model="anthropic/claude-sonnet-4-5",
            cwd=path.parent,
            isolated=True,
            env={"ANTHROPIC_API_KEY": "no-secret"},
            session=path,
        )
        if len(agent.session.messages) != entries - 2:
            raise SystemExit("a session lacks messages")
        return agent

    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        paths = [Path(folder, f"{number}.jsonl") for number in range(sessions)]
        for path in paths:
            write_session(path, entries)
        await open_agent(paths[0]).close()  # what all of them share
        gc.collect()
        before = resident()
        agents = [open_agent(path) for path in paths]
        peak = resident()
        while agents:
            await agents.pop().close()
        await asyncio.sleep(3)  # memory is given back a moment after sessions were closed
        return {"before": before, "opened": peak, "kept": resident() - before}


def resident(kind: Literal["VmRSS", "VmHWM"] = "VmRSS") -> float:
    """Return the memory of this process in MiB, or its peak. The peak that `getrusage` knows may be that of the parent."""
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))))
