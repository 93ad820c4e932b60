"""Open sessions: opened once, shared, closed in one place; and what remains of one that could not be opened."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from fairlead.agent import Agent
from fairlead.errors import SessionInUse
from fairlead.sessions.open_sessions import OpenSessions, opening, retry_while_leased, with_more_tools
from fairlead.stores import MemoryData, MemoryStore
from fairlead.testing import scripted_agent


class Opened:
    """A session that closes when the test says so."""

    agent = cast("Agent", None)

    def __init__(self) -> None:
        self.may_close = asyncio.Event()

    def cancel(self) -> None: ...

    async def close(self) -> None:
        await self.may_close.wait()


async def test_a_session_that_several_ask_for_is_opened_once_even_if_the_first_leaves() -> None:
    sessions: OpenSessions[str, Opened] = OpenSessions()
    go, count = asyncio.Event(), 0

    async def make() -> Opened:
        nonlocal count
        count += 1
        await go.wait()
        return Opened()

    first, second = (asyncio.create_task(sessions.open_once("a", make)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    third = await sessions.open_once("a", make)
    assert await second is third and count == 1


async def test_a_session_that_is_being_closed_is_gone_before_it_is_opened_again() -> None:
    sessions: OpenSessions[str, Opened] = OpenSessions()
    opened = Opened()
    sessions.add("a", opened)
    ending = asyncio.create_task(sessions.end(opened))
    await asyncio.sleep(0)
    assert sessions.find("a") is None
    settled = asyncio.create_task(sessions.get_when_settled("a"))
    await asyncio.sleep(0)
    assert not settled.done()
    ending.cancel()  # it is closed nevertheless
    opened.may_close.set()
    assert await settled is None


async def test_a_session_is_found_under_its_new_key_and_the_least_used_comes_first() -> None:
    sessions: OpenSessions[str, Opened] = OpenSessions()
    one, two = Opened(), Opened()
    sessions.add("a", one)
    sessions.add("b", two)
    sessions.mark_used(one)
    assert sessions.all() == [two, one]
    sessions.rename(two, "c")
    assert sessions.find("b") is None and sessions.find("c") is two


async def test_a_failed_open_releases_the_session() -> None:
    data = MemoryData()

    def agent() -> Agent:
        return scripted_agent("Hello.", store=MemoryStore(data), session_id="a")

    with pytest.raises(RuntimeError, match="later"):
        async with opening(agent()):
            raise RuntimeError("later")
    other = agent()
    async with opening(other, 5.0):
        assert other.session.history.id == "a"
    await other.close()


async def test_a_session_in_use_is_waited_for_only_so_long() -> None:
    calls = 0

    async def take() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise SessionInUse("in use", "another", None)
        return "taken"

    assert await retry_while_leased(take, 60.0, 0.0) == "taken"
    calls = -100
    with pytest.raises(SessionInUse):
        await retry_while_leased(take, 0.0)
    assert calls == -99


def test_all_sessions_share_the_names_of_their_tools() -> None:
    names: Any = with_more_tools(("read", "task"))
    assert names == ("read", "task", "ask", "todo_write") and with_more_tools(("read", "task")) is names
