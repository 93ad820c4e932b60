"""What becomes of an Opal session when this program itself goes wrong."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from tests.support.opal import Client, opal, outcomes, said, types
from tests.support.stage import ENDLESS, Stage, calls, says
from tests.support.surroundings import surroundings

from fairlead.testing import ProviderServer

#: A server whose sessions have tools that break what no tool should be able to break.
BROKEN = """
import asyncio, sys
from fairlead.agent.options import AgentOptions
from fairlead.core.tool import Tool
from fairlead.wire.opal.opal_server import serve_sessions
from fairlead.wire.stdio import take_over

class Fault(BaseException):
    pass

async def crash(arguments, context):
    raise Fault("out of the blue")

async def leave(arguments, context):
    sys.exit(3)

tools = [Tool(name=run.__name__, description="", parameters={"type": "object"}, run=run) for run in (crash, leave)]
raise SystemExit(asyncio.run(serve_sessions(AgentOptions(model="fake/fake-1", extra_tools=tools), *take_over())))
"""


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "in memory"])
def test_a_session_is_recovered_from_a_fault_and_usable_at_once(tmp_path: Path, kept: bool) -> None:
    with ProviderServer([calls(("crash", {})), says("back again")]) as provider:
        around = surroundings(tmp_path, provider.url, files={"AGENTS.md": "Be brief."})
        with Stage([sys.executable, "-c", BROKEN, "--dialect", "opal"], around.cwd, around.env) as host:
            client = Client(host)
            session = client.start(session=kept)
            events = client.prompt(session, "go")
            assert types(events)[-2:] == ["tool_execution_end", "error"]
            assert "out of the blue" in events[-1]["reason"]
            client.until("agent_recovered", session)
            client.until("context_discovered", session, nth=2)
            after = [event["type"] for event in client.events(session)]
            assert after[after.index("error") :] == ["error", "agent_recovered", "context_discovered"]
            assert client.is_idle(session)
            history = client.call("session/history", session_id=session)["messages"]
            assert [message["role"] for message in history] == ["user", "assistant"]
            assert said(client.prompt(session, "still there?")) == "back again"
            assert client.host.leave() == 0


def test_an_interrupt_aborts_all_runs_and_the_server_continues(tmp_path: Path) -> None:
    with opal(tmp_path, [{"match": "hang", **ENDLESS}, says("fine")]) as client:
        sessions = [client.start(session=True) for _ in range(3)]
        for session in sessions:
            client.send("agent/prompt", session_id=session, text="hang")
        for session in sessions:
            client.until("message_delta", session)
        client.host.signal(signal.SIGINT)
        assert [client.ended(session)["type"] for session in sessions] == ["agent_abort"] * 3
        assert said(client.prompt(sessions[0], "go on")) == "fine"


def test_a_terminated_server_reports_every_run_before_it_ends(tmp_path: Path) -> None:
    with opal(tmp_path, [ENDLESS]) as client:
        sessions = [client.start(session=True) for _ in range(3)]
        for session in sessions:
            client.send("agent/prompt", session_id=session, text="hang")
            client.until("message_delta", session)
        client.host.signal(signal.SIGTERM)
        assert client.host.exit_code() == 143
        assert [client.events(session)[-1]["type"] for session in sessions] == ["agent_abort"] * 3


def test_a_tool_that_tries_to_end_the_process_fails_alone(tmp_path: Path) -> None:
    with ProviderServer([calls(("leave", {})), says("still here")]) as provider:
        around = surroundings(tmp_path, provider.url)
        with Stage([sys.executable, "-c", BROKEN, "--dialect", "opal"], around.cwd, around.env) as host:
            client = Client(host)
            events = client.prompt(client.start(), "go")
            assert "tried to end the process" in outcomes(events)["leave"]["error"]
            assert said(events) == "still here"
