"""The client for servers of Opal, for programs that block."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.client.fake_agent import PATIENCE
from tests.support.stage import ENDLESS, Turn, says
from tests.support.surroundings import FAIRLEAD, surroundings

from fairlead.client.opal import Confirm, OpalClient, SyncOpalClient, events
from fairlead.errors import AgentGone, CommandRefused, RunFailed
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.testing import ProviderServer


@contextmanager
def server(root: Path, *turns: Turn, flags: Sequence[str] = ()) -> Generator[SyncOpalClient]:
    with ProviderServer(turns or [{"text": "ok"}]) as provider:
        around = surroundings(root, provider.url)
        argv = [FAIRLEAD, "--mode", "opal", "--model", "fake/fake-1", *flags]
        with SyncOpalClient.start(argv, cwd=around.cwd, env=around.env) as client:
            yield client


def test_it_has_the_methods_of_the_async_client() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(OpalClient) - public(SyncOpalClient) == {"exit_code", "pid"}
    assert public(SyncOpalClient) - public(OpalClient) == {"do"}
    names = [name.replace("/", "_") for name in METHODS]
    assert [name for name in names if not inspect.isfunction(getattr(SyncOpalClient, name, None))] == []


def test_it_asks_streams_and_decides(tmp_path: Path) -> None:
    shell: Turn = {"toolCalls": [{"name": "shell", "arguments": {"command": "touch made"}}]}
    with server(tmp_path / "a", says("Hello."), shell, says("Denied."), flags=["--approval", "ask"]) as client:
        asked: list[Confirm] = []

        @client.on_confirm
        def decide(request: Confirm) -> str:
            asked.append(request)
            assert client.agent_state(session).status  # a plain function may use the client
            return "deny"

        session = client.session_start().session_id
        stream = client.events()
        assert client.ask(session, "Hi").text == "Hello."
        pieces: list[str] = []
        for event in stream:
            match event:
                case events.MessageDelta(delta=delta):
                    pieces.append(delta)
                case events.AgentEnd():
                    break
                case _:
                    pass
        stream.close()
        assert "".join(pieces) == "Hello."
        assert client.ask(session, "Make it.").text == "Denied."
        assert len(asked) == 1
        assert decide
    assert not (tmp_path / "a" / "made").exists()


def test_failures_aborts_and_the_end(tmp_path: Path) -> None:
    with server(tmp_path / "a", {"status": 400, "error": "bad request"}, ENDLESS) as client:
        with pytest.raises(CommandRefused, match="Method not found: dance"):
            client.request("dance")
        session = client.session_start().session_id
        with pytest.raises(RunFailed, match="bad request"):
            client.ask(session, "Hi")
        run = client.prompt(session, "Go on.")
        assert not run.done
        client.agent_abort(session)
        assert run.wait(PATIENCE).aborted
        run = client.prompt(session, "Go on.")
        assert client.stop() == 0
    with pytest.raises(AgentGone), SyncOpalClient.start(["/nowhere/agent"]):
        pass
