"""A run whose workers are killed continues in other processes, and runs no command twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.resuming_worker import TURNS

from fairlead.errors import ProviderError
from fairlead.protocol.pi.session_commands import Resume
from fairlead.stores import MemoryStore, open_store
from fairlead.testing import Turn, scripted_agent
from fairlead.wire.pi.session_handlers import ROUTES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_run_continues_in_another_process_and_repeats_no_command(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db" if kind == "sqlite" else f"file:{tmp_path}/sessions"
    marks = tmp_path / "marks"
    command = [sys.executable, "-m", "tests.support.resuming_worker", url, "job", "1.5", str(marks)]

    def count() -> int:
        return len(marks.read_text().splitlines()) if marks.exists() else 0

    said = ""
    for kills in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as worker:
            before, deadline = count(), time.monotonic() + 60
            if kills < 3:
                while count() < before + 2 and worker.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.01)
                worker.kill()
            said = worker.communicate(timeout=60)[0].strip()
        if said in ("Done.", "over"):
            break
    assert said == "Done.", said
    numbers = [int(line) for line in marks.read_text().splitlines()]
    assert len(set(numbers)) == len(numbers), f"no command ran twice: {numbers}"

    async def results() -> list[bytes]:
        store = open_store(url)
        lines = [line.line for line in (await store.read("job")).lines]
        await store.close()
        return [line for line in lines if b'"role":"toolResult"' in line]

    found = asyncio.run(results())
    assert len(found) == TURNS, "each call has one result"
    told = sum(b"may have run" in line for line in found)
    assert TURNS - told <= len(numbers) <= TURNS
    assert told <= 3, "only calls that were running when a worker was killed"


async def test_a_host_resumes_a_session_of_a_store_that_is_not_open_yet() -> None:
    store = MemoryStore()
    async with scripted_agent(Turn(error="The model is away."), store=store, session_id="x") as agent:
        with pytest.raises(ProviderError):
            await agent.ask("Go.")
    agent = scripted_agent("Done.", store=store, session_id="x")
    route = next(route for route in ROUTES if route.declaration is Resume)
    await route.handler(SimpleNamespace(session=agent.session), Resume())
    await agent.idle()
    assert agent.text() == "Done."
    await agent.close()
