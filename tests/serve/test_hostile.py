"""Clients that try to get in, to get out of their bounds, to see what others do, or to use up the server."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.serve.scene import PATIENCE
from tests.serve.web import TOKEN, Web, until_message, web
from websockets.exceptions import InvalidStatus

from fairlead.serve import connections, http_api
from fairlead.serve.access import (
    CODE_SECONDS,
    FAILURE_SECONDS,
    FAILURES_OF_ONE,
    OWNER,
    Access,
    FailureLimit,
    digest,
)

TOKENS = {"ann": "a" * 40, "bob": "b" * 40}


async def send(at: Web, *pieces: bytes) -> bytes:
    """Send bytes, in pieces that arrive one after another, and return what the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    async with asyncio.timeout(PATIENCE):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


# Getting in


async def test_secrets_in_an_address_are_not_accepted(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        code = at.access.new_code(OWNER)
        at.token = None
        for name in ("token", "access_token", "code", "authorization", "key"):
            for secret in (TOKEN, code):
                assert (await at.call("GET", f"/v1/sessions?{name}={secret}")).status == 401
                shown = await at.call("GET", f"/login?{name}={secret}")
                assert "set-cookie" not in shown.headers and secret not in shown.body.decode()
        basic = {"Authorization": f"Basic {TOKEN}"}
        assert (await at.call("GET", f"http://{TOKEN}@127.0.0.1:{at.port}/v1/sessions", headers=basic)).status in (400, 401, 404)


async def test_a_login_code_that_many_use_at_once_lets_one_in(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        code = at.access.new_code(OWNER)
        at.token = None
        tries = [at.call("POST", "/login", {"code": code}) for _ in range(9)]
        assert sorted(reply.status for reply in await asyncio.gather(*tries)) == [204, *[401] * 8]


def test_a_login_code_expires_to_the_second() -> None:
    now = [0.0]
    access = Access({OWNER: digest(TOKEN)}, lambda: now[0])
    early, late = access.new_code(OWNER), access.new_code(OWNER)
    now[0] = CODE_SECONDS - 0.001
    assert access.log_in(early) is not None
    now[0] = CODE_SECONDS
    assert access.log_in(late) is None


async def test_headers_of_proxies_do_not_hide_who_fails(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        at.token = "wrong"
        for number in range(FAILURES_OF_ONE):
            forged = {"X-Forwarded-For": f"10.0.0.{number}", "X-Real-IP": f"10.1.0.{number}", "Forwarded": f"for=10.2.0.{number}"}
            assert (await at.call("GET", "/v1/sessions", headers=forged)).status == 401
        assert (await at.call("GET", "/v1/sessions", headers={"X-Forwarded-For": "10.9.9.9"})).status == 429


def test_addresses_of_one_network_count_as_one() -> None:
    limit = FailureLimit(lambda: 0.0)
    for number in range(FAILURES_OF_ONE):
        limit.count_failure(f"2001:db8:1:2:{number}::1")
    assert limit.wait("2001:db8:1:2:ffff::9%eth0") > 0
    assert limit.wait("2001:db8:1:3::1") == 0
    for number in range(FAILURES_OF_ONE):
        limit.count_failure("::ffff:192.0.2.7" if number % 2 else "192.0.2.7")
    assert limit.wait("192.0.2.7") > 0


def test_addresses_whose_failures_no_longer_count_are_forgotten() -> None:
    now = [0.0]
    limit = FailureLimit(lambda: now[0])
    for number in range(200):
        limit.count_failure(f"198.51.{number}.1")
        now[0] += 1
    assert len(limit) == FAILURE_SECONDS
    for _ in range(FAILURES_OF_ONE):
        limit.count_failure("198.51.199.1")
    assert limit.wait("198.51.199.1") > 0


# Getting out


async def test_files_and_directories_outside_the_root_are_out_of_reach(tmp_path: Path) -> None:
    root, outside = tmp_path / "project" / "inside", tmp_path / "outside"
    root.mkdir(parents=True)
    outside.mkdir()
    elsewhere = outside / "2026-01-01T00-00-00-000Z_11111111-1111-4111-8111-111111111111.jsonl"
    header = {
        "type": "session",
        "version": 3,
        "id": "11111111-1111-4111-8111-111111111111",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(outside),
    }
    elsewhere.write_text(json.dumps(header) + "\n")
    async with web(tmp_path, root=root, agent={"cwd": root}) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            await stream.until("prompt_result")
        [saved] = (tmp_path / "home").rglob("*.jsonl")
        (saved.parent / elsewhere.name).symlink_to(elsewhere)
        assert (await at.call("GET", f"/v1/sessions/{header['id']}")).code in ("outside_root", "session_not_found")
        assert (await at.call("DELETE", f"/v1/sessions/{header['id']}")).status in (403, 404)
        assert elsewhere.exists()
        for name in ("..", "%2e%2e", "..%2f..%2foutside", str(elsewhere).replace("/", "%2f"), "%00", "a" * 5000):
            assert (await at.call("GET", f"/v1/sessions/{name}")).status in (400, 403, 404), name
        for door in ("acp", "ws?dialect=pi"):
            await _try_to_leave(at, door, outside, elsewhere)


async def _try_to_leave(at: Web, door: str, outside: Path, file: Path) -> None:
    async with at.socket(f"/{door}") as socket:
        if door == "acp":
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
            await socket.send(json.dumps(first))
            await until_message(socket, id=0)
            folders = {"cwd": str(at.project / "inside"), "additionalDirectories": [str(outside)], "mcpServers": []}
            tries: list[Any] = [
                {"method": "session/new", "params": folders},
                {"method": "session/load", "params": {**folders, "additionalDirectories": [], "sessionId": file.stem[-36:]}},
            ]
            for number, each in enumerate(tries, 1):
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": number, **each}))
                assert "error" in await until_message(socket, id=number), each
            return
        await socket.send(json.dumps({"id": "1", "type": "switch_session", "sessionPath": str(file)}))
        await until_message(socket, id="1", type="response")
        await socket.send(json.dumps({"id": "2", "type": "bash", "command": "pwd"}))
        answer = await until_message(socket, id="2", type="response")
        assert str(outside) not in answer["data"]["output"]
        inside = at.project
        (inside / "folder").symlink_to(outside)
        (inside / "page.html").symlink_to(outside / "page.html")
        for target in (str(outside / "x.html"), "../../outside/x.html", "folder/x.html", "page.html"):
            await socket.send(json.dumps({"id": target, "type": "export_html", "outputPath": target}))
            answer = await until_message(socket, id=target, type="response")
            assert not answer["success"] and "outside" in answer["error"], target
        assert list(outside.iterdir()) == [file]
        await socket.send(json.dumps({"id": "3", "type": "export_html", "outputPath": "own.html"}))
        assert (await until_message(socket, id="3", type="response"))["success"]
        assert (inside / "own.html").exists()


# Seeing what others do


async def test_users_learn_nothing_about_others(tmp_path: Path) -> None:
    ask: list[Any] = [
        {"toolCalls": [{"name": "write", "arguments": {"path": "secret-file.txt", "content": "x"}}]},
        {"text": "ok"},
    ]
    async with web(tmp_path, ask, tokens=TOKENS, agent={"approval": "ask"}) as at:
        at.token = TOKENS["ann"]
        path = await at.session(name="Secret")
        await at.call("POST", f"{path}/prompt", {"text": "private words"})
        async with await at.open("GET", f"{path}/events?after=0") as stream:
            await stream.until("question")
            [question] = (await at.call("GET", path)).json["questions"]
            at.token = TOKENS["bob"]
            answer = {"decision": "allow"}
            assert (await at.call("POST", f"{path}/questions/{question['id']}", answer)).code == "session_not_found"
            own = await at.session()
            assert (await at.call("POST", f"{own}/questions/{question['id']}", answer)).code == "question_closed"
            for method, more, body in (("GET", "/tree", None), ("POST", "/move", {"entryId": None}), ("DELETE", "/queue", None)):
                assert (await at.call(method, path + more, body)).code == "session_not_found"
            with pytest.raises(InvalidStatus):
                async with at.socket(f"{path}/events"):
                    pass
            metrics = (await at.call("GET", "/metrics")).body.decode()
            assert "fairlead_sessions_open 1\n" in metrics and "fairlead_questions_open 0\n" in metrics
            assert "responses" not in metrics and "failed_logins" not in metrics
            everything = [(await at.call("GET", each)).body for each in ("/v1/models", "/v1/sessions", own, "/metrics")]
            for secret in (b"no-key", b"private words", b"Secret", b"secret-file", TOKENS["ann"].encode()):
                assert not any(secret in each for each in everything), secret
            at.token = TOKENS["ann"]
            assert len((await at.call("GET", path)).json["questions"]) == 1, "it is still open"


async def test_cookies_of_other_sites_and_users_do_not_mix(tmp_path: Path) -> None:
    async with web(tmp_path, tokens=TOKENS) as at:
        at.token = None
        entered = await at.call("POST", "/login", {"code": TOKENS["ann"]})
        cookie = entered.headers["set-cookie"].partition(";")[0]
        name, _, value = cookie.partition("=")
        for wrong in (f"{name}=", f"other={value}", f"{name}x={value}", f'{name}="{value}', f"{name}={value}x"):
            assert (await at.call("GET", "/v1/sessions", headers={"Cookie": wrong})).status == 401, wrong
        for site in ("cross-site", "same-site"):
            headers: dict[str, str] = {"Cookie": cookie, "Sec-Fetch-Site": site}
            assert (await at.call("GET", "/v1/sessions", headers=headers)).status == 403
            headers["Sec-Fetch-Mode"] = "navigate"
            assert (await at.call("POST", "/v1/sessions", {}, headers=headers)).status == 403
        assert (await at.call("GET", "/v1/sessions", headers={"Cookie": cookie})).status == 200


# Using it up


async def test_a_slow_head_is_cut_off_and_so_is_a_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    async with web(tmp_path) as at:
        assert await send(at, b"") == b""
        assert await send(at, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ") == b""
        first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answered = await send(at, first + b"GET /healthz HTTP/1.1\r\nX: ")
        assert answered.count(b"HTTP/1.1 200") == 1


async def test_a_slow_body_of_a_login_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "BODY_SECONDS", 0.2)
    async with web(tmp_path) as at:
        head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        assert (await send(at, head)).startswith(b"HTTP/1.1 408")


async def test_a_head_that_is_too_long_is_refused_however_it_arrives(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n"
    async with web(tmp_path) as at:
        for size in (connections.HEAD_BYTES, 100_000, 200_000, 2_000_000):
            for more in (
                b"X: " + b"x" * size,
                b"X: y\r\n" * (size // 6 + 1),
                b"X: " + b" " * size + b"y",
                upgrade + b"X: " + b"x" * size,
            ):
                head = start + more + b"\r\n\r\n"
                assert (await send(at, head)).startswith(b"HTTP/1.1 431 "), (size, more[:90])
                assert (await send(at, start + b"\r\n" + head)).count(b"HTTP/1.1 431 ") == 1, "as the second request"
                assert (await send(at, b"HEAD" + head[3:])).startswith(b"HTTP/1.1 431 "), "without a body"
                for cut in (len(head) // 2, len(head) - 1):
                    assert (await send(at, head[:cut], head[cut:])).startswith(b"HTTP/1.1 431 "), "in pieces"
        shorter = b"Connection: close\r\nX: " + b"x" * (connections.HEAD_BYTES - 100) + b"\r\n\r\n"
        assert (await send(at, start + shorter)).startswith(b"HTTP/1.1 200 ")
        for cut in (10, len(start), 60_000):
            assert (await send(at, (start + shorter)[:cut], (start + shorter)[cut:])).startswith(b"HTTP/1.1 200 ")
        assert [each.message for each in caplog.records if each.levelno > logging.WARNING] == []


async def test_a_client_that_sends_a_head_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FAREWELL_SECONDS", 0.1)
    async with web(tmp_path) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 20_000)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
            with pytest.raises(ConnectionError):
                while True:
                    writer.write(b"X: y\r\n" * 10_000)
                    await writer.drain()
        writer.close()


async def test_all_kinds_of_connections_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MORE_CONNECTIONS", 3)
    async with web(tmp_path, connections=3) as at:
        path = await at.session()
        paths = (await at.call("GET", "/openapi.json")).json["paths"]
        assert all("503" in each["responses"] for methods in paths.values() for each in methods.values())
        async with at.socket(f"{path}/events"), at.socket(f"{path}/events"), at.socket(f"{path}/events"):
            reply = await at.call("GET", "/healthz", headers={"Connection": "keep-alive"})  # the answer ends nevertheless
            assert (reply.status, reply.code, reply.headers["connection"]) == (503, "too_many_connections", "close")
            assert int(reply.headers["retry-after"]) > 0
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket(f"{path}/events"):
                    pass
            assert refused.value.response.status_code == 503
            assert json.loads(refused.value.response.body)["error"]["code"] == "too_many_connections"
            idle = [await asyncio.open_connection("127.0.0.1", at.port) for _ in range(8)]
            async with asyncio.timeout(PATIENCE):
                ended = [asyncio.create_task(reader.read()) for reader, _ in idle]
                await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            for task, (_, writer) in zip(ended, idle, strict=True):
                task.cancel()
                writer.close()
        async with asyncio.timeout(PATIENCE):
            while (await at.call("GET", "/healthz")).status != 200:
                pass


@pytest.mark.parametrize(
    "data", [b"GARBAGE\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"]
)
async def test_malformed_http_is_refused_with_the_usual_error_body(tmp_path: Path, data: bytes) -> None:
    async with web(tmp_path) as at:
        head, _, body = (await send(at, data)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ") and b"content-type: application/json" in head
        assert json.loads(body)["error"]["code"] == "bad_request"
