"""Handlers of `agent_settled`: hosts get the event when they are done, and none of them can hold up the session."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.extend.extended import Extended, calling, extended, notes, scripted, user_texts

from fairlead.core import events as e
from fairlead.testing import Turn

QUICK = json.dumps({"extensionTimeoutSeconds": 3})


def kinds(it: Extended, *wanted: type[e.Event]) -> list[str]:
    return [type(event).__name__ for event in it.told if isinstance(event, wanted)]


async def run_over(it: Extended) -> None:
    """Wait until the run has ended and its handlers are being called."""
    ended = asyncio.Event()
    forget = it.agent.session.subscribe(lambda event: ended.set() if isinstance(event, e.AgentEnd) else None)
    await ended.wait()
    forget()
    while it.agent.session.activity.is_streaming:  # noqa: ASYNC110 (the end comes a few steps later)
        await asyncio.sleep(0)


async def test_the_host_gets_the_event_after_all_handlers(tmp_path: Path) -> None:
    body = """
  pi.on("agent_settled", async (event, ctx) => {
    note(ctx.isIdle());
    await new Promise((done) => setTimeout(done, 50));
    pi.setSessionName("first");
  });
  pi.on("agent_settled", () => pi.appendEntry("second"));
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        assert kinds(it, e.SessionInfoChanged, e.EntryAppended, e.AgentSettled) == [
            "SessionInfoChanged",
            "EntryAppended",
            "AgentSettled",
        ]
    assert notes(tmp_path) == [True]


async def test_the_end_of_an_aborted_run_waits_for_its_handlers(tmp_path: Path) -> None:
    body = """
  pi.on("tool_execution_start", (event, ctx) => ctx.abort());
  pi.on("agent_end", async () => {
    await new Promise((done) => setTimeout(done, 20));
    pi.setSessionName("ended");
  });
"""
    async with scripted(tmp_path, body, turns=[calling("bash", command="sleep 9")]) as it:
        await it.agent.session.prompt("hi")
        await it.agent.idle()
        assert kinds(it, e.SessionInfoChanged, e.AgentEnd) == ["SessionInfoChanged", "AgentEnd"]


async def test_messages_of_a_handler_start_a_run_after_the_event(tmp_path: Path) -> None:
    body = """
  let sent = false;
  pi.on("agent_settled", async () => {
    if (sent) return;
    sent = true;
    pi.sendUserMessage("more");
    await new Promise((done) => setTimeout(done, 50));
    note("handled");
  });
  pi.on("agent_start", () => note("start"));
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.agent.session.extensions.drain_events()
        await it.agent.session.extensions.hooks.flush_outbox()  # pyright: ignore[reportOptionalMemberAccess]
        await it.agent.idle()
        assert user_texts(it.agent.session.messages) == ["hi", "more"]
        assert kinds(it, e.AgentStart, e.AgentSettled) == ["AgentStart", "AgentSettled"] * 2
    assert notes(tmp_path) == ["start", "handled", "start"]


async def test_a_prompt_waits_for_the_handlers_of_the_run_before(tmp_path: Path) -> None:
    body = 'pi.on("agent_settled", async () => { await new Promise((done) => setTimeout(done, 50)); note("handled"); });'
    async with scripted(tmp_path, body) as it:
        session = it.agent.session
        await session.prompt("one")
        await run_over(it)
        assert not kinds(it, e.AgentSettled)
        await session.prompt("two")
        await it.agent.idle()
        assert kinds(it, e.AgentStart, e.AgentSettled) == ["AgentStart", "AgentSettled"] * 2


async def test_a_handler_that_hangs_is_stopped_after_its_time(tmp_path: Path) -> None:
    body = 'pi.on("agent_settled", () => new Promise(() => {}));'
    async with scripted(tmp_path, body, settings=QUICK) as it:
        await it.agent.ask("one")
        await it.agent.ask("two")
        assert kinds(it, e.AgentStart, e.AgentSettled) == ["AgentStart", "AgentSettled"] * 2
        assert it.errors == [("one.ts", "agent_settled", "Stopped because it was not done after 3 seconds.")] * 2


async def test_a_handler_that_ends_the_process_does_not_hold_the_event_back(tmp_path: Path) -> None:
    body = 'pi.on("agent_settled", () => process.kill(process.pid, "SIGKILL"));'
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("one")
        assert kinds(it, e.AgentSettled) == ["AgentSettled"]
        assert "The Node process that runs extensions has ended" in it.errors[0][2]


async def test_an_abort_does_not_wait_for_handlers(tmp_path: Path) -> None:
    body = 'pi.on("agent_settled", async () => { note("began"); await new Promise(() => {}); });'
    async with scripted(tmp_path, body) as it:
        session = it.agent.session
        await session.prompt("one")
        await run_over(it)
        assert not kinds(it, e.AgentSettled)
        async with asyncio.timeout(5):
            await session.abort()
        assert kinds(it, e.AgentSettled) == ["AgentSettled"]


async def test_a_python_handler_compacts_without_waiting_for_itself(tmp_path: Path) -> None:
    source = """
    from fairlead.extension import Context, Fairlead

    def setup(fl: Fairlead) -> None:
        async def settled(event, context: Context) -> None:
            try:
                await context.compact()
            finally:
                fl.append_entry("compacted")

        fl.on("agent_settled", settled)
    """
    async with extended(tmp_path, source, turns=[Turn(text="ok")] * 3) as it:
        await it.agent.ask("one")
        async with asyncio.timeout(5):
            await it.agent.session.extensions.drain_events()
        assert kinds(it, e.AgentSettled) == ["AgentSettled"]
        assert len(it.notes("compacted")) == 1
