"""Clients without a login try to keep out those with one: with connections, slow requests and wrong tokens."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.serve.scene import PATIENCE
from tests.serve.test_serve_command import Process, served
from tests.serve.web import web
from websockets.asyncio.client import connect

from fairlead.serve import access
from fairlead.serve.connections import Crowd, anonymous_beside
from fairlead.testing.agents import agent_command

Open = tuple[asyncio.StreamReader, asyncio.StreamWriter]

#: What a connection without a login may send: nothing, parts of a head, whole requests, and bodies that never end.
KINDS: tuple[bytes, ...] = (
    b"",
    b"G",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{",
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
)


@asynccontextmanager
async def crowd(port: int, count: int, kinds: Sequence[bytes] = KINDS) -> AsyncGenerator[list[Open]]:
    """Open connections without a login, and keep them open."""
    opened: list[Open] = []
    try:
        for start in range(0, count, 100):
            some = [asyncio.open_connection("127.0.0.1", port) for _ in range(min(100, count - start))]
            opened += await asyncio.gather(*some)
            for number, (_, writer) in enumerate(opened[start:], start):
                writer.write(kinds[number % len(kinds)])
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


async def use(server: Process) -> None:
    """Do what an owner does, on new connections: requests, an event stream and a WebSocket."""
    port = int(server.url.rpartition(":")[2])
    token = (server.home / "serve.token").read_text().strip()
    status, session, _ = await server.call("POST", "/v1/sessions", {})
    assert status == 201
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /v1/sessions/{session['id']}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    async with connect(f"ws://127.0.0.1:{port}/ws?dialect=pi", additional_headers={"Authorization": f"Bearer {token}"}) as host:
        await host.send('{"type": "get_state", "id": "1"}')
        assert '"success":true' in str(await host.recv())
    writer.close()


def raise_limit(wanted: int) -> int:
    """Let this process and its children open files. Returns how many they may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


async def test_thousands_of_connections_do_not_keep_the_owner_out(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(2500, raise_limit(4000) - 500)
    flags = () if count == 2500 else ("--max-connections", "50")
    try:
        async with (
            served(agent_command(tmp_path, "http://127.0.0.1:9"), *flags) as server,
            crowd(int(server.url.rpartition(":")[2]), count),
            asyncio.timeout(PATIENCE * 4),
        ):
            for _ in range(5):
                await use(server)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("kind", range(len(KINDS)))
async def test_no_kind_of_connection_without_a_login_keeps_the_owner_out(tmp_path: Path, kind: int) -> None:
    async with served(agent_command(tmp_path, "http://127.0.0.1:9"), "--max-connections", "20") as server:
        port = int(server.url.rpartition(":")[2])
        async with crowd(port, anonymous_beside(20) * 2, KINDS[kind : kind + 1]), asyncio.timeout(PATIENCE * 2):
            await use(server)


async def test_connections_with_a_login_stay_when_a_crowd_comes(tmp_path: Path) -> None:
    async with web(tmp_path, connections=10) as at:
        path = await at.session()
        async with at.socket(f"{path}/events") as events, await at.open("GET", f"{path}/events") as stream:
            assert stream.status == 200
            async with crowd(at.port, 300):
                assert (await at.call("POST", f"{path}/abort")).status == 200
                pong = await events.ping()
                async with asyncio.timeout(PATIENCE):
                    await pong
            assert not stream.writer.is_closing()


async def test_connections_with_a_login_are_limited_alone(tmp_path: Path) -> None:
    async with web(tmp_path, connections=2) as at:
        path = await at.session()
        async with at.socket(f"{path}/events"), at.socket(f"{path}/events"):
            assert (await at.call("GET", path)).status == 503
        async with asyncio.timeout(PATIENCE):
            while (await at.call("GET", path)).status != 200:
                pass


async def test_the_right_token_works_whatever_others_have_tried_from_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "HELD_UP_SECONDS", 0.01)
    async with web(tmp_path) as at:
        path = await at.session()
        wrong = {"Authorization": "Bearer wrong"}
        replies = [await at.call("GET", "/v1/sessions", headers=wrong) for _ in range(250)]
        assert {reply.status for reply in replies} == {401, 429}
        assert (await at.call("GET", path)).status == 200
        async with at.socket(f"{path}/events"):
            pass
        assert (await at.call("POST", "/login", {"code": "wrong"}, headers={"Authorization": ""})).status == 429
        code = at.access.new_code("owner")
        assert (await at.call("POST", "/login", {"code": code}, headers={"Authorization": ""})).status == 204
        assert (await at.call("POST", "/login", {"code": at.token}, headers={"Authorization": ""})).status == 204


async def test_few_answers_to_wrong_tokens_are_held_up_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "HELD_UP_SECONDS", 3600.0)
    monkeypatch.setattr(access, "MOST_HELD_UP", 3)
    async with web(tmp_path) as at:
        tries = [
            asyncio.create_task(at.call("GET", "/v1/sessions", headers={"Authorization": "Bearer wrong"})) for _ in range(40)
        ]
        done: set[asyncio.Task[Any]] = set()
        async with asyncio.timeout(PATIENCE):
            while len(done) < 37:
                done, _ = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)
                done = {task for task in tries if task.done()}
        assert (await at.call("GET", "/v1/sessions")).status == 200
        for task in tries:
            task.cancel()
        await asyncio.gather(*tries, return_exceptions=True)


class Transport(asyncio.Transport):
    """A transport that only knows whether it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False


def fill(crowd: Crowd, address: str, count: int) -> list[Transport]:
    made = [Transport() for _ in range(count)]
    for each in made:
        crowd.add(each, address)
    return made


def test_the_address_with_the_most_connections_loses_the_one_that_has_waited_longest() -> None:
    crowd = Crowd(100)
    crowd.anonymous = 10
    others = [each for number in range(6) for each in fill(crowd, f"192.0.2.{number}", 1)]
    many = fill(crowd, "198.51.100.1", 4)
    crowd.mark_asked(many[0])
    (new,) = fill(crowd, "203.0.113.1", 1)
    assert new.is_open and all(each.is_open for each in others)
    assert [each.is_open for each in many] == [True, False, True, True], "the first one has sent a request"


def test_one_address_gets_half_of_the_room_and_a_network_counts_as_one() -> None:
    crowd = Crowd(100)
    crowd.anonymous = 10
    made = [each for number in range(20) for each in fill(crowd, f"2001:db8::{number:x}", 1)]
    assert [each.is_open for each in made] == [False] * 15 + [True] * 5


def test_connections_that_have_logged_in_or_are_closed_do_not_count() -> None:
    crowd = Crowd(2)
    crowd.anonymous = 4
    first, second, third = fill(crowd, "192.0.2.1", 1) + fill(crowd, "192.0.2.2", 2)
    crowd.mark_logged_in(first)
    crowd.mark_logged_in(second)
    assert crowd.is_full and crowd.admits(first) and not crowd.admits(third)
    crowd.remove(first)
    assert crowd.admits(third) and not crowd.is_full
    assert all(each.is_open for each in (first, second, third))
    fill(crowd, "192.0.2.3", 50)
    assert second.is_open
