"""Sends random requests to a real `fairlead serve`, and checks that it answers or closes, and that nothing else suffers.

    python -m tests.system.serve_fuzz [--requests 100000] [--seed 1]

The requests depend on the seed and their number, and on the ids of the sessions that the server has begun. A healthy client
uses one session all the time. At the end the server must have answered every complete request, never with the status
500. Its log must be empty, and its memory and its descriptors must not have grown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.system.fuzz_requests import HOLD, Known, Outgoing, outgoing

from fairlead.client import ServerClient
from fairlead.protocol.http.http_events import PromptResult
from fairlead.protocol.http.http_objects import Snapshot
from fairlead.testing import ProviderServer
from fairlead.testing.agents import TEST_MODEL, agent_command

#: Seconds in which a complete request must be answered, and the healthy client served.
PATIENCE = 60
WORKERS = 12
#: After how many prompts the healthy client begins again.
PROMPTS = 40
#: How much the memory may grow in the second half, in MiB, and how many descriptors there may be at the end: those of the
#: process, and the files of open sessions.
GROWTH, DESCRIPTORS = 24, 100
#: Requests that are longer than this are refused by the server.
REQUEST_BYTES = 100_000

#: What the healthy client says.
_HEALTHY = "healthy"
_CALL: Any = {"toolCalls": [{"name": "write", "arguments": {"path": "made.txt", "content": "x"}}]}
TURNS: list[Any] = [{"text": "well " * 20, "match": _HEALTHY}, _CALL, {"text": "ok"}]


@dataclass
class Report:
    """What happened."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    healthy: int = 0
    slowest: float = 0.0
    memory: list[float] = field(default_factory=list[float])
    descriptors: list[int] = field(default_factory=list[int])
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {count:,}" for name, count in sorted(self.statuses.items()))
        memory = " -> ".join(f"{each:.0f}" for each in self.memory)
        return (
            f"{sum(self.statuses.values()):,} requests in {self.seconds:.0f} s: {counted}\n"
            f"healthy prompts: {self.healthy}, the slowest took {self.slowest:.2f} s\n"
            f"memory: {memory} MiB; descriptors: {' -> '.join(map(str, self.descriptors))}"
        )


class Server:
    """The server process under test."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, home: Path, log: Path) -> None:
        self.process = process
        self.port = port
        self.token = (home / "serve.token").read_text().strip()
        self.log = log
        self.known = Known(port, self.token)

    def memory(self) -> float:
        return int(re.findall(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[0]) / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208

    async def settle(self) -> None:
        """Wait until all connections of the fuzz are closed, and what closed sessions left behind was collected."""
        last = -1
        while (now := self.descriptors()) != last:
            last = now
            await asyncio.sleep(3.0)

    async def send(self, sent: Outgoing) -> str:
        """Send a request and return its status, or how the connection ended."""
        source = (sent.source, 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=source, limit=1 << 26)
        try:
            with suppress(OSError):
                for piece in sent.pieces:
                    writer.write(piece)
                    await writer.drain()
            if sent.is_partial:
                return "partial"
            return await self._answer(reader, sent)
        except OSError:
            return "closed"
        finally:
            writer.transport.abort() if sent.is_rude else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, sent: Outgoing) -> str:
        async with asyncio.timeout(PATIENCE):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                return "closed" if not error.partial else "cut"
            status = head.split(b" ", 2)[1].decode()
            if status == "101" or b"text/event-stream" in head:
                with suppress(TimeoutError):  # a stream may be silent
                    async with asyncio.timeout(HOLD):
                        await reader.read(4096)
            elif not sent.is_rude:
                body = await reader.read()
                if status == "201" and (found := re.search(rb'"id":"([0-9a-f-]{36})"', body)):
                    self.known.sessions.append(found[1].decode())
            return status


@asynccontextmanager
async def running_server(folder: Path, provider: str) -> AsyncGenerator[Server]:
    """Start a server for at most 40 open sessions, whose files are in a folder."""
    command = agent_command(folder, provider)
    log = folder / "log"
    flags = ["--port", "0", "--model", TEST_MODEL, "--approval", "ask", "--max-sessions", "40", "--root", str(command.cwd)]
    argv = [sys.executable, "-P", "-m", "fairlead", "serve", *flags, "--max-request-bytes", str(REQUEST_BYTES)]
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=command.cwd, env=command.env, stdout=subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    try:
        text = ""
        while "Ctrl-C" not in text:
            line = (await process.stdout.readline()).decode()
            assert line, log.read_text()
            text += line
        found = re.search(r":(\d+)\n", text)
        assert found is not None
        yield Server(process, int(found[1]), Path(command.env["FAIRLEAD_HOME"]), log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _stay_healthy(server: Server, report: Report, over: asyncio.Event) -> None:
    """Use one session until the fuzz is over."""
    client = ServerClient(f"http://127.0.0.1:{server.port}", token=server.token, timeout=PATIENCE)
    session, sent = await client.create_session(name="healthy"), 0
    async with aclosing(client.follow(session.id)) as followed:
        while not over.is_set():
            if sent == PROMPTS:  # from the beginning, so that the conversation does not get longer and longer
                await client.move(session.id, None)
                sent = 0
            began = time.perf_counter()
            async with asyncio.timeout(PATIENCE):
                accepted = await client.prompt(session.id, f"{_HEALTHY} {report.healthy}")
                async for each in followed:
                    results = each.prompt_results if isinstance(each, Snapshot) else [each.event]
                    found = [result for result in results if isinstance(result, PromptResult) and result.id == accepted.id]
                    if found:
                        assert found[0].status == "completed", found
                        break
            report.healthy += 1
            sent += 1
            report.slowest = max(report.slowest, time.perf_counter() - began)
            await asyncio.sleep(0.1)
    snapshot = await client.get_session(session.id, messages=2)
    assert snapshot.session.message_count == sent * 2, snapshot.session


async def fuzz(requests: int, seed: int, folder: Path) -> Report:
    """Run the fuzz and return what happened. `problems` is empty if all is well."""
    report = Report()
    began = time.perf_counter()
    async with ProviderServer(TURNS, loop=True) as provider, running_server(folder, provider.url) as server:
        over = asyncio.Event()
        healthy = asyncio.create_task(_stay_healthy(server, report, over))
        numbers = iter(range(requests))
        marks = {requests // 2, requests * 3 // 4}

        async def work() -> None:
            for number in numbers:
                sent = outgoing(random.Random(f"{seed}-{number}"), server.known)
                try:
                    status = await server.send(sent)
                except TimeoutError:
                    status = "none"
                    report.problems.append(f"request {number} got no answer: {sent}")
                report.statuses[status] += 1
                if status == "500":
                    report.problems.append(f"request {number} got the status 500: {sent}")
                if number in marks:
                    report.memory.append(server.memory())
                if server.process.returncode is not None or healthy.done():
                    return

        await asyncio.gather(*(work() for _ in range(WORKERS)))
        await _finish(server, report, healthy, over)
    report.seconds = time.perf_counter() - began
    return report


async def _finish(server: Server, report: Report, healthy: asyncio.Task[None], over: asyncio.Event) -> None:
    """Check the health of the server after the fuzz."""
    over.set()
    try:
        await healthy
    except Exception as error:
        report.problems.append(f"the healthy client failed: {error!r}")
    if server.process.returncode is not None:
        report.problems.append("the server has ended")
    else:
        await server.settle()
        report.memory.append(server.memory())
        report.descriptors.append(server.descriptors())
        server.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            if await server.process.wait():
                report.problems.append(f"the exit code was {server.process.returncode}")
    if log := server.log.read_text(errors="replace"):
        report.problems.append(f"the log has:\n{log[:4000]}")
    if report.descriptors and report.descriptors[-1] > DESCRIPTORS:
        report.problems.append(f"{report.descriptors[-1]} descriptors are open")
    if report.memory[-1] - report.memory[0] > GROWTH:
        report.problems.append(f"the memory grew from {report.memory[0]:.0f} to {report.memory[-1]:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder:
        report = asyncio.run(fuzz(options.requests, options.seed, Path(folder)))
    print(report)
    print("\n".join(report.problems[:20]))
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
