"""The client for the sessions of a server: events without gaps, whatever happens to the connection and the server."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.server_process import PATIENCE, CuttingProxy, ServerProcess, certified, server_process

from fairlead.client import NumberedEvent, ServerClient, server_events
from fairlead.client import server as client_module
from fairlead.client.events import MessageEnd, MessageStart, MessageUpdate, TextDelta
from fairlead.client.network import ConnectionBroke, ServerAddress
from fairlead.core.messages import AssistantMessage
from fairlead.errors import AgentGone, CommandRefused
from fairlead.protocol.http.http_objects import Snapshot
from fairlead.testing import ProviderServer
from fairlead.testing.agents import agent_command

WORDS = " ".join(f"word{number}" for number in range(600))


class Mirror:
    """What a client knows of a session. It fails if an event is missing or comes twice."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.open: str | None = None
        self.number = 0
        self.snapshots = 0
        self.results: list[str] = []

    def apply(self, each: Snapshot | NumberedEvent) -> None:
        if isinstance(each, Snapshot):
            self.snapshots += 1
            self.number = each.last_event
            self.texts = [text_of(message) for message in each.messages]
            self.open = None if each.open_message is None else text_of(each.open_message)
            self.results = [result.id for result in each.prompt_results]  # of prompts that ended before it
            return
        assert each.number == self.number + 1, "a gap or a repetition"
        self.number = each.number
        match each.event:
            case MessageStart(message=AssistantMessage()):
                self.open = ""
            case MessageUpdate(assistant_message_event=TextDelta(delta=delta)):
                self.open = (self.open or "") + delta
            case MessageEnd() as event:
                message = event.raw["message"]
                if message["role"] == "assistant":
                    assert self.open == text_of(message)
                    self.open = None
                self.texts.append(text_of(message))
            case server_events.PromptResult(id=ident):
                self.results.append(ident)
            case _:
                pass


def text_of(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


async def mirrored(client: ServerClient, session_id: str, mirror: Mirror, texts: int) -> None:
    """Follow a session until it has this many messages and is settled."""
    async with asyncio.timeout(PATIENCE), aclosing(client.follow(session_id)) as following:
        async for each in following:
            mirror.apply(each)
            if len(mirror.texts) >= texts and mirror.open is None:
                return


@asynccontextmanager
async def wordy(tmp_path: Path) -> AsyncGenerator[tuple[ServerProcess, ProviderServer]]:
    """Run a server whose model says many words, slowly."""
    async with (
        ProviderServer([{"text": WORDS, "chunk": 20, "delayMs": 2}]) as provider,
        server_process(agent_command(tmp_path, provider.url)) as server,
    ):
        yield server, provider


async def test_every_operation_is_a_typed_method(tmp_path: Path) -> None:
    async with (
        ProviderServer([{"text": "Hello"}, {"text": "more", "holdAfter": 1}]) as provider,
        server_process(agent_command(tmp_path, provider.url)) as server,
        asyncio.timeout(PATIENCE),
    ):
        client = server.client()
        assert (await client.healthz()).status == (await client.readyz()).status == "ok"
        session = await client.create_session(name="mine", approval="ask")
        assert (session.name, session.approval, session.status) == ("mine", "ask", "idle")
        mirror = Mirror()
        following = asyncio.create_task(mirrored(client, session.id, mirror, 2))
        accepted = await client.prompt(session.id, "hi")
        await following
        assert (mirror.texts, mirror.snapshots, accepted.status) == (["hi", "Hello"], 1, "started")
        assert (await client.change_session(session.id, name="ours")).name == "ours"
        await client.prompt(session.id, "again")
        assert (await client.follow_up(session.id, "later")).status == "queued"
        assert (await client.abort(session.id)).status == "idle"
        assert [each.title for each in (await client.list_sessions()).sessions] == ["ours"]
        forked = await client.fork(session.id)
        assert forked.session.id != session.id
        assert any(model.id for model in (await client.list_models()).models)
        assert (await client.create_login_code()).code
        await client.delete_session(session.id)
        with pytest.raises(CommandRefused, match="no session") as refused:
            await client.get_session(session.id)
        assert refused.value.code == "session_not_found"


async def test_questions_can_be_answered(tmp_path: Path) -> None:
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": "touch made"}}]}, {"text": "Done."}]
    async with ProviderServer(turns) as provider, asyncio.timeout(PATIENCE):
        command = agent_command(tmp_path, provider.url)
        async with server_process(command, "--approval", "ask") as server:
            client = server.client()
            session = await client.create_session()
            await client.prompt(session.id, "Make it.")
            async for each in client.follow(session.id):
                asked = each.questions if isinstance(each, Snapshot) else [each.event]
                for question in asked:
                    if getattr(question, "kind", None) == "approval":
                        await client.answer(session.id, question.id, decision="allow")  # pyright: ignore
                if isinstance(each, NumberedEvent) and isinstance(each.event, server_events.PromptResult):
                    break
            assert (command.cwd / "made").exists()


@pytest.mark.parametrize("seed", range(3))
async def test_connections_that_are_cut_anywhere_lose_and_repeat_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.01)
    chance = random.Random(seed)
    async with (
        wordy(tmp_path) as (server, provider),
        CuttingProxy(server.port, lambda: chance.randint(1, 12_000)) as proxy,
    ):
        calm, cut = server.client(), server.client(proxy.port)
        session = await calm.create_session()
        mirror = Mirror()
        following = asyncio.create_task(mirrored(cut, session.id, mirror, 4))
        for text in ("one", "two"):
            await cut.prompt(session.id, text)
            await _until_idle(calm, session.id)
        await following
        assert mirror.texts == ["one", WORDS, "two", WORDS]
        assert proxy.cuts > 5
        assert len(provider.requests) == 2, "a prompt that is sent again starts nothing"
        assert mirror.snapshots == 1, "what was missed came as events"


async def _until_idle(client: ServerClient, session_id: str) -> None:
    for _ in range(PATIENCE * 20):
        if (await client.get_session(session_id, messages=0)).session.status == "idle":
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restart_of_the_server_resynchronises(tmp_path: Path, number: signal.Signals) -> None:
    async with wordy(tmp_path) as (server, provider):
        client = server.client()
        session = await client.create_session()
        await client.prompt(session.id, "one")
        await _until_idle(client, session.id)
        mirror = Mirror()
        following = asyncio.create_task(mirrored(client, session.id, mirror, 6))
        await client.prompt(session.id, "two")
        await provider.until(lambda provider: len(provider.requests) == 2)
        await asyncio.sleep(0.2)
        await server.end(number)
        await server.start()
        saved = [text_of(message) for message in (await client.get_session(session.id)).messages]
        assert saved[:3] == ["one", WORDS, "two"]
        await client.prompt(session.id, "three")
        await _until_idle(client, session.id)
        await client.prompt(session.id, "four")
        await following
        whole = [text_of(message) for message in (await client.get_session(session.id)).messages]
        assert mirror.texts == whole[: len(mirror.texts)]
        assert mirror.snapshots == 2


async def test_a_slow_reader_gets_a_snapshot_instead_of_what_it_missed(tmp_path: Path) -> None:
    text = "x" * 9_000_000
    async with (
        ProviderServer([{"text": "short"}, {"text": text, "chunk": 30_000}, {"text": "after"}]) as provider,
        server_process(agent_command(tmp_path, provider.url)) as server,
        asyncio.timeout(PATIENCE),
    ):
        client = server.client()
        session = await client.create_session()
        mirror = Mirror()
        async with aclosing(client.follow(session.id)) as following:
            mirror.apply(await anext(following))
            await client.prompt(session.id, "one")
            mirror.apply(await anext(following))
            await _until_idle(client, session.id)
            await client.prompt(session.id, "two")
            await _until_idle(client, session.id)  # while this reader does not read
            await client.prompt(session.id, "three")
            async for each in following:
                mirror.apply(each)
                if len(mirror.texts) == 6:
                    break
        assert mirror.texts == ["one", "short", "two", text, "three", "after"]
        assert mirror.snapshots > 1


async def test_a_move_within_the_tree_brings_a_snapshot(tmp_path: Path) -> None:
    async with (
        ProviderServer([{"text": "first"}, {"text": "second"}, {"text": "third"}]) as provider,
        server_process(agent_command(tmp_path, provider.url)) as server,
        asyncio.timeout(PATIENCE),
    ):
        client = server.client()
        session = await client.create_session()
        mirror = Mirror()
        async with aclosing(client.follow(session.id)) as following:
            for text in ("one", "two"):
                accepted = await client.prompt(session.id, text)
                while accepted.id not in mirror.results:
                    mirror.apply(await anext(following))
            entries = (await client.get_tree(session.id)).entries
            moved = await client.move(session.id, entries[2].id)
            assert moved.text == "two"
            while mirror.snapshots < 2:
                mirror.apply(await anext(following))
            assert mirror.texts == ["one", "first"]
            accepted = await client.prompt(session.id, "other")
            while accepted.id not in mirror.results:
                mirror.apply(await anext(following))
        assert mirror.texts == ["one", "first", "other", "third"]
        snapshot = await client.get_session(session.id)
        assert [each.status for each in snapshot.prompt_results] == ["completed"] * 3
        assert (await client.clear_queue(session.id)).steering == []


async def test_a_move_brings_a_snapshot_even_if_the_network_is_gone_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = ServerAddress.connect
    is_gone = False

    async def connects_next_time(self: ServerAddress, timeout: float | None) -> Any:
        nonlocal is_gone
        if is_gone:
            is_gone = False
            raise ConnectionBroke("The network is gone.", was_sent=False)
        return await connect(self, timeout)

    monkeypatch.setattr(ServerAddress, "connect", connects_next_time)
    async with (
        ProviderServer([{"text": "first"}]) as provider,
        server_process(agent_command(tmp_path, provider.url)) as server,
        asyncio.timeout(PATIENCE),
    ):
        client = server.client()
        session = await client.create_session()
        mirror = Mirror()
        async with aclosing(client.follow(session.id)) as following:
            accepted = await client.prompt(session.id, "one")
            while accepted.id not in mirror.results:
                mirror.apply(await anext(following))
            await client.move(session.id, None)
            each = await anext(following)
            while not (isinstance(each, NumberedEvent) and isinstance(each.event, server_events.BranchChanged)):
                each = await anext(following)
            is_gone = True
            each = await anext(following)
            assert isinstance(each, Snapshot) and each.messages == []


async def test_a_server_that_stays_away_is_an_error(tmp_path: Path) -> None:
    async with wordy(tmp_path) as (server, _):
        client = server.client(patience=0.5)
        session = await client.create_session()
        following = asyncio.create_task(mirrored(client, session.id, Mirror(), 10))
        await asyncio.sleep(0.2)
        await server.end()
        with pytest.raises(AgentGone, match="cannot be reached"):
            await following


async def test_a_request_that_broke_is_repeated_while_the_server_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []
    refused = asyncio.Event()
    connect = ServerAddress.connect

    async def watched(self: ServerAddress, timeout: float | None) -> Any:
        try:
            return await connect(self, timeout)
        except ConnectionBroke:
            refused.set()
            raise

    async def goes_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        before.close()
        writer.close()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{"sessions":[]}')
        writer.close()

    monkeypatch.setattr(ServerAddress, "connect", watched)
    before = await asyncio.start_server(goes_away, "127.0.0.1", 0)
    port = before.sockets[0].getsockname()[1]
    async with asyncio.timeout(PATIENCE):
        listing = asyncio.create_task(ServerClient(f"http://127.0.0.1:{port}", token="token").list_sessions())
        await refused.wait()
        async with await asyncio.start_server(answers, "127.0.0.1", port):
            assert (await listing).sessions == []
    assert len(requests) == 2


async def test_events_come_over_tls(tmp_path: Path) -> None:
    trusting, flags = certified(tmp_path)
    async with (
        ProviderServer([{"text": WORDS}]) as provider,
        server_process(agent_command(tmp_path, provider.url), *flags) as server,
        CuttingProxy(server.port, lambda: 15_000) as proxy,
    ):
        client = server.client(proxy.port, tls=trusting)
        session = await client.create_session()
        mirror = Mirror()
        following = asyncio.create_task(mirrored(client, session.id, mirror, 2))
        await client.prompt(session.id, "one")
        await following
        assert mirror.texts == ["one", WORDS]
