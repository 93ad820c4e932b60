"""The client for programs that block."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_agent import PATIENCE, program
from tests.support.stage import ENDLESS, Turn, calls, says
from tests.support.surroundings import rpc, surroundings

from fairlead.client import HostCall, SyncClient, events
from fairlead.errors import AgentGone, ClientError, CommandRefused, NoAnswer
from fairlead.testing import ProviderServer


@contextmanager
def fairlead(root: Path, *turns: Turn, **options: Any) -> Generator[SyncClient]:
    with ProviderServer(turns or [{"text": "ok"}]) as provider:
        around = surroundings(root, provider.url)
        with SyncClient.start(rpc("pi"), cwd=around.cwd, env=around.env, **options) as client:
            yield client


def test_it_asks_streams_and_runs_tools(tmp_path: Path) -> None:
    turns = [says("Hello."), calls(("stock", {"item": "lamp"})), says("Three lamps.")]
    with fairlead(tmp_path / "a", *turns) as client:
        assert client.get_state().message_count == 0
        assert client.ask("Hi").text == "Hello."

        @client.tool
        def stock(item: str, call: HostCall) -> str:
            """How many there are."""
            call.progress("counting")
            return f"3 of {item}, {client.get_state().message_count} messages"

        pieces: list[str] = []
        with client.run("How many lamps?") as run:
            for event in run:
                match event:
                    case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=delta)):
                        pieces.append(delta)
                    case _:
                        pass
        assert "".join(pieces) == run.result().text == "Three lamps."
        assert "3 of lamp" in str(run.result().messages)
        assert stock
        with client.run("Again?") as run:
            assert "".join(run.text()) == "Three lamps."


def test_errors_are_those_of_the_async_client(tmp_path: Path) -> None:
    with fairlead(tmp_path / "a") as client:
        with pytest.raises(CommandRefused, match="Model not found"):
            client.set_model("nope", "x")
        with pytest.raises(NoAnswer):
            client.bash("sleep 60", timeout=0.05)
        with pytest.raises(CommandRefused, match="Unknown command"):
            client.request("dance")
    with pytest.raises(ClientError, match="not running"):
        client.get_state()
    with pytest.raises(AgentGone, match="cannot start"), SyncClient.start(["no-such-agent"]):
        pass


def test_a_run_can_be_aborted_from_another_thread(tmp_path: Path) -> None:
    with fairlead(tmp_path / "a", ENDLESS) as client:
        stream = client.events()
        run = client.prompt("Go on.")
        for event in stream:
            if isinstance(event, events.MessageUpdate):
                break
        threading.Thread(target=client.abort).start()
        assert run.wait(PATIENCE).aborted
        stream.close()


def test_a_reader_that_is_full_can_still_ask(tmp_path: Path) -> None:
    code = """
for command in commands():
    for number in range(3000): say(type="unheard_of", number=number)
    answer(command, data={"tools": []})
"""
    with SyncClient.start(program(tmp_path, code)) as client:
        stream = client.events()
        for _ in range(3):
            assert client.get_tools(timeout=PATIENCE).tools == []
        assert [next(stream).raw["number"] for _ in range(9000)] == [*range(3000)] * 3


def test_using_the_blocking_client_in_a_coroutine_raises(tmp_path: Path) -> None:
    with fairlead(tmp_path / "a", calls(("bad", {})), says("ok")) as client:

        @client.tool
        async def bad() -> str:
            """Use the client wrongly."""
            return str(client.get_state())

        assert "Make it a plain function" in str(client.ask("Go").messages)
        assert bad


def test_the_iteration_ends_when_the_agent_does(tmp_path: Path) -> None:
    with SyncClient.start(program(tmp_path, "say(type='turn_start')\nsys.exit(3)\n")) as client:
        stream = client.events()
        with pytest.raises(AgentGone, match="exit code 3"):
            for _ in stream:
                pass
