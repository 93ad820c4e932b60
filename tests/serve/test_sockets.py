"""Hosts over WebSockets get the protocols of standard input and output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.serve.web import next_message, until_message, web
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus


async def request(socket: ClientConnection, **fields: Any) -> Any:
    await socket.send(json.dumps(fields))
    return await until_message(socket, type="response", command=fields["type"])


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
async def test_a_host_of_the_pi_family_works_over_a_websocket(tmp_path: Path, dialect: str) -> None:
    async with web(tmp_path, [{"text": "Hello"}]) as at, at.socket(f"/ws?dialect={dialect}") as socket:
        state = await request(socket, type="get_state", id="s")
        assert (state["id"], state["data"]["isStreaming"]) == ("s", False)
        assert (await request(socket, type="prompt", message="hi", id="p"))["success"]
        end = await until_message(socket, type="agent_end")
        assert end["messages"][-1]["content"][0]["text"] == "Hello"
        metrics = (await at.call("GET", "/metrics")).body.decode()
        assert f'fairlead_hosts{{dialect="{dialect}"}} 1' in metrics


async def test_an_opal_client_works_over_a_websocket(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "Hello"}]) as at, at.socket("/ws?dialect=opal") as socket:
        await socket.send('{"jsonrpc":"2.0","id":1,"method":"session/start","params":{}}')
        started = await until_message(socket, id=1)
        session = started["result"]["session_id"]
        prompt = {"jsonrpc": "2.0", "id": 2, "method": "agent/prompt", "params": {"session_id": session, "text": "hi"}}
        await socket.send(json.dumps(prompt))
        assert "error" not in await until_message(socket, id=2)


async def test_an_acp_client_works_over_a_websocket(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "Hello"}]) as at, at.socket("/acp") as socket:
        await socket.send('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}')
        assert (await until_message(socket, id=0))["result"]["protocolVersion"] == 1
        params: dict[str, Any] = {"cwd": str(at.project), "mcpServers": []}
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}))
        session = (await until_message(socket, id=1))["result"]["sessionId"]
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}))
        assert (await until_message(socket, id=2))["result"]["stopReason"] == "end_turn"


async def test_bad_messages_get_errors_and_the_connection_lives(tmp_path: Path) -> None:
    async with web(tmp_path, request_bytes=10_000) as at, at.socket("/ws?dialect=pi") as socket:
        for bad in ("{", "[]", '{"type":"nothing"}', "[" * 5000, b"\xff\xfe"):
            await socket.send(bad)
            assert (await until_message(socket, type="response"))["success"] is False
        await socket.send("x" * 15_000)
        assert "too long" in str(await until_message(socket, type="response", success=False))
        assert (await request(socket, type="get_state"))["success"]
        await socket.send("x" * 30_000)
        with pytest.raises(ConnectionClosed):
            await until_message(socket, type="never")
        assert socket.close_code == 1009


async def test_the_end_of_the_connection_aborts_and_saves(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "unfinished " * 50, "holdAfter": 3, "chunk": 50}]) as at:
        async with at.socket("/ws?dialect=pi") as socket:
            await request(socket, type="prompt", message="hi")
            await until_message(socket, type="message_update")
            file = Path((await request(socket, type="get_state"))["data"]["sessionFile"])
        # Another host can have the file: the first one has released it.
        async with at.socket("/ws?dialect=pi") as socket, asyncio.timeout(10):
            is_free = False
            while not is_free:
                await asyncio.sleep(0.05)
                is_free = (await request(socket, type="switch_session", sessionPath=str(file)))["success"]
            messages = (await request(socket, type="get_messages"))["data"]["messages"]
            assert messages[-1]["stopReason"] == "aborted"
            assert "unfinished" in str(messages[-1]["content"])


async def test_a_host_comes_back_to_its_session(tmp_path: Path) -> None:
    turns = [{"text": "unfinished " * 50, "holdAfter": 3, "chunk": 50}, {"text": "finished"}]
    async with web(tmp_path, turns) as at:
        async with at.socket("/ws?dialect=pi") as socket:
            await request(socket, type="prompt", message="hi")
            await until_message(socket, type="message_update")
            session = (await request(socket, type="get_state"))["data"]["sessionId"]
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket(f"/ws?dialect=pi&session={session}"):
                    pass
            assert refused.value.response.status_code == 409, "another host has it"
        async with asyncio.timeout(20):
            while True:
                try:
                    again = await at.socket(f"/ws?dialect=pi&session={session}")
                    break
                except InvalidStatus as error:
                    assert error.response.status_code == 409
        async with again:
            assert (await request(again, type="get_state"))["data"]["sessionId"] == session
            at.provider.release()
            await request(again, type="prompt", message="go on")
            end = await until_message(again, type="agent_end")
            assert end["messages"][-1]["content"][0]["text"] == "finished"
            messages = (await request(again, type="get_messages"))["data"]["messages"]
            assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant"]
            assert messages[1]["stopReason"] == "aborted"
        for query, status in (("dialect=pi&session=none", 404), ("dialect=opal&session=x", 400)):
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket(f"/ws?{query}"):
                    pass
            assert refused.value.response.status_code == status


@pytest.mark.parametrize("tokens", [None, {"ann": "a" * 40}])
async def test_hosts_of_claude_agent_sdk_are_refused_clearly(tokens: dict[str, str] | None, tmp_path: Path) -> None:
    async with web(tmp_path, tokens=tokens) as at:
        if tokens is not None:
            at.token = tokens["ann"]
        with pytest.raises(InvalidStatus) as refused:
            async with at.socket("/ws?dialect=claude"):
                pass
    assert refused.value.response.status_code == 400
    assert b"standard input and output" in (refused.value.response.body or b"")


async def test_a_host_that_comes_back_resumes_the_run(tmp_path: Path) -> None:
    turns = [{"text": "unfinished " * 50, "holdAfter": 3, "chunk": 50}, {"text": "finished"}]
    async with web(tmp_path, turns) as at:
        async with at.socket("/ws?dialect=pi") as socket:
            await request(socket, type="prompt", message="hi")
            await until_message(socket, type="message_update")
            session = (await request(socket, type="get_state"))["data"]["sessionId"]
        async with asyncio.timeout(20):
            reply = await at.call("GET", f"/v1/sessions/{session}")
            while reply.status == 409:  # the first host has not released it yet
                reply = await at.call("GET", f"/v1/sessions/{session}")
        assert reply.json["session"]["interrupted"]
        assert (await at.call("POST", f"/v1/sessions/{session}/resume")).status == 202


async def test_the_end_of_the_server_closes_the_connection(tmp_path: Path) -> None:
    turn = {"text": "unfinished " * 50, "holdAfter": 3, "chunk": 50}
    async with web(tmp_path, [turn]) as at, at.socket("/ws?dialect=pi") as socket:
        await request(socket, type="prompt", message="hi")
        await until_message(socket, type="message_update")
        at.server.stop()
        assert (await until_message(socket, type="agent_end"))["messages"][-1]["stopReason"] == "aborted"
        with pytest.raises(ConnectionClosed):
            while True:
                await next_message(socket)
        assert socket.close_code == 1001


async def test_updates_can_have_the_delta_form(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "Hello"}]) as at, at.socket("/ws?dialect=pi&updates=delta") as socket:
        await request(socket, type="prompt", message="hi")
        assert "message" not in await until_message(socket, type="message_update")


async def test_unknown_dialects_are_refused(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        for query in ("", "?dialect=acp2", "?dialect=acp" + "x" * 100, "?dialect=pi&updates=some", "?dialect=pi&cwd=/none"):
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket(f"/ws{query}"):
                    pass
            assert refused.value.response.status_code == 400
