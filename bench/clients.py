"""Measure the clients: many updates through each, and many prompts over one connection.

Each client runs in a separate process, `python -m bench.clients KIND WORK ARGV...` or `node bench/client_work.mjs WORK ARGV...`,
which starts the agent with the command line ARGV, does the work and prints figures as JSON. For the updates the agent is
a replay, because fairlead itself merges updates that come quickly.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench import peers, typescript_client
from bench.contestants import own, scripted_provider, surroundings
from bench.driver import BenchError

UPDATES = 20_000
PROMPTS, EARLY = 1_000, 100
LIMIT = 300
KINDS = ("async", "sync", "typescript")


def updates(kind: str) -> dict[str, float]:
    """Let a client read 20,000 updates in delta form. Returns the CPU of the client and of the agent."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        recording = Path(root, "recording.jsonl")
        write_recording(recording, asks_for_deltas=kind == "typescript")
        environment = {**os.environ, "FAIRLEAD_REPLAY": str(recording), "FAIRLEAD_REPLAY_SPEED": "fast"}
        return run(kind, "updates", own(), environment, root)


def prompts(kind: str) -> dict[str, float]:
    """Let a client send 1,000 prompts to one agent. Returns the memory of both after 100 prompts, and at the end."""
    with scripted_provider([{"text": "ok"}]) as port, tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        environment, directory = surroundings(Path(root), port)
        return run(kind, "prompts", own("--updates", "delta", "--model", "scripted/one", "--no-session"), environment, directory)


def run(kind: str, work: str, argv: Sequence[str], environment: dict[str, str], cwd: str) -> dict[str, float]:
    """Do a work with a client in a process. Raises BenchError if it fails."""
    if kind == "typescript":
        client = built_client() / "dist" / "index.js"
        program = [str(peers.node()), "--expose-gc", str(peers.ROOT / "bench" / "client_work.mjs"), str(client)]
    else:
        program = [sys.executable, "-m", "bench.clients", kind]
    environment = {**environment, "PYTHONPATH": str(peers.ROOT)}
    done = subprocess.run(
        [*program, work, *argv], env=environment, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode:
        raise BenchError(f"the {kind} client failed: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@cache
def built_client() -> Path:
    return typescript_client.build()


def write_recording(path: Path, *, asks_for_deltas: bool) -> None:
    """Write a recording of a run with 20,000 updates in delta form, before which the client may have asked for that form."""
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    base = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "usage": {**usage, "cost": cost}, "timestamp": 1}
    user = {"role": "user", "content": [{"type": "text", "text": "go"}], "timestamp": 1}
    answer = {**base, "content": [{"type": "text", "text": "A piece. " * UPDATES}], "stopReason": "stop"}

    def update(**event: Any) -> dict[str, Any]:
        return {"type": "message_update", "assistantMessageEvent": {"contentIndex": 0, **event}}

    frames: list[dict[str, Any]] = [
        {"type": "response", "id": "1", "command": "prompt", "success": True},
        {"type": "agent_start"},
        {"type": "turn_start"},
        {"type": "message_end", "message": user},
        {"type": "message_start", "message": {**base, "content": [], "stopReason": "stop"}},
        update(type="text_start"),
        *[update(type="text_delta", delta="A piece. ")] * UPDATES,
        update(type="text_end", content="A piece. " * UPDATES),
        {"type": "message_end", "message": answer},
        {"type": "turn_end", "message": answer, "toolResults": []},
        {"type": "agent_end", "messages": [user, answer]},
        {"type": "agent_settled", "aborted": False},
    ]
    idle = {"isStreaming": False, "isCompacting": False, "sessionId": "bench", "messageCount": 0}
    lines: list[dict[str, Any]] = [
        {"type": "recording", "version": 1, "dialect": "pi", "release": None, "fairlead": "0", "date": "2026-01-01T00:00:00Z"},
        *exchange("get_state", {}, idle),
        *(exchange("set_updates", {"updates": "delta"}, {"updates": "delta"}) if asks_for_deltas else ()),
        {"type": "in", "ms": 0, "line": {"id": "1", "type": "prompt", "message": "go"}},
        *({"type": "out", "ms": 0, "frame": frame} for frame in frames),
        {"type": "in_end", "ms": 0},
        {"type": "exit", "ms": 0, "code": 0},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def exchange(command: str, fields: dict[str, Any], data: Any) -> list[dict[str, Any]]:
    """Return the entries of a recording for a command and its response."""
    response = {"type": "response", "id": command, "command": command, "success": True, "data": data}
    return [
        {"type": "in", "ms": 0, "line": {"id": command, "type": command, **fields}},
        {"type": "out", "ms": 0, "frame": response},
    ]


# In the process of the client


def memory(pid: int | str) -> float:
    """Return the memory that a process holds now, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def cpu(pid: int) -> float:
    """Return the CPU seconds that another process has used."""
    return time.clock_gettime((~pid << 3) | 2)


async def work_async(work: str, argv: Sequence[str]) -> dict[str, float]:
    from fairlead.client import Client

    async with Client.start([*argv, "--mode", "rpc"]) as client:
        await client.get_state()
        assert client.pid is not None
        if work == "updates":
            began, own_before, server_before = time.perf_counter(), time.process_time(), cpu(client.pid)
            async with client.run("go") as run:
                length = sum([len(text) async for text in run.text()])
            return updates_figures(length, began, own_before, cpu(client.pid) - server_before)
        figures: dict[str, float] = {}
        for number in range(1, PROMPTS + 1):
            assert (await client.ask("go")).text == "ok"
            if number in (EARLY, PROMPTS):
                figures |= prompts_figures(number, client.pid)
        return figures


def work_sync(work: str, argv: Sequence[str]) -> dict[str, float]:
    from fairlead.client import SyncClient

    with SyncClient.start([*argv, "--mode", "rpc"]) as client:
        client.get_state()
        pid = int(subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=True).stdout.split()[0])
        if work == "updates":
            began, own_before, server_before = time.perf_counter(), time.process_time(), cpu(pid)
            with client.run("go") as run:
                length = sum(len(text) for text in run.text())
            return updates_figures(length, began, own_before, cpu(pid) - server_before)
        figures: dict[str, float] = {}
        for number in range(1, PROMPTS + 1):
            assert client.ask("go").text == "ok"
            if number in (EARLY, PROMPTS):
                figures |= prompts_figures(number, pid)
        return figures


def updates_figures(length: int, began: float, own_before: float, server: float) -> dict[str, float]:
    if length != UPDATES * len("A piece. "):
        raise BenchError(f"the client got {length} characters")
    wall, own_cpu = time.perf_counter() - began, time.process_time() - own_before
    return {"wall": wall, "cpu": own_cpu, "server_cpu": server, "memory": memory("self")}


def prompts_figures(number: int, pid: int) -> dict[str, float]:
    gc.collect()
    which = "early" if number == EARLY else "memory"
    return {which: memory("self"), f"server_{which}": memory(pid)}


def main() -> None:
    kind, work, *argv = sys.argv[1:]
    figures = asyncio.run(work_async(work, argv)) if kind == "async" else work_sync(work, argv)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
