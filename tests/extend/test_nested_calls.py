"""Tools that call other tools: pi's `ctx.executeTool`, and `call_tool` of Python extensions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import Extended, calling, extended, notes, scripted

from fairlead.core import events as e
from fairlead.core.approval import ApprovalRequest
from fairlead.core.messages import ToolCall, ToolResultMessage
from fairlead.errors import RunAborted
from fairlead.testing import Turn


def outer(execute: str, more: str = "") -> str:
    """An extension with a tool `outer`, whose `execute` has this body."""
    return f"""
  {more}
  pi.registerTool({{
    name: "outer", label: "Outer", description: "Calls", parameters: Type.Object({{ args: Type.Optional(Type.Any()) }}),
    async execute(id, params, signal, onUpdate, ctx) {{
      {execute}
      return {{ content: [{{ type: "text", text: "over" }}], details: {{}} }};
    }},
  }});
"""


TURNS = [calling("outer"), Turn(text="ok")]


def tool_events(it: Extended) -> list[tuple[str, str, str | None]]:
    return [
        (type(each).__name__, each.call_id, each.parent_call_id)
        for each in it.told
        if isinstance(each, e.ToolStart | e.ToolRunning | e.ToolEnd)
    ]


def record(it: Extended) -> Any:
    (result,) = [message for message in it.agent.session.messages if isinstance(message, ToolResultMessage)]
    return result.nested_calls


async def test_a_call_has_its_events_and_hooks_and_a_record(tmp_path: Path) -> None:
    body = outer(
        """
      note(ctx.tools.map((tool) => tool.name).includes("bash"));
      const updates: any[] = [];
      const done = await ctx.executeTool("bash", { command: "echo one" }, { onUpdate: (partial: any) => updates.push(partial) });
      note([done.toolCall, done.result.content, done.isError, typeof done.durationMs]);
      note((await ctx.executeTool("bash", { command: "exit 3" })).isError);
""",
        """
  pi.on("tool_call", (event) => {
    note(["call", event.toolCallId, event.parentToolCallId ?? null]);
    if (event.toolName === "bash" && event.input.command === "echo one") event.input.command = "echo two";
  });
  pi.on("tool_result", (event) => { if (event.parentToolCallId) note(["result", event.toolCallId, event.parentToolCallId]); });
  pi.on("tool_execution_end", (event) => note(["end", event.toolCallId, (event as any).parentToolCallId ?? null]));
""",
    )
    async with scripted(tmp_path, body, turns=TURNS) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.errors == []
        assert tool_events(it) == [
            ("ToolStart", "c1", None),
            ("ToolRunning", "c1", None),
            *((name, "c1/1", "c1") for name in ("ToolStart", "ToolRunning", "ToolEnd")),
            *((name, "c1/2", "c1") for name in ("ToolStart", "ToolRunning", "ToolEnd")),
            ("ToolEnd", "c1", None),
        ]
        kept = record(it)
        assert kept.complete and [(note.id, note.name, note.status) for note in kept.calls] == [
            ("c1/1", "bash", "ok"),
            ("c1/2", "bash", "error"),
        ]
        assert kept.calls[0].arguments == {"command": "echo one"} and "exited with code 3" in kept.calls[1].error
        assert [message.role for message in it.agent.session.messages] == ["user", "assistant", "toolResult", "assistant"]
    call = {"type": "toolCall", "id": "c1/1", "name": "bash", "arguments": {"command": "echo one"}}
    assert notes(tmp_path) == [
        ["call", "c1", None],
        True,
        ["call", "c1/1", "c1"],
        ["result", "c1/1", "c1"],
        ["end", "c1/1", "c1"],
        [call, [{"type": "text", "text": "two\n"}], False, "number"],
        ["call", "c1/2", "c1"],
        ["result", "c1/2", "c1"],
        ["end", "c1/2", "c1"],
        True,
        ["end", "c1", None],
    ]


async def test_calls_that_cannot_be_made_are_results_with_errors(tmp_path: Path) -> None:
    body = outer(
        """
      const attempts: any[] = [["nothing", {}], ["bash", {}], ["bash", "text"], ["bash", { command: "block" }],
        ["bash", { command: "throw" }], ["inactive", {}], ["shy", {}]];
      for (const [name, args] of attempts) {
        const { result, isError } = await ctx.executeTool(name, args);
        note([isError, (result.content[0] as any).text.split("\\n")[0]]);
      }
      note(ctx.tools.map((tool) => tool.name).filter((name) => ["inactive", "shy", "reachable"].includes(name)));
      note((await ctx.executeTool("reachable", {})).isError);
""",
        """
  const tool = { label: "x", description: "x", parameters: Type.Object({}), async execute() {
    return { content: [{ type: "text" as const, text: "ran" }], details: {} }; } };
  pi.registerTool({ ...tool, name: "inactive", defaultActive: false } as any);
  pi.registerTool({ ...tool, name: "shy", exposure: "model-only" } as any);
  pi.registerTool({ ...tool, name: "reachable", exposure: "codemode" } as any);
  pi.on("tool_call", (event: any) => {
    if (event.input.command === "block") return { block: true, reason: "Not that." };
    if (event.input.command === "throw") throw new Error("exploded");
  });
""",
    )
    async with scripted(tmp_path, body, turns=TURNS) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert not any(isinstance(each, e.ToolRunning) and each.tool_name == "bash" for each in it.told)
        assert [note.status for note in record(it).calls] == ["error"] * 6 + ["ok"]
    assert notes(tmp_path) == [
        [True, "Tool nothing not found"],
        [True, 'Validation failed for tool "bash":'],
        [True, "The arguments of bash must be an object."],
        [True, "Not that."],
        [True, "exploded"],
        [True, "Tool inactive not found"],
        [True, "Tool shy not found"],
        ["reachable"],
        False,
    ]


async def test_an_approval_is_needed_as_for_a_call_of_the_model(tmp_path: Path) -> None:
    asked: list[str] = []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request.tool_name)
        return request.tool_name == "outer"

    body = outer('note((await ctx.executeTool("bash", { command: "touch made" })).isError);')
    async with scripted(tmp_path, body, turns=TURNS, on_approval=decide) as it:
        await it.agent.ask("hi")
        assert asked == ["outer", "bash"]
        assert it.results[-1] == ("over", False)
    assert notes(tmp_path) == [True] and not (tmp_path / "project" / "made").exists()


async def test_a_call_is_aborted_by_its_signal_and_with_the_run(tmp_path: Path) -> None:
    body = outer(
        """
      const stop = new AbortController();
      const first = ctx.executeTool("bash", { command: "sleep 60" }, { signal: stop.signal });
      setTimeout(() => stop.abort(), 50);
      note((await first).isError);
      const second = ctx.executeTool("bash", { command: "sleep 60" });
      setTimeout(() => ctx.abort(), 50);
      note((await second).isError);
"""
    )
    async with scripted(tmp_path, body, turns=TURNS) as it:
        with pytest.raises(RunAborted):
            await it.agent.ask("hi")
        starts = [call for kind, call, _ in tool_events(it) if kind == "ToolStart"]
        assert starts == ["c1", "c1/1", "c1/2"]
        assert sorted(call for kind, call, _ in tool_events(it) if kind == "ToolEnd") == starts
    assert notes(tmp_path)[0] is True


async def test_a_call_after_the_end_of_its_tool_is_refused(tmp_path: Path) -> None:
    body = outer(
        """
      later = () => ctx.executeTool("bash", { command: "touch made" });
      void ctx.executeTool("bash", { command: "sleep 60" });
      await new Promise((done) => setTimeout(done, 50));
""",
        """let later: any;
  pi.on("agent_end", async () => { const { result, isError } = await later(); note([isError, result.content[0].text]); });""",
    )
    async with scripted(tmp_path, body, turns=TURNS) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        # What the tool left behind was aborted before its own end.
        assert [call for kind, call, _ in tool_events(it) if kind == "ToolEnd"] == ["c1/1", "c1"]
        assert not (tmp_path / "project" / "made").exists()
    assert notes(tmp_path) == [[True, "Only a tool that is running can call other tools."]]


async def test_tools_that_call_themselves_and_floods_have_an_end(tmp_path: Path) -> None:
    body = outer(
        """
      if (params.args === "flood") {
        const all = await Promise.all(Array.from({ length: 300 }, () => ctx.executeTool("quick", {})));
        note([all.filter((done) => !done.isError).length, most]);
      } else {
        const { result, isError } = await ctx.executeTool("outer", {});
        if (isError) note((result.content[0] as any).text);
      }
""",
        """
  let now = 0, most = 0;
  pi.registerTool({ name: "quick", label: "q", description: "q", parameters: Type.Object({}), async execute() {
    most = Math.max(most, ++now);
    await new Promise((done) => setTimeout(done, 1));
    now--;
    return { content: [], details: {} };
  } });
""",
    )
    turns = [calling("outer"), calling("outer", args="flood"), Turn(text="ok")]
    async with scripted(tmp_path, body, turns=turns) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        results = [message for message in it.agent.session.messages if isinstance(message, ToolResultMessage)]
        deep, wide = (result.nested_calls for result in results)
        assert deep and wide and len(deep.calls) == 17 and (len(wide.calls), wide.complete) == (256, False)
    assert notes(tmp_path) == ["Tools have called each other 16 times. outer is not called.", [300, 16]]


async def test_sequential_tools_never_run_at_the_same_time(tmp_path: Path) -> None:
    body = outer(
        'await Promise.all([1, 2, 3].map(() => ctx.executeTool("alone", {}))); note(most);',
        """
  let now = 0, most = 0;
  pi.registerTool({ name: "alone", label: "a", description: "a", executionMode: "sequential", parameters: Type.Object({}),
    async execute() {
      most = Math.max(most, ++now);
      await new Promise((done) => setTimeout(done, 10));
      now--;
      return { content: [{ type: "text", text: String(most) }], details: {} };
    } });
""",
    )
    both = Turn(tool_calls=[ToolCall("c1", "alone", {}), ToolCall("c2", "alone", {})])
    async with scripted(tmp_path, body, turns=[*TURNS[:1], both, Turn(text="ok")]) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.results[-2:] == [("1", False), ("1", False)]
    assert notes(tmp_path) == [1]


async def test_every_call_has_its_end_if_the_process_is_gone(tmp_path: Path) -> None:
    body = outer(
        'ctx.executeTool("bash", { command: "sleep 60" }); await new Promise(() => {});',
        'pi.on("tool_execution_start", (event) => { if (event.toolName === "bash") process.kill(process.pid, "SIGKILL"); });',
    )
    async with scripted(tmp_path, body, turns=TURNS) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert [call for kind, call, _ in tool_events(it) if kind == "ToolEnd"] == ["c1/1", "c1"]
        text, is_error = it.results[-1]
        assert is_error and "has ended" in text


async def test_a_python_tool_calls_another_tool(tmp_path: Path) -> None:
    source = """
    from fairlead.extension import Fairlead, ToolError, ToolRunContext

    def setup(fl: Fairlead) -> None:
        @fl.register_tool
        async def outer(context: ToolRunContext) -> str:
            \"\"\"Call others.\"\"\"
            done = await context.call_tool("bash", {"command": "echo one"})
            try:
                await context.call_tool("bash", {"command": "exit 3"})
            except ToolError as error:
                return done.content[0].text + str("code 3" in str(error))
    """
    async with extended(tmp_path, source, turns=TURNS) as it:
        async with asyncio.timeout(20):
            assert str(await it.agent.ask("hi")) == "ok"
        assert it.results[-1] == ("one\nTrue", False)
        assert [note.status for note in record(it).calls] == ["ok", "error"]
