"""Agents whose sessions are in a store: resumed elsewhere, durable before they are announced, and stopped when they are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, Storage, tool
from fairlead.errors import BadOption, SessionError, SessionInUse, SessionLost, SessionNotFound, StoreUnavailable
from fairlead.events import AgentSettled, Event, MessageEnd, SessionInfoChanged, ToolRunning
from fairlead.messages import AssistantMessage, ToolCall
from fairlead.stores import FileStore, Lease, MemoryStore, SessionStore, SqliteStore
from fairlead.testing import Turn, scripted_agent


@pytest.fixture(params=["memory", "sqlite", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    if request.param == "memory":
        return MemoryStore()
    return SqliteStore(tmp_path / "sessions.db") if request.param == "sqlite" else FileStore(tmp_path / "sessions")


def agent_with(store: SessionStore | Storage, *turns: str | Turn, **options: Any) -> Agent:
    return scripted_agent(*(turns or ("Hello.",)), store=store, **options)


class SlowStore(MemoryStore):
    """A store whose appends wait until the test allows them."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.asked = asyncio.Event()
        self.unavailable = 0
        self.appended: list[Sequence[bytes]] = []

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        self.asked.set()
        await self.may_write.wait()
        if self.unavailable:
            self.unavailable -= 1
            if self.unavailable % 2:  # it has been written, but the answer is lost
                await super().append(lease, lines, after=after)
            raise StoreUnavailable("The server is away.")
        self.appended.append(lines)
        return await super().append(lease, lines, after=after)


async def wait_for(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


# Creating and resuming


async def test_a_session_is_resumed_by_another_agent(store: SessionStore) -> None:
    async with agent_with(store, "One.", session_id="job-1") as agent:
        assert (await agent.ask("First?")).text == "One."
        assert agent.session.history.path is None and agent.session.history.id == "job-1"
        with pytest.raises(SessionInUse):
            await agent_with(store, session_id="job-1").ask("Me too?")
    async with agent_with(store, "Two.", session_id="job-1") as agent:
        assert [text for _, text in agent.session.history.log.user_messages()] == ["First?"]
        assert (await agent.ask("Second?")).session_id == "job-1"
    stored = await store.read("job-1")
    roles = [line.line for line in stored.lines if b'"role":"assistant"' in line.line]
    assert len(roles) == 2
    await store.close()


async def test_a_prompt_opens_the_session_by_itself(store: SessionStore) -> None:
    agent = agent_with(store, session_id="x")
    for look in (lambda: agent.session.history.log, lambda: agent.interrupted):
        with pytest.raises(SessionError, match="not open yet"):
            look()
    assert (await agent.ask("Hi")).text == "Hello."
    await agent.close()
    assert [session.owner for session in await store.list()] == [""]
    await store.close()


def test_blocking_calls_work_on_a_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    for _ in range(2):
        with agent_with(store, session_id="x") as agent:
            assert agent.ask_sync("Hi").text == "Hello."
    asyncio.run(store.close())


async def test_a_new_session_gets_an_id_and_leaves_nothing_if_it_is_not_used(store: SessionStore) -> None:
    async with agent_with(store):
        pass
    async with agent_with(store, session_id="unused"):
        assert [session.id for session in await store.list()] == ["unused"]
    assert await store.list() == []
    async with agent_with(store) as agent:
        await agent.ask("Hi")
        assert [session.id for session in await store.list()] == [agent.session.history.id]
    await store.close()


async def test_sessions_are_chosen_by_id_and_by_time(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound):
        await agent_with(store, session="nothing").open()
    for id in ("a", "b"):
        async with agent_with(store, session_id=id) as agent:
            await agent.ask(f"I am {id}")
    async with agent_with(store, resume=True) as agent:
        assert agent.session.history.id == "b"
    async with agent_with(store, session="a") as agent:
        assert agent.session.history.id == "a"
        async with agent_with(store, fork="a") as fork:  # while it is in use
            assert fork.session.history.id not in ("a", "b")
            assert fork.session.history.log.header.parent_session == "a"
            assert [text for _, text in fork.session.history.log.user_messages()] == ["I am a"]
    await store.close()


def test_a_store_excludes_the_options_of_files(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"^store: the store keeps the sessions"):
        agent_with(MemoryStore(), keep=True)
    with pytest.raises(BadOption, match=r"^store: the store keeps the sessions"):
        agent_with(Storage(tmp_path, store=MemoryStore()))


# Moving


async def test_moves_work_on_the_store(store: SessionStore) -> None:
    async with agent_with(store, session_id="first") as agent:
        history = agent.session.history
        await agent.ask("One")
        await agent.ask("Two")
        history.set_name("The first")
        entry = history.log.user_messages()[1][0]
        assert await agent.session.fork(entry) == "Two"
        forked = history.id
        assert history.log.header.parent_session == "first"
        await agent.ask("Three")
        await history.new()
        await agent.ask("Four")
        fresh = history.id
        infos = {info.id: info for info in await history.list_saved()}
        assert set(infos) == {"first", forked, fresh}
        assert (infos["first"].name, infos["first"].first_message, infos["first"].message_count) == ("The first", "One", 4)
        await history.switch("first")
        assert [text for _, text in history.log.user_messages()] == ["One", "Two"]
        await history.delete(forked)
        with pytest.raises(SessionNotFound):
            await history.switch(forked)
        with pytest.raises(SessionInUse):
            await history.delete("first")
        with pytest.raises(SessionError, match="in a store"):
            await history.open_folder("somewhere")
    assert {session.id: session.owner for session in await store.list()} == {"first": "", fresh: ""}
    await store.close()


async def test_the_sessions_of_sub_agents_are_in_the_store(store: SessionStore, tmp_path: Path) -> None:
    call = ToolCall("1", "task", {"agent": "task", "tasks": [{"id": "A", "description": "Look", "assignment": "Look around"}]})
    async with agent_with(store, Turn(tool_calls=[call]), "Done.", tools=["task"], session_id="above", cwd=tmp_path) as agent:
        await agent.ask("Go")
    headers = {session.id: session.header for session in await store.list()}
    assert len(headers) == 2
    assert any(b'"parentSession":"above"' in header for header in headers.values())
    await store.close()


# Durable before it is announced


async def test_no_event_is_sent_before_its_entry_is_durable() -> None:
    store = SlowStore()
    async with agent_with(store, "One.", session_id="x") as agent:
        seen: list[Event] = []
        agent.session.subscribe(seen.append)
        store.may_write.clear()
        asked = asyncio.create_task(agent.ask("Hi"))
        await wait_for(store.asked.is_set)
        await asyncio.sleep(0.05)
        assert seen == [], "not even the prompt was announced"
        store.may_write.set()
        await asked
        durable: list[int] = []
        agent.session.subscribe(lambda event: durable.append(agent.session.history.conversation.stored.durable))  # pyright: ignore
        await agent.ask("Again")
        ends = [event for event in seen if isinstance(event, MessageEnd)]
        assert len(ends) == 4
        assert durable[-1] == len((await store.read("x")).lines)


async def test_a_rename_is_announced_when_it_is_durable() -> None:
    store = SlowStore()
    async with agent_with(store, session_id="x") as agent:
        await agent.ask("Hi")
        seen: list[Event] = []
        answered: list[str] = []
        agent.session.subscribe(seen.append)
        store.may_write.clear()
        agent.session.history.set_name("A name")
        agent.session.history.call_when_written(lambda: answered.append("answer"))
        await asyncio.sleep(0.02)
        assert not seen and not answered
        store.may_write.set()
        await agent.session.history.wait_written()
        assert seen == [SessionInfoChanged("A name")] and answered == ["answer"]


async def test_a_tool_runs_after_its_call_is_durable(tmp_path: Path) -> None:
    store = SlowStore()
    ran: list[int] = []

    async def probe() -> str:
        """Do something."""
        ran.append(len((await store.read("x")).lines))
        return "ok"

    call = Turn(tool_calls=[ToolCall("1", "probe", {})])
    async with agent_with(store, call, "Done.", tools=[probe], session_id="x", cwd=tmp_path) as agent:
        await agent.ask("Go")
    lines = [line.line for line in (await store.read("x")).lines]
    assert b'"started"' in lines[ran[0] - 1], "its start is the last entry that was durable when it ran"


async def test_the_user_is_asked_about_a_call_after_it_is_durable(tmp_path: Path) -> None:
    store = MemoryStore()
    asked: list[int] = []

    async def approve(request: Any) -> bool:
        asked.append(len((await store.read("x")).lines))
        return True

    @tool(asks=True)
    async def probe() -> str:
        """Do something."""
        return "ok"

    call = Turn(tool_calls=[ToolCall("1", "probe", {})])
    options: dict[str, Any] = {"session_id": "x", "cwd": tmp_path, "on_approval": approve}
    async with agent_with(store, call, "Done.", tools=[probe], **options) as agent:
        await agent.ask("Go")
    lines = [line.line for line in (await store.read("x")).lines]
    assert b'"waiting"' in lines[asked[0] - 1]


async def test_entries_that_no_one_waits_for_are_appended_together() -> None:
    store = SlowStore()

    async def probe() -> str:
        """Do something."""
        return "ok"

    call = Turn(tool_calls=[ToolCall("1", "probe", {})])
    async with agent_with(store, call, "Done.", tools=[probe], session_id="x") as agent:
        await agent.ask("Go")
    answers = [[b'"role":"assistant"' in line for line in lines] for lines in store.appended]
    assert answers[1] == [True, False], "an answer and the start of its call"


async def test_the_result_of_a_tool_is_appended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead.session.history import stored

    monkeypatch.setattr(stored, "_COLLECT_SECONDS", 60)
    store = SlowStore()

    async def probe() -> str:
        """Do something."""
        return "ok"

    call = Turn(tool_calls=[ToolCall("1", "probe", {})])
    async with agent_with(store, call, "Done.", tools=[probe], session_id="x") as agent:
        asked = asyncio.create_task(agent.ask("Go"))
        await wait_for(lambda: any(b'"role":"toolResult"' in line for lines in store.appended for line in lines))
        await agent.session.history.wait_written()
        await asked


async def test_a_store_that_is_away_for_a_while_loses_and_repeats_nothing() -> None:
    store = SlowStore()
    async with agent_with(store, "One.", "Two.", session_id="x") as agent:
        store.unavailable = 7
        await agent.ask("Hi")
        store.unavailable = 3
        await agent.ask("Again")
        expected = agent.session.history.log.lines()[1:]
    assert [line.line for line in (await store.read("x")).lines] == expected


# Losing a session


async def take_over(store: MemoryStore, id: str) -> Lease:
    """Take a session from its owner, as if its lease had expired."""
    session = store._sessions[id]  # pyright: ignore[reportPrivateUsage]
    session.expires_at = 0
    return await store.open(id, owner="another worker", lease_seconds=60)


async def test_a_lost_session_ends_its_run_before_another_tool_runs() -> None:
    store = MemoryStore()
    ran: list[str] = []

    async def first() -> str:
        """Do something."""
        ran.append("first")
        await take_over(store, "x")
        return "ok"

    async def second() -> str:
        """Do something."""
        ran.append("second")
        return "ok"

    turns = [Turn(tool_calls=[ToolCall("1", "first", {})]), Turn(tool_calls=[ToolCall("2", "second", {})]), "Done."]
    seen: list[Event] = []
    agent = agent_with(store, *turns, tools=[first, second], session_id="x")
    await agent.open()
    agent.session.subscribe(seen.append)
    with pytest.raises(SessionLost, match="another worker") as caught:
        await agent.ask("Go")
    assert ran == ["first"]
    assert caught.value.result is not None
    assert isinstance(seen[-1], AgentSettled), "the run has an end all the same"
    assert [event.tool_name for event in seen if isinstance(event, ToolRunning)] == ["first"]
    with pytest.raises(SessionLost):
        await agent.ask("Again")
    await agent.close()
    session = (await store.list())[0]
    assert session.owner == "another worker", "the lease of the other owner was not released"


async def test_a_refused_renewal_stops_a_run_that_writes_nothing() -> None:
    store = MemoryStore()
    started = asyncio.Event()

    async def forever() -> str:
        """Do something."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    call = Turn(tool_calls=[ToolCall("1", "forever", {})])
    agent = agent_with(Storage(store=store, lease_seconds=1.5), call, tools=[forever], session_id="x")
    asked = asyncio.create_task(agent.ask("Go"))
    await started.wait()
    await take_over(store, "x")
    with pytest.raises(SessionLost, match="another worker"):
        await asyncio.wait_for(asked, 10)
    await agent.close()


async def test_a_lease_that_cannot_be_renewed_in_time_stops_the_run() -> None:
    class Away(MemoryStore):
        is_away = False

        async def renew(self, lease: Lease) -> Lease:
            if self.is_away:
                raise StoreUnavailable("The server is away.")
            return await super().renew(lease)

    store = Away()
    started = asyncio.Event()

    async def forever() -> str:
        """Do something."""
        store.is_away = True
        started.set()
        await asyncio.Event().wait()
        return "never"

    call = Turn(tool_calls=[ToolCall("1", "forever", {})])
    agent = agent_with(Storage(store=store, lease_seconds=1.5), call, tools=[forever], session_id="x")
    with pytest.raises(SessionLost, match="could not be taken or renewed because the store could not be reached"):
        await asyncio.wait_for(agent.ask("Go"), 10)
    await agent.close()


async def test_a_store_that_times_out_is_asked_again_after_a_pause() -> None:
    class TimingOut(MemoryStore):
        failures = 0

        async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
            self.failures += 1
            raise TimeoutError

    store = TimingOut()
    agent = agent_with(Storage(store=store, lease_seconds=1.5), session_id="x")
    with pytest.raises(SessionLost, match=r"because the store does not answer\."):
        await asyncio.wait_for(agent.ask("Go"), 10)
    assert 1 < store.failures < 50
    await agent.close()


async def test_an_agent_renews_its_lease_while_it_is_open() -> None:
    store = MemoryStore()
    async with agent_with(Storage(store=store, lease_seconds=1.5, lease_owner="me"), session_id="x") as agent:
        await agent.ask("Hi")
        for _ in range(8):
            await asyncio.sleep(0.25)
            with pytest.raises(SessionInUse, match="me"):
                await store.open("x", owner="other", lease_seconds=1)
        assert isinstance((await agent.ask("Again")).messages[-1], AssistantMessage)


def test_an_agent_is_used_on_one_event_loop_after_another(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    agent = agent_with(Storage(store=store, lease_seconds=1.5), "One.", "Two.", session_id="x")
    assert asyncio.run(agent.ask("Hi")).text == "One."

    async def again() -> None:
        assert (await agent.ask("Again")).text == "Two."
        await asyncio.sleep(2)  # the lease is renewed here too
        assert (await agent.ask("And again")).text == "Two."
        await agent.close()
        await store.close()

    asyncio.run(again())
