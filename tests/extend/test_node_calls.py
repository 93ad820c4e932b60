"""Tool calls and extensions written for pi: calls that end the run, results as data, and what tools have used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.extend.extended import Extended, calling, extended, notes, scripted

from fairlead.core import events as e
from fairlead.core.messages import ToolCall, ToolResultMessage, Usage
from fairlead.testing import Turn

ENDING = """
  pi.on("tool_call", (event) => {
    const { command } = event.input as { command?: string };
    if (command?.includes("stop")) return { block: true, reason: "Stop here.", terminate: true };
    if (command?.includes("block")) return { block: true, reason: "Not that." };
    return { terminate: true } as any;
  });
  pi.registerTool({
    name: "finish", label: "Finish", description: "Finishes", parameters: Type.Object({}),
    async execute() {
      return { content: [{ type: "text", text: "failed, but done" }], details: {}, isError: true, terminate: true };
    },
  });
"""


async def test_a_blocked_call_ends_the_run_if_the_handler_says_so(tmp_path: Path) -> None:
    async with scripted(tmp_path, ENDING, turns=[calling("bash", command="stop"), Turn(text="not asked")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("Stop here.", True)]
        assert len(it.model.requests) == 1


async def test_a_tool_that_failed_ends_the_run_if_its_result_says_so(tmp_path: Path) -> None:
    async with scripted(tmp_path, ENDING, turns=[calling("finish"), Turn(text="not asked")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("failed, but done", True)]
        assert len(it.model.requests) == 1


async def test_the_run_continues_if_one_call_of_the_turn_does_not_end_it(tmp_path: Path) -> None:
    both = Turn(tool_calls=[ToolCall("c1", "bash", {"command": "stop"}), ToolCall("c2", "bash", {"command": "block"})])
    turns = [both, calling("bash", command="true"), Turn(text="ok")]
    async with scripted(tmp_path, ENDING, turns=turns) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.results == [("Stop here.", True), ("Not that.", True), ("(no output)", False)]


async def test_a_blocked_call_of_a_python_extension_ends_the_run(tmp_path: Path) -> None:
    source = """
    from fairlead.extension import Block, Fairlead

    def setup(fl: Fairlead) -> None:
        fl.on("tool_call", lambda event: Block("Stop here.", ends_run=True))
    """
    async with extended(tmp_path, source, turns=[calling("bash", command="true"), Turn(text="not asked")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("Stop here.", True)]
        assert len(it.model.requests) == 1


SPENDING = """
  const usage = (input: number) => ({ input, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: input + 1,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: input / 100 } });
  const tool = (name: string, execute: any) => pi.registerTool({
    name, label: name, description: name, parameters: Type.Object({}), execute } as any);
  const result = (more: object) => ({ content: [{ type: "text" as const, text: "text" }], details: {}, ...more });
  tool("inner", async () => result({ usage: usage(10), structuredContent: { answer: 42 } }));
  tool("outer", async (id: any, args: any, signal: any, update: any, ctx: any) => {
    const inner = await ctx.executeTool("inner", {});
    note([inner.result.usage.input, inner.result.structuredContent]);
    return result({ usage: usage(5) });
  });
"""


def results_of(it: Extended) -> list[ToolResultMessage]:
    return [message for message in it.agent.session.messages if isinstance(message, ToolResultMessage)]


def data_of(it: Extended) -> list[Any]:
    """The results of the tools as data."""
    ends = [each for each in it.told if isinstance(each, e.ToolEnd)]
    return [None if end.structured is None else end.structured() for end in ends]


async def test_usage_of_a_tool_and_its_nested_calls_is_counted(tmp_path: Path) -> None:
    async with scripted(tmp_path, SPENDING, turns=[calling("outer"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.errors == []
        (result,) = results_of(it)
        assert isinstance(result.usage, Usage)
        assert (result.usage.input, result.usage.output, round(result.usage.cost.total, 6)) == (15, 2, 0.15)
        stats = it.agent.session.usage.totals
        assert stats.tokens.input >= 15 and stats.cost >= 0.15
    assert notes(tmp_path) == [[10, {"answer": 42}]]


async def test_a_handler_sees_and_replaces_what_a_tool_has_used(tmp_path: Path) -> None:
    body = (
        SPENDING
        + """
  pi.on("tool_result", (event: any) => { note(event.usage.input); return { usage: usage(100) } as any; });
"""
    )
    async with scripted(tmp_path, body, turns=[calling("inner"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert [isinstance(result.usage, Usage) and result.usage.input for result in results_of(it)] == [100]
        assert data_of(it) == [{"answer": 42}]
    assert notes(tmp_path) == [10]


async def test_a_new_content_removes_the_data_unless_the_handler_returns_new_data(tmp_path: Path) -> None:
    body = (
        SPENDING
        + """
  let calls = 0;
  pi.on("tool_result", (event: any) => {
    note(event.structuredContent);
    const content = [{ type: "text" as const, text: "new" }];
    return (calls++ ? { content, structuredContent: { answer: 43 } } : { content }) as any;
  });
  pi.on("tool_result", (event: any) => note(event.structuredContent ?? null));
  pi.on("tool_execution_end", (event: any) => note(["end", event.result.structuredContent ?? null]));
"""
    )
    async with scripted(tmp_path, body, turns=[calling("inner"), calling("inner"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert [text[:3] for text, _ in it.results] == ["new", "new"] and it.errors == []
        assert data_of(it) == [None, {"answer": 43}]
    end = ["end", {"answer": 43}]
    assert notes(tmp_path) == [{"answer": 42}, None, ["end", None], {"answer": 42}, {"answer": 43}, end]


async def test_a_result_that_is_an_error_keeps_its_data_details_and_images(tmp_path: Path) -> None:
    body = """
  pi.registerTool({ name: "half", label: "x", description: "x", parameters: Type.Object({}), async execute() {
    return { content: [{ type: "text", text: "half" }, { type: "image", data: "aGk=", mimeType: "image/png" }],
      details: { done: 1 }, structuredContent: [1], isError: true } as any; } });
"""
    async with scripted(tmp_path, body, turns=[calling("half"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        (result,) = results_of(it)
        assert result.is_error and result.details == {"done": 1} and data_of(it) == [[1]]
        assert [type(block).__name__ for block in result.content] == ["TextContent", "ImageContent"]


async def test_usage_that_is_not_usage_is_left_out(tmp_path: Path) -> None:
    body = SPENDING + """  tool("liar", async () => result({ usage: { input: "many" } }));\n"""
    async with scripted(tmp_path, body, turns=[calling("liar"), Turn(text="ok")]) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        ((text, is_error),) = it.results
        assert not is_error and text == "text"


async def test_a_tool_that_returns_nothing_has_failed(tmp_path: Path) -> None:
    body = """
  pi.registerTool({
    name: "forgets", label: "Forgets", description: "Forgets its result.", parameters: Type.Object({}),
    async execute() {},
  });
"""
    async with scripted(tmp_path, body, turns=[calling("forgets"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("The tool returned no result. Return { content, details } from execute().", True)]


async def test_a_message_during_a_run_must_say_when_it_is_delivered(tmp_path: Path) -> None:
    body = 'pi.on("tool_call", () => { pi.sendUserMessage("more"); });'
    async with scripted(tmp_path, body, turns=[calling("bash", command="true"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        await it.agent.idle()
        ((_, event, error),) = it.errors
        assert event == "send_user_message" and "Choose 'steer' or 'followUp'" in error
