"""Questions that belong to no run, when the process ends: nothing waits for their answers any more."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path

import pytest
from tests.session.scene import PATIENCE

from fairlead.agent import Agent
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.wire.pi.pi_stdio import RpcOptions, serve_agent
from fairlead.wire.pi.profile import profile_named


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncGenerator[tuple[Agent, asyncio.Task[int], FileIO]]:
    """An agent, its service, and where the host writes. The host reads nothing: a pipe holds what there is."""
    stdin, to_agent = os.pipe()
    from_agent, stdout = os.pipe()
    host = FileIO(to_agent, "w")
    agent = Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")]), isolated=True, cwd=tmp_path)
    serving = asyncio.create_task(serve_agent(agent, stdin, stdout, RpcOptions(profile=profile_named("omp"))))
    try:
        yield agent, serving, host
    finally:
        host.close()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([serving])
        await agent.close()
        for descriptor in (stdin, from_agent, stdout):
            os.close(descriptor)


ENDS: dict[str, Callable[[FileIO], object]] = {
    "shutdown": lambda host: host.write(json.dumps({"type": "shutdown"}).encode() + b"\n"),
    "the host leaves": lambda host: host.close(),
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_question_outside_a_run_does_not_delay_the_end(tmp_path: Path, end: str) -> None:
    async with served(tmp_path) as (agent, serving, host), asyncio.timeout(PATIENCE):
        await asyncio.sleep(0)  # the service begins
        asking = asyncio.ensure_future(agent.session.host.ui.input("Name"))
        await asyncio.sleep(0)
        assert not asking.done()
        ENDS[end](host)
        assert await asking is None
        assert await serving == 0
