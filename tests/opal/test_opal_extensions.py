"""Extensions in sessions of Opal's clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.opal import opal, outcomes, types
from tests.support.stage import HELD, calls, says

COMMANDS = """
import asyncio, os

def setup(fl):
    @fl.register_command("sleep")
    async def sleep(args, ctx):
        "Sleep until the test says so."
        ctx.ui.notify("asleep")
        await asyncio.to_thread(open(os.environ["HOME"] + "/go").readline)
        ctx.ui.notify("awake")

    @fl.register_command("hang")
    async def hang(args, ctx):
        "Never end."
        ctx.ui.notify("hangs")
        await asyncio.Event().wait()

    @fl.on("input")
    def look(event, ctx):
        ctx.ui.notify(f"saw {event.text}")
"""
EXTENSION: dict[str, Any] = {"flags": ["-e", "ext.py"], "files": {"ext.py": COMMANDS}}


def test_messages_of_an_extension_follow_the_response(tmp_path: Path) -> None:
    with opal(tmp_path, [HELD, says("two")], **EXTENSION) as client:
        session = client.start()
        for text in ("one", "two"):  # the second one is queued
            since = client.host.mark()
            ident = client.send("agent/prompt", session_id=session, text=text)
            status = client.until("status_update", session, since=since, message=f"saw {text}")
            frames = [frame.get("params", frame) for frame in client.host.frames]
            assert frames.index(status) > frames.index(client.response(ident))
        client.host.provider.release()
        assert client.ended(session)["type"] == "agent_end"


def test_a_command_during_a_run_does_not_start_another_run(tmp_path: Path) -> None:
    with opal(tmp_path, [HELD], **EXTENSION) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.until("message_delta", session)
        assert client.call("agent/prompt", session_id=session, text="/sleep") == {"queued": False}
        client.until("message_applied", session, text="/sleep")
        client.host.go.open()
        client.until("status_update", session, message="awake")
        client.host.provider.release()
        client.until("agent_end", session)
        told = types(client.events(session))
        assert (told.count("agent_start"), told.count("agent_end")) == (1, 1)


def test_a_running_command_finishes_after_the_input_ends_if_configured(tmp_path: Path) -> None:
    with opal(tmp_path, flags=[*EXTENSION["flags"], "--on-eof", "finish"], files=EXTENSION["files"]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="/sleep")
        client.until("status_update", session, message="asleep")
        client.host.close_input()
        client.host.go.open()
        assert client.host.exit_code() == 0
        last = [event.get("message", event["type"]) for event in client.events(session)][-2:]
        assert last == ["awake", "agent_end"]


def test_a_running_command_is_aborted_when_the_client_leaves(tmp_path: Path) -> None:
    with opal(tmp_path, **EXTENSION) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="/hang")
        client.until("status_update", session, message="hangs")
        assert client.host.leave() == 0
        ends = [event["type"] for event in client.events(session) if event["type"] in ("agent_end", "agent_abort", "error")]
        assert ends == ["agent_abort"]


def test_only_new_output_of_a_repeating_tool_is_sent(tmp_path: Path) -> None:
    source = """
from fairlead.extension import ToolRunContext

def setup(fl):
    @fl.register_tool
    async def count(context: ToolRunContext) -> str:
        "Count."
        for text in ("one", "one two", "two three"):
            context.update(text)
        return "counted"
"""
    turns = [calls(("count", {})), says("Done.")]
    with opal(tmp_path, turns, flags=["-e", "ext.py"], files={"ext.py": source}) as client:
        events = client.prompt(client.start(), "go")
        assert [event["chunk"] for event in events if event["type"] == "tool_output"] == ["one", " two", "two three"]
        assert outcomes(events)["count"] == {"ok": True, "output": "counted"}


def test_extensions_can_refuse_a_branch_and_are_notified_of_it(tmp_path: Path) -> None:
    source = """
from fairlead.extension import Cancel

def setup(fl):
    @fl.on("session_before_tree")
    def ask(event, ctx):
        ctx.ui.notify(f"{len(event.left_behind)} left behind")
        if "forbidden" in str(event.left_behind):
            return Cancel("not from here")

    @fl.on("session_tree")
    def hear(event, ctx):
        ctx.ui.notify("moved")
"""
    turns = [says("A1"), says("A2"), HELD, says("A3")]
    with opal(tmp_path, turns, flags=["-e", "ext.py"], files={"ext.py": source}) as client:
        session = client.start()
        client.prompt(session, "one")
        client.prompt(session, "two")
        entries = [message["id"] for message in client.call("session/history", session_id=session)["messages"]]
        assert client.call("session/branch", session_id=session, entry_id=entries[2]) == {}
        client.until("status_update", session, message="1 left behind")
        client.until("status_update", session, message="moved")
        client.send("agent/prompt", session_id=session, text="forbidden")
        client.until("message_delta", session, nth=3)
        error = client.refusal("session/branch", session_id=session, entry_id=entries[1])
        assert error == {"code": -32603, "message": "Branch failed", "data": "An extension forbids this: not from here"}
        assert client.call("agent/state", session_id=session)["status"] == "streaming", "nothing was stopped for it"
        since = client.host.mark()
        client.host.provider.release()
        assert client.ended(session, since=since)["type"] == "agent_end"
        assert len(client.call("session/history", session_id=session)["messages"]) == 5


ASKING = """
def setup(fl):
    @fl.on("input")
    async def ask(event, ctx):
        if not await ctx.ui.confirm("Sure?", event.text):
            return {"action": "handled"}
"""


@pytest.mark.parametrize("end", ["answer", "abort"])
def test_a_prompt_is_acknowledged_though_an_extension_is_still_busy_with_it(tmp_path: Path, end: str) -> None:
    settings = {"extensionTimeoutSeconds": 0.3}
    with opal(tmp_path, [says("fine")], flags=["-e", "ext.py"], files={"ext.py": ASKING}, settings=settings) as client:
        session = client.start()
        since = client.host.mark()
        ident = client.send("agent/prompt", session_id=session, text="go")
        question = client.asked("client/confirm")
        assert client.response(ident)["result"] == {"queued": False}
        assert client.events(session, since=since) == []
        assert client.call("agent/state", session_id=session)["status"] == "running"
        if end == "answer":
            client.answer(question, action=question["params"]["actions"][0])
        else:
            client.call("agent/abort", session_id=session)
        last = client.ended(session, since=since)
        assert last["type"] == ("agent_end" if end == "answer" else "agent_abort")
        told = types(client.events(session, since=since))
        assert told[:2] == ["message_applied", "agent_start"]
        assert len(client.host.provider.requests) == (1 if end == "answer" else 0)
        assert client.is_idle(session)


def test_no_prompt_runs_without_an_extension_that_was_named(tmp_path: Path) -> None:
    with opal(tmp_path, [says("ran unasked")], flags=["-e", "gate.ts"], files={"gate.ts": "throw 1"}) as client:
        session = client.start()
        for text in ("hi", "/hi"):
            error = client.refusal("agent/prompt", session_id=session, text=text)
            assert 'gate.ts": 1' in str(error)
        assert client.host.provider.requests == []
