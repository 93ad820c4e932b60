"""Aborts of a request over HTTP, at every moment of it."""

from __future__ import annotations

import asyncio

import pytest
from tests.models.posting import OK, fetch, post
from tests.models.raw_server import answering, raw_server, saying_nothing
from tests.support.connections import count_idle

from fairlead.core.runtime import CancelToken
from fairlead.models.http.http_client import Http, RequestAborted
from fairlead.testing import ProviderServer


async def test_nothing_is_sent_after_an_abort() -> None:
    async with raw_server(saying_nothing()) as server:
        cancel = CancelToken()
        cancel.fire()
        with pytest.raises(RequestAborted):
            await fetch(Http(env={}), server.url, cancel=cancel)
        assert server.connections == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("size", [2, 32 << 20], ids=["waiting for the head", "sending"])
async def test_an_abort_ends_connecting_sending_and_waiting_at_once(scheme: str, size: int) -> None:
    # A server that says nothing holds up https in the handshake, http after the request.
    async with raw_server(saying_nothing()) as server:
        cancel = CancelToken()
        url = server.url.replace("http", scheme)
        request = asyncio.create_task(fetch(Http(env={}), url, b"x" * size, cancel))
        await server.connected.wait()
        cancel.fire()
        with pytest.raises(RequestAborted):
            await asyncio.wait_for(request, 5)
        await asyncio.wait_for(server.left.wait(), 5)


async def test_an_abort_ends_reading_at_once() -> None:
    async with ProviderServer([{"text": "x" * 1000, "hangAfter": 2}]) as server:
        cancel = CancelToken()
        http = Http(env={})
        with pytest.raises(RequestAborted):
            async with http.stream(post(f"{server.url}/messages"), cancel) as response:
                async for _ in response.chunks():
                    asyncio.get_running_loop().call_soon(cancel.fire)
        await asyncio.wait_for(server.until(lambda server: server.disconnections == 1), 5)
        assert count_idle(http) == 0


async def test_nothing_is_read_after_an_abort() -> None:
    async with raw_server(answering(OK)) as server:
        cancel = CancelToken()
        with pytest.raises(RequestAborted):
            async with Http(env={}).stream(post(server.url), cancel) as response:
                cancel.fire()
                await response.read()


async def test_a_cancelled_task_closes_its_connection() -> None:
    async with ProviderServer([{"text": "x", "hangAfter": 1}]) as server:
        request = asyncio.create_task(fetch(Http(env={}), f"{server.url}/messages"))
        await server.until(lambda server: len(server.requests) == 1)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await asyncio.wait_for(server.until(lambda server: server.disconnections == 1), 5)


async def test_an_abort_after_the_answer_leaves_the_connection_alone() -> None:
    async with ProviderServer([{"text": "x"}]) as server:
        http, cancel = Http(env={}), CancelToken()
        await fetch(http, f"{server.url}/messages", cancel=cancel)
        cancel.fire()
        await fetch(http, f"{server.url}/messages")
        assert server.connections == 1
        await http.close()
