"""Host tools by decorator, and questions and approvals by handler."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from tests.client.agents import fairlead
from tests.client.fake_agent import PATIENCE, FakeAgent, Frame, fake_agent
from tests.support.stage import bash, calls, says

from fairlead import Allow, Deny, NewRule, ToolError, ToolResult
from fairlead.client import Approval, Client, ExtensionUiRequest, HostCall, events
from fairlead.core.functions import FunctionTool
from fairlead.messages import TextContent


@dataclass
class Shelf:
    row: int
    label: str = ""


def look_up(
    item: Annotated[str, "what to look for"],
    shelf: Shelf,
    kind: Literal["new", "old"] = "new",
    tags: list[str] = [],  # noqa: B006 (a default that a user may well write)
    limit: int | None = None,
    call: HostCall | None = None,
) -> str:
    """Find something in the shop.

    It looks everywhere.

    Args:
        shelf: where to look
        limit: how many at most,
            or all

    Returns:
        what was found
    """
    return item


def test_the_schema_of_a_function_comes_from_its_hints_and_docstring() -> None:
    tool = FunctionTool(look_up, [HostCall])
    assert (tool.name, tool.description) == ("look_up", "Find something in the shop.\n\nIt looks everywhere.")
    properties = tool.parameters["properties"]
    assert tool.parameters["required"] == ["item", "shelf"]
    assert properties["item"] == {"type": "string", "description": "what to look for"}
    assert properties["kind"] == {"enum": ["new", "old"], "default": "new"}
    assert properties["limit"]["description"] == "how many at most, or all"
    assert tool.parameters["$defs"]["Shelf"]["required"] == ["row"]


def test_arguments_become_the_declared_types() -> None:
    tool = FunctionTool(look_up, [HostCall])
    given = tool.arguments({"item": "lamp", "shelf": {"row": 3}}, None)
    assert (given["shelf"], given["kind"], given["tags"]) == (Shelf(3), "new", [])
    with pytest.raises(ToolError, match=r"Invalid arguments for look_up: .*row"):
        tool.arguments({"item": "lamp", "shelf": {"row": "three"}}, None)


def test_a_function_that_cannot_be_a_tool_is_refused() -> None:
    def silent() -> None: ...

    def spread(*items: str) -> None:
        """Take many."""

    def strange(thing: threading.Lock) -> None:  # pyright: ignore[reportGeneralTypeIssues, reportInvalidTypeForm]
        """Take a thing."""

    client = Client.start(["true"])
    for function, problem in ((silent, "needs a description"), (spread, "by name"), (lambda: 1, "needs a name")):
        with pytest.raises(TypeError, match=problem):
            client.tool(function)
    with pytest.raises(TypeError):
        client.tool(strange)


async def test_sync_and_async_tools_run_report_progress_and_fail(tmp_path: Path) -> None:
    turns = [calls(("count", {"item": "lamp"}), ("walk", {"steps": 2}), ("fail", {})), says("Done.")]
    async with fairlead(tmp_path / "a", *turns) as (client, provider):

        @client.tool
        def count(item: str) -> dict[str, int]:
            """Count things."""
            assert threading.current_thread() is not threading.main_thread()
            return {item: 3}

        @client.tool(description="Walk some steps")
        async def walk(steps: int, call: HostCall) -> ToolResult:
            for step in range(steps):
                call.progress(f"{step + 1} steps")
                await asyncio.sleep(0)
            return ToolResult([TextContent("there")], {"far": True})

        @client.tool
        def fail() -> None:
            """Fail."""
            raise LookupError("nothing here")

        ended: dict[str, Any] = {}
        progress: list[str] = []
        async with client.run("Do all of it.") as run:
            async for event in run:
                match event:
                    case events.ToolExecutionEnd():
                        ended[event.tool_name] = (event.raw["result"], event.is_error)
                    case events.ToolExecutionUpdate():
                        progress.append(event.raw["partialResult"]["content"][0]["text"])
                    case _:
                        pass
        assert (await run).text == "Done."
        assert ended["count"][0]["content"][0]["text"] == '{"lamp":3}'
        assert ended["walk"] == ({"content": [{"type": "text", "text": "there"}], "details": {"far": True}}, False)
        assert (ended["fail"][0]["content"][0]["text"], ended["fail"][1]) == ("nothing here", True)
        assert progress == ["1 steps", "2 steps"]
        assert {tool["name"] for tool in provider.requests[0].body["tools"]} >= {"count", "walk", "fail"}


async def test_an_abort_cancels_the_tools(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", calls(("wait", {}), ("block", {})), says("Next.")) as (client, _):
        cancelled: list[str] = []
        running = threading.Barrier(2, timeout=PATIENCE)
        woken = threading.Event()

        @client.tool
        async def wait() -> None:
            """Wait for ever."""
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancelled.append("wait")
                raise

        @client.tool
        def block(call: HostCall) -> str:
            """Block until cancelled."""
            running.wait()
            assert call.cancelled.wait(PATIENCE)
            woken.set()
            return "too late"

        run = await client.prompt("Wait.")
        await asyncio.to_thread(running.wait)
        await client.abort()
        assert (await run).aborted
        assert await asyncio.to_thread(woken.wait, PATIENCE)
        assert cancelled == ["wait"]
        assert (await client.ask("Next?")).text == "Next."


async def test_a_tool_with_a_time_limit_is_cancelled(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", calls(("wait", {})), says("Too slow.")) as (client, _):

        @client.tool(timeout=0.05)
        async def wait() -> None:
            """Wait for ever."""
            await asyncio.get_running_loop().create_future()

        result = await client.ask("Wait.")
        assert result.text == "Too slow."
        assert "did not finish within 0.05 seconds" in str(result.messages)


async def test_tools_can_be_published_before_the_next_prompt(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a") as (client, _):
        client.tool(look_up)
        await client.publish_tools()
        assert "look_up" in [tool.name for tool in (await client.get_tools()).tools]


# Questions

QUESTION: Frame = {"type": "extension_ui_request", "id": "q", "title": "Well?"}


async def answered(agent: FakeAgent, **question: Any) -> Frame:
    agent.say(QUESTION | question)
    answer = await agent.command("extension_ui_response")
    assert answer.pop("id") == "q"
    assert answer.pop("type") == "extension_ui_response"
    return answer


@pytest.mark.parametrize("method", ["select", "confirm", "input", "editor"])
async def test_without_a_handler_no_question_hangs(method: str) -> None:
    async with fake_agent() as (_, agent):
        assert await answered(agent, method=method, options=["Approve", "Deny"]) == {"cancelled": True}


async def test_a_handler_answers_questions() -> None:
    async with fake_agent() as (client, agent):

        @client.on_question
        def answer(request: ExtensionUiRequest) -> str | bool | None:
            match request.method:
                case "select":
                    assert request.options
                    return request.options[1]
                case "confirm":
                    return True
                case "input":
                    return "text"
                case _:
                    raise RuntimeError("no editor")

        assert await answered(agent, method="select", options=["a", "b"]) == {"value": "b"}
        assert await answered(agent, method="confirm", message="") == {"confirmed": True}
        assert await answered(agent, method="input") == {"value": "text"}
        assert await answered(agent, method="editor") == {"cancelled": True}
        agent.say(QUESTION | {"method": "notify", "message": "hello"})
        assert await answered(agent, method="input") == {"value": "text"}


async def test_a_question_that_is_withdrawn_cancels_its_handler() -> None:
    async with fake_agent() as (client, agent):
        asked, withdrawn = asyncio.Event(), asyncio.Event()

        @client.on_question
        async def wait(request: ExtensionUiRequest) -> None:
            asked.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                withdrawn.set()

        agent.say(QUESTION | {"method": "input"})
        await asked.wait()
        agent.say({"type": "extension_ui_request", "id": "c", "method": "cancel", "targetId": "q"})
        await asyncio.wait_for(withdrawn.wait(), PATIENCE)
        assert wait


YES = {"allow": "Approve", True: "Approve", "allow_session": "Approve for session"}
NO: dict[Any, str] = {"deny": "Deny", None: "Deny", "yes": "Deny"}


@pytest.mark.parametrize(("decision", "value"), [*YES.items(), *NO.items()])
async def test_only_a_clear_yes_approves(decision: Any, value: str) -> None:
    async with fake_agent() as (client, agent):

        @client.on_approval
        async def decide(approval: Approval) -> Any:
            assert (approval.title, approval.tool_name, approval.arguments) == ("Well?", "bash", {"command": "ls"})
            return decision

        options = ["Approve", "Approve for session", "Deny"]
        more = {"toolName": "bash", "toolCallId": "t", "arguments": {"command": "ls"}}
        assert await answered(agent, method="select", options=options, **more) == {"value": value}
        assert decide


OPTIONS = {"method": "select", "options": ["Approve", "Approve for session", "Deny"]}


@pytest.mark.parametrize(
    ("decision", "reply"),
    [
        (Allow(), {"value": "Approve"}),
        (Allow(for_session=True), {"value": "Approve for session"}),
        (Allow(arguments={"command": "pwd"}), {"value": "Approve", "arguments": {"command": "pwd"}}),
        (Allow(rule=NewRule("ls *")), {"value": "Approve", "rule": "ls *"}),
        (Allow(rule=NewRule("ls *", everywhere=True)), {"value": "Approve", "rule": "ls *", "everywhere": True}),
        (Deny(), {"value": "Deny"}),
        (Deny("too risky", for_session=True), {"value": "Deny", "reason": "too risky", "forSession": True}),
    ],
)
async def test_a_decision_can_say_more_than_a_word(decision: Allow | Deny, reply: dict[str, Any]) -> None:
    async with fake_agent() as (client, agent):
        client.on_approval(lambda approval: decision)
        assert await answered(agent, approval=True, toolName="bash", **OPTIONS) == reply


@pytest.mark.parametrize("decision", [Allow(arguments={"command": "pwd"}), Allow(rule=NewRule("ls")), Deny("too risky")])
async def test_an_agent_that_cannot_take_other_arguments_or_a_reason_gets_a_plain_no(decision: Allow | Deny) -> None:
    async with fake_agent() as (client, agent):
        client.on_approval(lambda approval: decision)
        assert await answered(agent, **OPTIONS) == {"value": "Deny"}


async def test_a_real_call_runs_with_the_arguments_that_the_host_wants_and_shows_its_diff(tmp_path: Path) -> None:
    turns = [calls(("write", {"path": "theirs", "content": "x\n"})), calls(bash("touch made")), says("Done.")]
    async with fairlead(tmp_path / "a", *turns, flags=["--approval", "ask"]) as (client, _):
        asked: list[Approval] = []

        @client.on_approval
        def decide(approval: Approval) -> Allow | Deny:
            asked.append(approval)
            if approval.tool_name == "bash":
                return Deny("use write")
            return Allow(arguments={"path": "mine", "content": "y"})

        assert (await client.ask("Make it.")).text == "Done."
        project = tmp_path / "a" / "project"
        assert (project / "mine").read_text() == "y" and not (project / "theirs").exists()
        assert asked[0].diff is not None and asked[0].diff.endswith("@@ -0,0 +1,1 @@\n+x\n")
        assert asked[1].tool_call_id and (asked[1].arguments, asked[1].diff) == ({"command": "touch made"}, None)
        assert decide


@pytest.mark.parametrize("allow", [True, False])
async def test_an_approval_decides_about_a_real_call(allow: bool, tmp_path: Path) -> None:
    turns = [calls(bash("touch made")), says("Done.")]
    async with fairlead(tmp_path / "a", *turns, flags=["--approval", "ask"]) as (client, _):
        asked: list[Approval] = []

        @client.on_approval
        def decide(approval: Approval) -> bool:
            asked.append(approval)
            return allow

        assert (await client.ask("Make it.")).text == "Done."
        assert "touch made" in asked[0].title
        assert (tmp_path / "a" / "project" / "made").exists() is allow
        assert decide


async def test_without_a_handler_a_real_call_is_denied(tmp_path: Path) -> None:
    turns = [calls(bash("touch made")), says("Well then.")]
    async with fairlead(tmp_path / "a", *turns, flags=["--approval", "ask"]) as (client, _):
        assert (await client.ask("Make it.")).text == "Well then."
        assert not (tmp_path / "a" / "project" / "made").exists()
