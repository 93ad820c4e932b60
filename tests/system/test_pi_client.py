"""pi's own RpcClient, of three versions, must work against this program as it does against pi."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.contestants import Turn
from bench.peers import PI_087, PI_15, Peer
from tests.system.pi_clients import WAIT, Drive, clients, kinds, roles, rpc_client, said

pytestmark = pytest.mark.system

BASH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo from the shell"}}]}
SLOW: Turn = {"text": "word " * 2000, "delayMs": 5}
OVERLOADED: Turn = {"status": 529, "error": "Overloaded"}


@clients
def test_no_method_of_the_client_is_left_out(client: Peer) -> None:
    client.command()
    public = set(re.findall(r"^    (\w+)\(", rpc_client(client).with_suffix(".d.ts").read_text(), re.MULTILINE))
    here = Path(__file__).parent
    scripts = [*here.glob("test_pi_client*.py"), here / "client_harness.mjs"]
    called = {name for script in scripts for name in re.findall(r"\bclient\.(\w+)\(", script.read_text())}
    assert len(public) > 30
    assert public - called == {"constructor"}


# Prompting


@clients
def test_a_prompt_is_answered(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const before = await client.getState();
        const nothing = await client.getLastAssistantText();
        const events = await client.promptAndWait("Say hello.");
        const after = { text: await client.getLastAssistantText(), messages: await client.getMessages() };
        return { before, nothing, events, ...after, stderr: client.getStderr() };
        """,
        {"text": "Hello there."},
    )
    assert result["before"]["model"]["id"] == "one"
    assert result["before"]["isStreaming"] is False
    assert result["nothing"] is None
    assert kinds(result["events"])[0] == "agent_start"
    assert result["text"] == "Hello there."
    assert roles(result["messages"]) == ["user", "assistant"]
    assert result["stderr"] == ""


@clients
def test_a_prompt_can_bring_an_image(client: Peer, drive: Drive) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = f'{{ type: "image", data: "{pixel}", mimeType: "image/png" }}'
    result = drive(
        client,
        f"""
        await client.setModel("scripted", "two");
        await client.promptAndWait("What is this?", [{image}]);
        return await client.getMessages();
        """,
        {"text": "A pixel."},
    )
    assert result[0]["content"][1] == {"type": "image", "data": pixel, "mimeType": "image/png"}


@clients
def test_a_tool_runs_and_its_result_reaches_the_model(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const events = await client.promptAndWait("Use the shell.");
        return { events, messages: await client.getMessages() };
        """,
        BASH,
        {"text": "Done."},
    )
    ends = [event for event in result["events"] if event["type"] == "tool_execution_end"]
    assert [end["result"]["content"][0]["text"].strip() for end in ends] == ["from the shell"]
    assert roles(result["messages"]) == ["user", "assistant", "toolResult", "assistant"]


@clients
def test_a_host_waits_for_the_end_and_collects_what_leads_to_it(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const waiting = client.waitForIdle();
        await client.prompt("One.");
        await waiting;
        const state = await client.getState();
        await until((event) => ["agent_end", "agent_settled"].includes(event.type)); // the latter since 0.80
        const collecting = client.collectEvents();
        await client.prompt("Two.");
        return { state, events: await collecting, messages: await client.getMessages() };
        """,
        {"text": "Hello there."},
    )
    assert result["state"]["messageCount"] == 2
    assert kinds(result["events"])[:2] == ["agent_start", "turn_start"]
    assert "agent_end" in kinds(result["events"])
    assert said(result["messages"]) == ["One.", "Two."]


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
        SLOW,
    )
    last = result["messages"][-1]
    assert last["stopReason"] == "aborted"
    assert last["content"][0]["text"].startswith("word")
    assert result["state"]["isStreaming"] is False


def test_events_come_in_the_order_of_pi_itself(drive: Drive) -> None:
    script = """return await client.promptAndWait("Use the shell.");"""
    turns = [BASH, {"text": "Done."}]
    ours, theirs = (drive(PI_087, script, *turns, agent=agent) for agent in (None, PI_087))
    # pi reports its system prompt as a message of the conversation; here that is no message.
    theirs = [event for event in theirs if event.get("message", {}).get("role") != "system"]
    assert kinds(ours) == kinds(theirs)


def test_a_host_learns_the_outcome_of_a_message(drive: Drive) -> None:
    result = drive(
        PI_15,
        """
        const idle = [await client.steer("Before."), await client.clearQueue()];
        const done = client.waitForIdle();
        const started = await client.prompt("Begin.");
        await until((event) => event.type === "tool_execution_start");
        const queued = [await client.prompt("Left.", [], "steer"), await client.steer("Right."), await client.followUp("Rest.")];
        const refused = await refusal(client.prompt("Now."));
        await client.bash("touch go");
        await done;
        const events = await client.promptAndWait("Again.");
        return { idle, started, queued, refused, settled: events.at(-1) };
        """,
        WAIT,
        {"text": "Done."},
    )
    assert result["idle"] == ["queued", {"steering": ["Before."], "followUp": []}]
    assert (result["started"], result["queued"]) == ("started", ["queued", "queued", "queued"])
    assert result["refused"].startswith("Agent is already processing")
    assert result["settled"] == {"type": "agent_settled", "aborted": False}


# Queues


@clients
def test_steering_and_follow_ups_are_delivered(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const done = client.waitForIdle();
        await client.prompt("Begin.");
        await until((event) => event.type === "tool_execution_start");
        await client.steer("Turn left.");
        await client.followUp("Then rest.");
        const queued = await client.getState();
        await client.bash("touch go");
        await done;
        return { queued: queued.pendingMessageCount, messages: await client.getMessages() };
        """,
        WAIT,
        {"text": "Left."},
        {"text": "Resting."},
    )
    assert result["queued"] == 2
    assert said(result["messages"]) == ["Begin.", "Turn left.", "Then rest."]


@clients
def test_a_turn_takes_one_queued_message_or_all_of_them(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const before = await client.getState();
        await client.setSteeringMode("all");
        await client.setFollowUpMode("all");
        const after = await client.getState();
        const done = client.waitForIdle();
        await client.prompt("Begin.");
        await until((event) => event.type === "tool_execution_start");
        for (const text of ["Left.", "Right."]) await client.steer(text);
        for (const text of ["Stop.", "Rest."]) await client.followUp(text);
        await client.bash("touch go");
        await done;
        return { before, after, messages: await client.getMessages() };
        """,
        WAIT,
        {"text": "Turning."},
        {"text": "Resting."},
    )
    modes = [(state["steeringMode"], state["followUpMode"]) for state in (result["before"], result["after"])]
    assert modes == [("one-at-a-time", "one-at-a-time"), ("all", "all")]
    heard = [role for role in roles(result["messages"]) if role in ("user", "assistant")]
    assert heard == ["user", "assistant", "user", "user", "assistant", "user", "user", "assistant"]


def test_queued_messages_can_be_withdrawn(drive: Drive) -> None:
    result = drive(
        PI_087,
        """
        const done = client.waitForIdle();
        await client.prompt("Begin.");
        await until((event) => event.type === "tool_execution_start");
        await client.steer("Turn left.");
        await client.followUp("Then rest.");
        const cleared = await client.clearQueue();
        const state = await client.getState();
        await client.bash("touch go");
        await done;
        return { cleared, pending: state.pendingMessageCount, messages: await client.getMessages() };
        """,
        WAIT,
        {"text": "Done."},
    )
    assert result["cleared"] == {"steering": ["Turn left."], "followUp": ["Then rest."]}
    assert result["pending"] == 0
    assert said(result["messages"]) == ["Begin."]


# Retry


@clients
def test_waiting_for_another_attempt_can_be_called_off(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.prompt("Say hello.");
        await until((event) => event.type === "auto_retry_start");
        await client.abortRetry();
        return await until((event) => event.type === "auto_retry_end");
        """,
        OVERLOADED,
    )
    assert (result["success"], result["attempt"], result["finalError"]) == (False, 1, "Retry cancelled")


@clients
def test_a_host_can_do_without_retries(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.setAutoRetry(false);
        await client.promptAndWait("Say hello.");
        return seen;
        """,
        OVERLOADED,
    )
    assert "auto_retry_start" not in kinds(result)
    failed = next(event["messages"][-1] for event in result if event["type"] == "agent_end")
    assert (failed["stopReason"], "Overloaded" in failed["errorMessage"]) == ("error", True)


# Models and thinking


@clients
def test_a_host_chooses_among_the_available_models(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const available = await client.getAvailableModels();
        const chosen = await client.setModel("scripted", "two");
        const state = await client.getState();
        return { available, chosen, state, cycled: await client.cycleModel(), after: await client.getState() };
        """,
    )
    assert [(model["provider"], model["id"], model["reasoning"]) for model in result["available"]] == [
        ("scripted", "one", False),
        ("scripted", "two", True),
    ]
    assert result["chosen"]["id"] == result["state"]["model"]["id"] == "two"
    assert result["cycled"]["model"]["id"] == result["after"]["model"]["id"] == "one"
    assert (result["cycled"]["thinkingLevel"], result["cycled"]["isScoped"]) == ("off", False)


@clients
def test_a_model_that_is_not_there_is_refused(client: Peer, drive: Drive) -> None:
    result = drive(client, """return await refusal(client.setModel("nobody", "nothing"));""")
    assert result == "Model not found: nobody/nothing"


@clients
def test_a_host_sets_how_much_a_model_thinks(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const never = await client.cycleThinkingLevel();
        await client.setModel("scripted", "two");
        await client.setThinkingLevel("low");
        const low = await client.getState();
        const cycled = await client.cycleThinkingLevel();
        return { never, low, cycled, after: await client.getState() };
        """,
    )
    assert result["never"] is None
    assert result["low"]["thinkingLevel"] == "low"
    assert result["cycled"] == {"level": "medium"}
    assert result["after"]["thinkingLevel"] == "medium"


def test_a_host_learns_which_thinking_levels_a_model_has(drive: Drive) -> None:
    result = drive(
        PI_087,
        """
        const one = await client.getAvailableThinkingLevels();
        await client.setModel("scripted", "two");
        return [one, await client.getAvailableThinkingLevels()];
        """,
    )
    assert result == [["off"], ["off", "minimal", "low", "medium", "high"]]


# The machine


@clients
def test_a_host_runs_a_command_of_its_own(client: Peer, drive: Drive) -> None:
    result = drive(client, """return await client.bash("echo out; exit 3");""")
    assert result["output"].strip() == "out"
    assert result["exitCode"] == 3


@clients
def test_a_host_stops_a_command_of_its_own(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const running = client.bash("sleep 60");
        await client.abortBash();
        return await running;
        """,
    )
    assert result["cancelled"] is True
    assert "exitCode" not in result


@clients
def test_a_home_without_extras_has_no_commands(client: Peer, drive: Drive) -> None:
    assert drive(client, "return await client.getCommands();") == []
