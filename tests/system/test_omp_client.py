"""omp's own RpcClient, of two versions, must work against this program as it does against omp."""

from __future__ import annotations

import json
import sys

import pytest
from bench.contestants import Turn
from bench.peers import OmpClient
from tests.system import test_omp_client_sessions, test_omp_client_work
from tests.system.omp_clients import DriveOmp, client_18, clients, methods_called
from tests.system.pi_clients import WAIT, kinds, roles, said

pytestmark = pytest.mark.system

BASH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo from the shell"}}]}
SLOW: Turn = {"text": "word " * 2000, "delayMs": 5}
OVERLOADED: Turn = {"status": 529, "error": "Overloaded"}

#: What no test calls, and why.
LEFT_OUT = {"onAvailableCommandsUpdate": "the commands of this program are the same at all times, so there is nothing to tell"}


@clients
def test_no_method_of_the_client_is_left_out(client: OmpClient, drive_omp: DriveOmp) -> None:
    public = set(drive_omp(client, "return Object.getOwnPropertyNames(Object.getPrototypeOf(client));"))
    called = methods_called(client, [sys.modules[__name__], test_omp_client_sessions, test_omp_client_work])
    assert len(public) > 35
    assert public - called - set(LEFT_OUT) == set()
    assert not called & set(LEFT_OUT)


# Starting and stopping


@clients
def test_an_agent_that_cannot_start_is_given_up(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const other = new client.constructor({ ...options, model: "nobody/nothing" });
        return await refusal(other.start());
        """,
    )
    assert "exited" in result or "ended before ready" in result


@client_18
def test_a_stopped_client_can_be_started_again(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const first = await client.getState();
        const waiting = refusal(client.bash("sleep 60"));
        await client.stop();
        await client.start();
        await client.promptAndWait("Say hello.");
        return { first, waiting: await waiting, second: await client.getState(), text: await client.getLastAssistantText() };
        """,
        {"text": "Hello again."},
    )
    assert result["waiting"] == "Client stopped"
    assert result["first"]["sessionId"] != result["second"]["sessionId"]
    assert result["text"] == "Hello again."


@client_18
def test_messages_of_any_length_arrive_whole(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const long = "x".repeat(3 * 1024 * 1024);
        const events = await client.promptAndWait(long);
        const told = events.filter((event) => event.type === "message_end").map((event) => event.message);
        const lengths = [told, await client.getMessages()].map((all) => all.map((each) => each.content[0].text.length));
        return { lengths, end: events.at(-1) };
        """,
        {"text": "y" * 1_500_000, "chunk": 50_000},
    )
    assert result["lengths"] == [[3 * 1024 * 1024, 1_500_000]] * 2
    # So it is in version 2 of the protocol, which the client chooses by itself: nothing that would not fit is said twice.
    assert (result["end"]["type"], result["end"]["messages"], result["end"]["messageCount"]) == ("agent_end", [], 2)


# Prompting


@clients
def test_a_prompt_is_answered(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
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
    before = result["before"]
    assert (before["model"]["id"], before["isStreaming"], before["interruptMode"]) == ("one", False, "immediate")
    assert result["nothing"] is None
    assert kinds(result["events"]) == [
        *("agent_start", "turn_start", "message_start", "message_end"),
        *("message_start", "message_update", "message_end", "turn_end", "agent_end"),
    ]
    assert result["text"] == "Hello there."
    assert roles(result["messages"]) == ["user", "assistant"]
    assert result["stderr"] == ""


@clients
def test_a_prompt_can_bring_an_image(client: OmpClient, drive_omp: DriveOmp) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = {"type": "image", "data": pixel, "mimeType": "image/png"}
    result = drive_omp(
        client,
        f"""
        await client.setModel("scripted", "two");
        await client.promptAndWait("What is this?", [{json.dumps(image)}]);
        return await client.getMessages();
        """,
        {"text": "A pixel."},
    )
    assert result[0]["content"][1] == image


@clients
def test_a_host_waits_for_the_end_and_collects_what_leads_to_it(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const waiting = client.waitForIdle();
        await client.prompt("One.");
        await waiting;
        const { messageCount } = await client.getState();
        const collecting = client.collectEvents();
        await client.prompt("Use the shell.");
        return { messageCount, events: await collecting, messages: await client.getMessages() };
        """,
        {"text": "Hello there."},
        BASH,
        {"text": "Done."},
    )
    assert result["messageCount"] == 2
    ends = [event for event in result["events"] if event["type"] == "tool_execution_end"]
    assert [end["result"]["content"][0]["text"].strip() for end in ends] == ["from the shell"]
    assert (kinds(result["events"])[0], kinds(result["events"])[-1]) == ("agent_start", "agent_end")
    assert roles(result["messages"][2:]) == ["user", "assistant", "toolResult", "assistant"]


@client_18
def test_a_host_receives_the_outcome_of_each_prompt(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const results = [];
        let settled = 0;
        client.onPromptResult((result) => results.push(result));
        client.onSessionSettled(() => settled++);
        await client.waitForSettled();
        const states = [await client.getState()];
        const ids = [await client.prompt("Talk for long.")];
        states.push(await client.getState());
        const busy = await client.prompt("Not now.");
        await until((event) => event.assistantMessageEvent?.type === "text_delta");
        await client.abort();
        await client.waitForSettled();
        ids.push(await client.prompt("Say hello."));
        await client.waitForSettled();
        ids.push(await client.prompt("Fail."));
        await client.waitForSettled();
        return { results, settled, ids, busy, states: states.map((state) => state.isSettled) };
        """,
        SLOW,
        {"text": "Hello there."},
        {"status": 400, "error": "Not that."},
    )
    assert result["states"] == [True, False]
    assert result["settled"] == 3
    refused, *others = result["results"]
    assert (refused["id"], refused["agentInvoked"], refused["status"]) == (result["busy"], False, "error")
    assert "already processing" in refused["error"]["message"]
    assert [each["id"] for each in others] == result["ids"]
    assert [each["status"] for each in others] == ["aborted", "completed", "error"]
    assert "Not that." in others[2]["error"]["message"]


# Stopping short


@clients
def test_an_abort_keeps_what_had_arrived(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
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


@clients
def test_a_prompt_takes_the_place_of_what_runs(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.prompt("Talk for long.");
        await until((event) => event.assistantMessageEvent?.type === "text_delta");
        await client.abortAndPrompt("Be brief.");
        await until((event) => event.type === "agent_end" && event.messages.at(-1).stopReason === "stop");
        return await client.getMessages();
        """,
        SLOW,
        {"text": "Yes."},
    )
    assert said(result) == ["Talk for long.", "Be brief."]
    assert [message["stopReason"] for message in result if message["role"] == "assistant"] == ["aborted", "stop"]


# Queues


@clients
def test_steering_and_follow_ups_are_delivered(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
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
        return { queued: queued.queuedMessageCount, messages: await client.getMessages() };
        """,
        WAIT,
        {"text": "Left."},
        {"text": "Resting."},
    )
    assert result["queued"] == 2
    assert said(result["messages"]) == ["Begin.", "Turn left.", "Then rest."]


@clients
def test_a_turn_takes_one_queued_message_or_all_of_them(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
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


# Retry


@clients
def test_waiting_for_another_attempt_can_be_called_off(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.prompt("Say hello.");
        await until((event) => event.message?.stopReason === "error" && event.type === "message_end");
        await client.abortRetry();
        await until((event) => event.type === "agent_end");
        return seen;
        """,
        OVERLOADED,
    )
    assert [event["message"]["role"] for event in result if event["type"] == "message_end"] == ["user", "assistant"]


@clients
def test_a_host_can_do_without_retries(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.setAutoRetry(false);
        return await client.promptAndWait("Say hello.");
        """,
        OVERLOADED,
    )
    assert roles(result[-1]["messages"]) == ["user", "assistant"]
    assert "Overloaded" in result[-1]["messages"][-1]["errorMessage"]


# Events


@client_18
def test_a_host_receives_agent_events_or_all_events(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const ofAgent = [];
        const forget = client.onEvent((event) => ofAgent.push(event));
        await client.prompt("Say hello.");
        await until((event) => event.type === "auto_retry_start");
        await client.abortRetry();
        const end = await until((event) => event.type === "auto_retry_end");
        await until((event) => event.type === "agent_end");
        forget();
        await client.promptAndWait("Again.");
        return { end, ofAgent, seen };
        """,
        OVERLOADED,
        {"text": "Hello there."},
    )
    end = result["end"]
    assert (end["success"], end["attempt"], end["finalError"]) == (False, 1, "Retry cancelled")
    types = [event["type"] for event in result["seen"]]
    told = result["seen"][: types.index("agent_end") + 1]
    assert result["ofAgent"] == [event for event in told if not event["type"].startswith("auto_retry_")]


@client_18
def test_a_host_receives_only_the_events_it_selected(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const answers = [await client.setEventFilter(["turn_end"])];
        await client.promptAndWait("One.");
        const some = seen.length;
        answers.push(await client.setEventFilter(null));
        await client.promptAndWait("Two.");
        return { answers, seen, some, refused: await refusal(client.setEventFilter([""])) };
        """,
        {"text": "Hello there."},
    )
    assert result["answers"] == [["turn_end"], None]
    assert kinds(result["seen"][: result["some"]]) == ["turn_end"]
    assert kinds(result["seen"][result["some"] :])[0] == "agent_start"
    assert result["refused"] == "events must be null or an array of non-empty event type strings"
