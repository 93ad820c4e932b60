"""pi's own RpcClient, of two versions, must work against this program as it does against pi."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from bench.peers import PI_073, PI_087, Peer

#: Runs a script with a client of pi's against an agent that plays the given turns; see `conftest.py`.
Drive = Callable[..., Any]

pytestmark = pytest.mark.system

clients = pytest.mark.parametrize("client", [PI_073, PI_087], ids=["pi-0.73", "pi-0.87"])

BASH = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo from the shell"}}]}
SLOW = {"text": "word " * 2000, "delayMs": 5}


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types of events, each run of like ones once."""
    return [kind for kind, _ in groupby(event["type"] for event in events)]


@clients
def test_a_prompt_is_answered(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const before = await client.getState();
        const events = await client.promptAndWait("Say hello.");
        return { before, events, text: await client.getLastAssistantText(), messages: await client.getMessages() };
        """,
        [{"text": "Hello there."}],
    )
    assert result["before"]["model"]["id"] == "one"
    assert result["before"]["isStreaming"] is False
    assert result["text"] == "Hello there."
    assert [message["role"] for message in result["messages"]] == ["user", "assistant"]


@clients
def test_a_tool_runs_and_its_result_reaches_the_model(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const events = await client.promptAndWait("Use the shell.");
        return { events, messages: await client.getMessages() };
        """,
        [BASH, {"text": "Done."}],
    )
    ends = [event for event in result["events"] if event["type"] == "tool_execution_end"]
    assert [end["result"]["content"][0]["text"].strip() for end in ends] == ["from the shell"]
    assert [message["role"] for message in result["messages"]] == ["user", "assistant", "toolResult", "assistant"]


@clients
def test_an_abort_keeps_what_had_arrived(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.prompt("Talk for long.");
        await until((event) => event.assistantMessageEvent?.type === "text_delta");
        await client.abort();
        return { messages: await client.getMessages(), state: await client.getState() };
        """,
        [SLOW],
    )
    last = result["messages"][-1]
    assert last["stopReason"] == "aborted"
    assert last["content"][0]["text"].startswith("word")
    assert result["state"]["isStreaming"] is False


@clients
def test_steering_and_follow_ups_are_heard(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.prompt("Begin.");
        await until((event) => event.assistantMessageEvent?.type === "text_delta");
        await client.steer("Turn left.");
        await client.followUp("Then rest.");
        const queued = await client.getState();
        await until((event) => event.type === "agent_end");
        return { queued: queued.pendingMessageCount, messages: await client.getMessages() };
        """,
        [{"text": "word " * 100, "delayMs": 5}, {"text": "Left."}, {"text": "Resting."}],
    )
    assert result["queued"] == 2
    said = [message["content"][0]["text"] for message in result["messages"] if message["role"] == "user"]
    assert said == ["Begin.", "Turn left.", "Then rest."]


@clients
def test_a_host_runs_a_command_of_its_own(client: Peer, drive: Drive) -> None:
    result = drive(client, """return await client.bash("echo out; exit 3");""", [{"text": "unused"}])
    assert result["output"].strip() == "out"
    assert result["exitCode"] == 3


@clients
def test_a_refusal_reaches_the_caller_as_an_error(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        try { await client.setModel("nobody", "nothing"); } catch (error) { return error.message; }
        return "accepted";
        """,
        [{"text": "unused"}],
    )
    assert "nobody/nothing" in result


def test_events_come_in_the_order_of_pi_itself(drive: Drive) -> None:
    script = """return await client.promptAndWait("Use the shell.");"""
    turns = [BASH, {"text": "Done."}]
    ours, theirs = (drive(PI_087, script, turns, agent=agent) for agent in (None, PI_087))
    # pi reports its system prompt as a message of the conversation; here that is no message.
    theirs = [event for event in theirs if event.get("message", {}).get("role") != "system"]
    assert kinds(ours) == kinds(theirs)
