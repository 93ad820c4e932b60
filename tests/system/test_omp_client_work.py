"""What omp's own RpcClient, of two versions, can do with models, with tools and with the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.contestants import Turn
from bench.peers import OMP_18, OmpClient
from tests.system.omp_clients import DriveOmp, client_18, clients
from tests.system.pi_clients import roles, said

pytestmark = pytest.mark.system

#: Tools of the host's, in the form that the client takes them.
TOOLS = """
const word = { type: "object", properties: { word: { type: "string" } }, required: ["word"] };
const lookup = {
  name: "lookup",
  description: "Looks up a word.",
  parameters: word,
  execute({ word }, { sendUpdate }) {
    sendUpdate("turning pages");
    return `${word}: a ring that guides a rope`;
  },
};
const shelve = {
  name: "shelve",
  description: "Puts a book back.",
  parameters: word,
  async execute() {
    throw new Error("The shelf is full.");
  },
};
"""


def calls(*names_and_arguments: tuple[str, Any]) -> Turn:
    return {"toolCalls": [{"name": name, "arguments": arguments} for name, arguments in names_and_arguments]}


# Models and thinking


@clients
def test_a_host_chooses_among_the_available_models(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const available = await client.getAvailableModels();
        const chosen = await client.setModel("scripted", "two");
        const state = await client.getState();
        const cycled = await client.cycleModel();
        const refused = await refusal(client.setModel("nobody", "nothing"));
        return { available, chosen, state, cycled, refused, after: await client.getState() };
        """,
    )
    assert [(model["provider"], model["id"], model["reasoning"]) for model in result["available"]] == [
        ("scripted", "one", False),
        ("scripted", "two", True),
    ]
    assert result["chosen"]["id"] == result["state"]["model"]["id"] == "two"
    assert result["cycled"]["model"]["id"] == result["after"]["model"]["id"] == "one"
    assert result["cycled"]["isScoped"] is False
    assert result["refused"] == "Model not found: nobody/nothing"


@clients
def test_a_host_sets_how_much_a_model_thinks(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const never = [await client.cycleThinkingLevel(), await client.getState()];
        await client.setModel("scripted", "two");
        await client.setThinkingLevel("low");
        const low = await client.getState();
        return { never, low, cycled: await client.cycleThinkingLevel(), after: await client.getState() };
        """,
    )
    nothing, state = result["never"]
    assert nothing is None
    assert state["thinkingLevel"] == "off"
    assert result["low"]["thinkingLevel"] == "low"
    assert result["cycled"] == {"level": "medium"}
    assert result["after"]["thinkingLevel"] == "medium"


@client_18
def test_a_host_learns_which_thinking_levels_a_model_has(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const one = await client.getAvailableThinkingLevels();
        await client.setModel("scripted", "two");
        return [one, await client.getAvailableThinkingLevels()];
        """,
    )
    assert result == [["off"], ["off", "minimal", "low", "medium", "high"]]


@clients
def test_a_host_learns_which_providers_have_a_key(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const refused = [await refusal(client.login("scripted")), await refusal(client.login("nobody"))];
        return { providers: await client.getLoginProviders(), refused };
        """,
    )
    assert {"id": "scripted", "name": "scripted", "available": False, "authenticated": True} in result["providers"]
    assert result["refused"][0].startswith("There is no login for scripted.")
    assert result["refused"][1] == "Unknown OAuth provider: nobody"


@client_18
def test_a_host_asks_for_a_faster_mode(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(client, "return [await client.setFastMode(false), await client.setFastMode(true)];")
    assert result == [{"enabled": False, "active": False}, {"enabled": True, "active": False}]


# The machine


@clients
def test_a_host_runs_commands_of_its_own(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const done = await client.bash("echo out; exit 3");
        const running = client.bash("sleep 60");
        await client.abortBash();
        return { done, cancelled: await running };
        """,
    )
    done, cancelled = result["done"], result["cancelled"]
    assert (done["output"].strip(), done["exitCode"], done["cancelled"]) == ("out", 3, False)
    assert cancelled["cancelled"] is True
    assert cancelled["output"].startswith("[Command cancelled]")
    assert "exitCode" not in cancelled


@client_18
def test_a_home_without_extras_has_no_commands(client: OmpClient, drive_omp: DriveOmp) -> None:
    assert drive_omp(client, "return await client.getAvailableCommands();") == []


# Tools of the host's


@clients
def test_the_model_uses_the_tools_of_the_host(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        TOOLS
        + """
        const names = await client.setCustomTools([lookup, shelve]);
        const events = await client.promptAndWait("Look it up.");
        return { names, events, messages: await client.getMessages() };
        """,
        calls(("lookup", {"word": "fairlead"}), ("shelve", {"word": "book"}), ("lookup", {})),
        {"text": "Done."},
    )
    assert result["names"] == ["lookup", "shelve"]
    results = [message for message in result["messages"] if message["role"] == "toolResult"]
    outcomes = {(each["toolName"], each["isError"]): each["content"][0]["text"] for each in results}
    assert outcomes["lookup", False] == "fairlead: a ring that guides a rope"
    assert outcomes["shelve", True] == "The shelf is full."
    assert outcomes["lookup", True].startswith('Validation failed for tool "lookup"')
    [update] = (event for event in result["events"] if event["type"] == "tool_execution_update")
    assert update["partialResult"]["content"] == [{"type": "text", "text": "turning pages"}]


@clients
def test_the_tools_of_the_host_are_there_from_the_start(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        TOOLS
        + """
        const found = { content: [{ type: "text", text: "page 3" }], details: { page: 3 } };
        const other = new client.constructor({ ...options, customTools: [{ ...lookup, execute: () => found }] });
        await other.start();
        await other.promptAndWait("Look it up.");
        const messages = await other.getMessages();
        await other.stop();
        return messages;
        """,
        calls(("lookup", {"word": "fairlead"})),
        {"text": "Done."},
    )
    assert roles(result) == ["user", "assistant", "toolResult", "assistant"]
    assert (result[2]["content"][0]["text"], result[2]["details"]) == ("page 3", {"page": 3})


@clients
def test_tools_of_the_host_come_and_go(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        TOOLS
        + """
        await client.setCustomTools([lookup]);
        const refused = await refusal(client.setCustomTools([{ ...shelve, name: "bash" }]));
        const names = await client.setCustomTools([shelve]);
        await client.promptAndWait("Look it up.");
        return { refused, names, messages: await client.getMessages() };
        """,
        calls(("lookup", {"word": "fairlead"})),
        {"text": "Never mind."},
    )
    assert result["refused"] == 'RPC host tool "bash" conflicts with an existing tool'
    assert result["names"] == ["shelve"]
    [gone] = (message for message in result["messages"] if message["role"] == "toolResult")
    assert (gone["content"][0]["text"].partition("\n")[0], gone["isError"]) == ("Tool lookup not found", True)


@clients
def test_an_abort_reaches_the_tools_of_the_host(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        TOOLS
        + """
        const { promise: begun, resolve: begin } = Promise.withResolvers();
        const { promise: told, resolve: tell } = Promise.withResolvers();
        const execute = (_, { signal }) => {
          begin();
          return new Promise((resolve) => signal.addEventListener("abort", () => { tell("aborted"); resolve("too late"); }));
        };
        await client.setCustomTools([{ ...lookup, execute }]);
        await client.prompt("Look it up.");
        await begun;
        await client.abort();
        return { told: await told, messages: await client.getMessages(), state: await client.getState() };
        """,
        calls(("lookup", {"word": "fairlead"})),
    )
    assert result["told"] == "aborted"
    _, _, given_up, last = result["messages"]
    assert (given_up["content"][0]["text"], given_up["isError"]) == ('Host tool "lookup" was aborted', True)
    assert last["stopReason"] == "aborted"
    assert result["state"]["isStreaming"] is False


# Todos


@clients
def test_a_host_sees_what_there_is_to_do(client: OmpClient, drive_omp: DriveOmp) -> None:
    tasks = [{"content": "Measure"}, {"content": "Cut"}]
    result = drive_omp(
        client,
        """
        await client.promptAndWait("Make a plan.");
        const { todoPhases } = await client.getState();
        return { todoPhases, messages: await client.getMessages(), seen };
        """,
        calls(("todo_write", {"ops": [{"op": "replace", "phases": [{"name": "Rope", "tasks": tasks}]}]})),
        calls(("todo_write", {"ops": [{"op": "update", "id": "task-1", "status": "completed"}]})),
        {"text": "That will do."},
        calls(("todo_write", {"ops": [{"op": "update", "id": "task-2", "status": "abandoned"}]})),
        {"text": "Done."},
    )
    [phase] = result["todoPhases"]
    assert phase["name"] == "Rope"
    assert [(task["content"], task["status"]) for task in phase["tasks"]] == [("Measure", "completed"), ("Cut", "abandoned")]
    assert said(result["messages"][-1:], "assistant") == ["Done."]
    reminders = [[todo["content"] for todo in event["todos"]] for event in result["seen"] if event["type"] == "todo_reminder"]
    assert reminders == ([["Cut"]] if client == OMP_18 else [])  # the client of 14 passes on what the agent does, no more


# Sub-agents


@client_18
def test_a_host_follows_the_sub_agents(client: OmpClient, drive_omp: DriveOmp) -> None:
    work = {"agent": "task", "tasks": [{"id": "Splice", "description": "a splice", "assignment": "Splice the rope."}]}
    result = drive_omp(
        client,
        """
        const heard = { lifecycle: [], progress: [], events: [] };
        client.onSubagentLifecycle((payload) => heard.lifecycle.push(payload));
        client.onSubagentProgress((payload) => heard.progress.push(payload));
        client.onSubagentEvent((payload) => heard.events.push(payload));
        const levels = [await client.setSubagentSubscription("events")];
        await client.promptAndWait("Have it done.");
        const subagents = await client.getSubagents();
        const whole = await client.getSubagentMessages({ subagentId: subagents[0].id });
        const rest = await client.getSubagentMessages({ sessionFile: whole.sessionFile, fromByte: whole.nextByte });
        const unknown = await refusal(client.getSubagentMessages({ subagentId: "nobody" }));
        levels.push(await client.setSubagentSubscription("off"));
        return { heard, levels, subagents, whole, rest, unknown };
        """,
        {"match": "Splice the rope.", "text": "Spliced."},
        calls(("task", work)),
        {"text": "Done."},
    )
    heard, [subagent], whole = result["heard"], result["subagents"], result["whole"]
    assert result["levels"] == ["events", "off"]
    assert [payload["status"] for payload in heard["lifecycle"]] == ["started", "completed"]
    assert {payload["id"] for payload in (*heard["lifecycle"], *heard["events"])} == {subagent["id"]}
    assert heard["progress"][-1]["progress"]["status"] == "completed"
    [end] = (payload["event"] for payload in heard["events"] if payload["event"]["type"] == "agent_end")
    assert said(end["messages"], "assistant") == ["Spliced."]
    assert said(whole["messages"], "assistant") == ["Spliced."]
    assert whole["nextByte"] == Path(whole["sessionFile"]).stat().st_size
    assert (result["rest"]["messages"], result["rest"]["fromByte"]) == ([], whole["nextByte"])
    assert "nobody" in result["unknown"]
