"""The client for servers of Opal, with fairlead as the server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_agent import PATIENCE
from tests.support.stage import ENDLESS, Turn, says
from tests.support.surroundings import FAIRLEAD, surroundings

from fairlead.client.opal import OpalClient, events
from fairlead.errors import AgentGone, CommandRefused, RunFailed
from fairlead.protocol.opal.opal_events import AskUser, Confirm
from fairlead.testing import ProviderServer


@asynccontextmanager
async def server(root: Path, *turns: Turn, flags: Sequence[str] = ()) -> AsyncGenerator[OpalClient]:
    async with ProviderServer(turns or [{"text": "ok"}]) as provider:
        around = surroundings(root, provider.url)
        argv = [FAIRLEAD, "--mode", "opal", "--model", "fake/fake-1", *flags]
        async with OpalClient.start(argv, cwd=around.cwd, env=around.env) as client:
            yield client


def shell(command: str) -> Turn:
    return {"toolCalls": [{"name": "shell", "arguments": {"command": command}}]}


async def test_sessions_run_side_by_side_and_events_are_typed(tmp_path: Path) -> None:
    async with server(tmp_path / "a", says("Hello.")) as client:
        assert (await client.opal_version()).protocol_version
        stream = client.events()
        one, two = await client.session_start(), await client.session_start()
        results = await asyncio.gather(client.ask(one.session_id, "Hi"), client.ask(two.session_id, "Hi"))
        assert [(result.text, result.aborted) for result in results] == [("Hello.", False)] * 2
        assert results[0].usage is not None
        state = await client.agent_state(one.session_id)
        assert (state.status, state.message_count) == ("idle", 2)
        texts: dict[str, str] = {one.session_id: "", two.session_id: ""}
        ended = 0
        while ended < 2:
            match await anext(stream):
                case events.MessageDelta(session_id=session, delta=delta):
                    texts[session] += delta
                case events.AgentEnd():
                    ended += 1
                case _:
                    pass
        assert set(texts.values()) == {"Hello."}


async def test_failures_aborts_and_refusals_are_distinguished(tmp_path: Path) -> None:
    async with server(tmp_path / "a", {"status": 400, "error": "bad request"}, ENDLESS) as client:
        with pytest.raises(CommandRefused, match="Session not found") as caught:
            await client.agent_state("nope")
        assert (caught.value.command, caught.value.code) == ("agent/state", -32602)
        with pytest.raises(CommandRefused, match="Method not found: dance"):
            await client.request("dance")
        session = (await client.session_start()).session_id
        with pytest.raises(RunFailed, match="bad request"):
            await client.ask(session, "Hi")
        stream = client.events()
        run = await client.prompt(session, "Go on.")
        while not isinstance(await anext(stream), events.MessageDelta):
            pass
        assert not run.queued
        await client.agent_abort(session)
        assert (await run).aborted


@pytest.mark.parametrize("action", ["allow", "deny", None])
async def test_a_handler_decides_about_calls_and_without_one_they_are_denied(action: str | None, tmp_path: Path) -> None:
    async with server(tmp_path / "a", shell("touch made"), says("Done."), flags=["--approval", "ask"]) as client:
        asked: list[Confirm] = []
        if action is not None:

            @client.on_confirm
            def decide(request: Confirm) -> str:
                asked.append(request)
                return action

            assert decide
        session = (await client.session_start()).session_id
        assert (await client.ask(session, "Make it.")).text == "Done."
        assert (tmp_path / "a" / "project" / "made").exists() is (action == "allow")
        assert all("touch made" in request.message for request in asked)


@pytest.mark.parametrize("answers", [True, False])
async def test_a_handler_answers_the_model_and_without_one_nothing_hangs(answers: bool, tmp_path: Path) -> None:
    question: Any = {"toolCalls": [{"name": "ask_user", "arguments": {"question": "Which?", "choices": ["a", "b"]}}]}
    async with server(tmp_path / "a", question, says("Done.")) as client:
        if answers:

            @client.on_ask_user
            async def answer(request: AskUser) -> str:
                assert request.choices == ["a", "b"]
                return "b"

            assert answer
        session = (await client.session_start()).session_id
        assert (await asyncio.wait_for(client.ask(session, "Ask."), PATIENCE)).text == "Done."


async def test_a_server_that_dies_fails_all_runs(tmp_path: Path) -> None:
    async with server(tmp_path / "a", ENDLESS) as client:
        session = (await client.session_start()).session_id
        run = await client.prompt(session, "Go on.")
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(AgentGone, match="exit code -9"):
            await asyncio.wait_for(run, PATIENCE)
