"""Agents of one event loop share what can be shared, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

from tests.models.raw_server import until
from tests.support.connections import count_idle

from fairlead import Agent
from fairlead.models.http.pool import get_shared_tls, join_pool
from fairlead.testing import ProviderServer


def an_agent(server: ProviderServer, cwd: Path, key: str = "k", **env: str) -> Agent:
    env = {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": server.url, **env}
    return Agent(model="anthropic/claude-opus-5-5", env=env, cwd=cwd, isolated=True)


def answers(count: int) -> list[dict[str, Any]]:
    return [{"text": f"answer {n}"} for n in range(count)]


async def ask(agent: Agent) -> None:
    """Ask, and wait until the connection is free again: the end of a response may arrive after the answer."""
    await agent.ask("hi")
    await until(lambda: count_idle(agent._http) > 0)  # pyright: ignore[reportPrivateUsage]


async def test_agents_share_connections_until_the_last_one_closes(tmp_path: Path) -> None:
    async with ProviderServer(answers(3)) as server, asyncio.timeout(20):
        first, second = an_agent(server, tmp_path), an_agent(server, tmp_path, key="other")
        await ask(first)
        await ask(second)
        assert server.connections == 1
        assert [request.headers["x-api-key"] for request in server.requests] == ["k", "other"]
        await first.close()
        await ask(second)
        assert (server.connections, server.disconnections) == (1, 0)
        await second.close()
        await server.until(lambda server: server.disconnections == 1)


async def test_agents_that_trust_other_certificates_share_no_connection(tmp_path: Path) -> None:
    async with (
        ProviderServer(answers(2)) as server,
        an_agent(server, tmp_path) as first,
        an_agent(server, tmp_path, SSL_CERT_DIR=str(tmp_path)) as second,
        asyncio.timeout(20),
    ):
        await ask(first)
        await ask(second)
        assert server.connections == 2


def test_an_agent_that_moves_to_another_loop_opens_new_connections_there(tmp_path: Path) -> None:
    with ProviderServer(answers(3)) as server:
        agent = an_agent(server, tmp_path)

        async def ask_and_close() -> None:
            await ask(agent)
            await ask(agent)
            await agent.close()

        with asyncio.Runner() as one, asyncio.Runner() as other:
            one.run(ask(agent))
            other.run(ask_and_close())
            assert server.connections == 2
            one.run(agent.close())


def test_keys_and_providers_are_not_shared(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    one = Agent(model="anthropic/claude-opus-5-5", api_key="a", env=env, cwd=tmp_path, isolated=True)
    two = Agent(model="openai/gpt-6.1-sol", api_key="a", env=env, cwd=tmp_path, isolated=True)
    three = Agent(model="openai/gpt-6.1-sol", env=env, cwd=tmp_path, isolated=True)
    usable = [{model.provider for model in agent.registry.available()} for agent in (one, two, three)]
    assert usable == [{"anthropic"}, {"openai"}, set()]
    assert one.registry.find("openai", "gpt-6.1-sol") is three.registry.find("openai", "gpt-6.1-sol"), "the catalogue is shared"


async def test_shared_resources_are_closed_with_their_last_user() -> None:
    class User:
        pass

    tls, user = get_shared_tls({}), User()
    assert get_shared_tls({"SSL_CERT_FILE": ""}) is tls and get_shared_tls({"SSL_CERT_FILE": "/a"}) is not tls
    pool = weakref.ref(join_pool(user, tls))
    gc.collect()
    assert pool() is None
    held = join_pool(user, tls)
    assert join_pool(User(), tls) is held
    await held.leave(user)
