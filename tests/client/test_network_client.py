"""The typed clients over a WebSocket to a real server: what works over pipes works here, and errors say what is wrong."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.client.server_process import PATIENCE, CuttingProxy, certified, server_process

from fairlead.client import Client, ServerClient, SyncClient
from fairlead.client.opal import OpalClient, SyncOpalClient
from fairlead.errors import AgentGone, ClientError, CommandRefused
from fairlead.testing import ProviderServer
from fairlead.testing.agents import agent_command


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
async def test_the_client_works_over_the_network(tmp_path: Path, dialect: str) -> None:
    long = "é" * 70_000  # longer than the short forms of a frame's length
    async with (
        ProviderServer([{"text": "Hello"}, {"text": long, "chunk": 20_000}]) as provider,
        asyncio.timeout(PATIENCE),
        server_process(agent_command(tmp_path, provider.url)) as server,
        Client.connect(server.url, token=server.token, dialect=dialect) as client,
    ):
        assert (await client.ask("hi")).text == "Hello"
        assert (await client.ask("x" * 70_000)).text == long
        assert "x" * 70_000 in str(provider.requests[-1].body)


async def test_tools_and_directories_work_over_the_network(tmp_path: Path) -> None:
    turns = [{"toolCalls": [{"name": "stock", "arguments": {"item": "lamp"}}]}, {"text": "Three."}]
    async with ProviderServer(turns) as provider, server_process(agent_command(tmp_path, provider.url)) as server:
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        async with Client.connect(server.url, token=server.token, cwd=str(folder)) as client:

            @client.tool
            def stock(item: str) -> str:
                """How many there are."""
                return f"3 of {item}"

            result = await client.ask("How many?")
            assert "3 of lamp" in str(result.messages)
            assert str(folder) in str(provider.requests[0].body)
        with pytest.raises(CommandRefused, match="missing"):
            async with Client.connect(server.url, token=server.token, cwd=str(tmp_path / "missing")):
                pass


async def test_opal_and_the_blocking_clients_work_over_the_network(tmp_path: Path) -> None:
    async with ProviderServer([{"text": "Hello"}]) as provider, server_process(agent_command(tmp_path, provider.url)) as server:
        async with OpalClient.connect(server.url, token=server.token) as client:
            session = await client.session_start()
            assert (await client.ask(session.session_id, "hi")).text == "Hello"

        def block() -> None:
            with SyncClient.connect(server.url, token=server.token) as client:
                assert client.ask("hi").text == "Hello"
            with SyncOpalClient.connect(server.url, token=server.token) as opal:
                assert opal.ask(opal.session_start().session_id, "hi").text == "Hello"

        await asyncio.to_thread(block)


async def test_a_lost_connection_fails_what_waits_for_it(tmp_path: Path) -> None:
    async with (
        ProviderServer([{"text": "never " * 50, "holdAfter": 2}]) as provider,
        asyncio.timeout(PATIENCE),
        server_process(agent_command(tmp_path, provider.url)) as server,
        CuttingProxy(server.port, lambda: None) as proxy,
    ):
        url = server.url.replace(str(server.port), str(proxy.port))
        async with Client.connect(url, token=server.token) as client:
            run = await client.prompt("hi")
            proxy.cut_all()
            with pytest.raises(AgentGone, match=r"broke|reset"):
                await run
        async with Client.connect(url, token=server.token) as client:
            run = await client.prompt("hi")
            ending = asyncio.create_task(server.end(signal.SIGTERM))
            try:  # the server aborts the run, and may say so before it leaves
                assert (await run).aborted
            except AgentGone as error:
                assert "1001" in str(error)
            await ending


Way = Callable[[str, str], Coroutine[Any, Any, object]]


async def over_a_websocket(url: str, token: str) -> None:
    async with Client.connect(url, token=token, timeout=5):
        pass


async def over_http(url: str, token: str) -> None:
    await ServerClient(url, token=token, timeout=5).list_sessions()


@pytest.mark.parametrize("way", [over_a_websocket, over_http])
async def test_errors_say_what_is_wrong(tmp_path: Path, way: Way) -> None:
    async with ProviderServer([{"text": "Hello"}]) as provider, server_process(agent_command(tmp_path, provider.url)) as server:
        with pytest.raises(CommandRefused, match="token is not valid") as refused:
            await way(server.url, "wrong-token")
        assert refused.value.code == "wrong_token"
        assert "wrong-token" not in str(refused.value)
        with pytest.raises(AgentGone, match="does not speak TLS"):
            await way(server.url.replace("http:", "https:"), server.token)
        with pytest.raises(AgentGone, match="not the address of a fairlead server"):
            await way(provider.url, server.token)
        await server.end()
        with pytest.raises(AgentGone, match="cannot be reached"):
            await way(server.url, server.token)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://example.com:8787", "unencrypted"),
        ("https://user:secret@example.com", "must not have a user"),
        ("https://example.com/?token=secret", "must not have a user"),
        ("ftp://example.com", "Expected an address"),
        ("https://example.com:port", "malformed"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused(url: str, problem: str) -> None:
    for make in (Client.connect, OpalClient.connect, ServerClient):
        with pytest.raises(ClientError, match=problem) as refused:
            make(url, token="a-token")
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "two words", "line\r\nX-Header: 1", "é"])
def test_tokens_that_cannot_be_sent_are_refused(token: str) -> None:
    with pytest.raises(ClientError, match="token"):
        ServerClient("https://example.com", token=token)


async def test_certificates_are_verified(tmp_path: Path) -> None:
    trusting, flags = certified(tmp_path)
    async with (
        ProviderServer([{"text": "Hello"}]) as provider,
        asyncio.timeout(PATIENCE),
        server_process(agent_command(tmp_path, provider.url), *flags) as server,
    ):
        assert server.url.startswith("https:")
        async with Client.connect(server.url, token=server.token, tls=trusting) as client:
            assert (await client.ask("hi")).text == "Hello"
        sessions = ServerClient(server.url, token=server.token, tls=trusting)
        made = await sessions.create_session()
        assert made.id in [each.id for each in (await sessions.list_sessions()).sessions]
        for way in (over_a_websocket, over_http):
            with pytest.raises(AgentGone, match=r"certificate .* cannot be trusted"):
                await way(server.url, server.token)
            with pytest.raises(AgentGone, match=r"not the address|broke"):
                await way(server.url.replace("https:", "http:"), server.token)
        stranger, _ = certified(tmp_path)
        with pytest.raises(AgentGone, match="cannot be trusted"):
            await ServerClient(server.url, token=server.token, tls=stranger).list_sessions()
