"""Extensions written for pi that return far too much, or remove what keeps their process alive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.extend.extended import calling, notes, scripted

from fairlead.core.messages import AssistantMessage
from fairlead.extend.node import bridge
from fairlead.testing import Turn

QUICK = json.dumps({"extensionTimeoutSeconds": 5})
LOST = "The Node process that runs extensions has ended"
TURNS = [calling("outer"), calling("bash", command="true"), Turn(text="done")]

HUGE = """
  const tool = (name: string, execute: any) =>
    pi.registerTool({ name, label: name, description: name, parameters: Type.Object({}), execute } as any);
  const text = (text: string) => ({ content: [{ type: "text" as const, text }], details: {} });
  tool("inner", async () => text("x".repeat(SIZE)));
  tool("outer", async (id: any, args: any, signal: any, update: any, ctx: any) => {
    const { result, isError } = await ctx.executeTool("inner", {});
    note([isError, result.content[0].text.length]);
    return text("over");
  });
"""


async def test_a_tool_gets_a_huge_result_of_another_one(tmp_path: Path) -> None:
    size = 12_000_000
    async with scripted(tmp_path, HUGE.replace("SIZE", str(size)), turns=TURNS) as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.errors == [] and it.results[-2:] == [("over", False), ("(no output)", False)]
    assert notes(tmp_path) == [[False, size]]


async def test_a_result_beyond_the_limit_ends_the_process_and_every_call_has_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "_MAX_LINE_BYTES", 1 << 20)
    body = HUGE.replace("SIZE", str(8 << 20)) + 'pi.on("tool_call", () => undefined);'
    async with scripted(tmp_path, body, turns=TURNS, settings=QUICK) as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert len(it.results) == 3 and all(is_error for _, is_error in it.results)
        assert LOST in it.results[-1][0], "the gate is gone, so the call is refused"
    assert notes(tmp_path) == []


async def test_a_huge_message_replaces_another_one(tmp_path: Path) -> None:
    body = """
  pi.on("message_end", (event) => {
    if (event.message.role === "assistant")
      return { message: { ...event.message, content: [{ type: "text", text: "x".repeat(5_000_000) }] } };
  });
"""
    async with scripted(tmp_path, body) as it:
        assert len(str(await it.agent.ask("hi"))) == 5_000_000
        assert it.errors == []


async def test_a_message_beyond_the_limit_leaves_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_MAX_LINE_BYTES", 1 << 20)
    body = """
  pi.on("message_end", (event) => {
    if (event.message.role === "assistant")
      return { message: { ...event.message, content: [{ type: "text", text: "x".repeat(8_000_000) }] } };
  });
"""
    async with scripted(tmp_path, body, settings=QUICK) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        answers = [message for message in it.agent.session.messages if isinstance(message, AssistantMessage)]
        assert [answer.text() for answer in answers] == ["ok"]
        assert [(event, LOST in error) for _, event, error in it.errors] == [("message_end", True)]


GATE = """
  pi.on("tool_call", (event: any) => (event.input.command === "true" ? { block: true, reason: "gate" } : undefined));
  pi.on("agent_start", () => new Promise((resolve) => { REMOVE; setTimeout(() => { setTimeout(resolve); throw new Error("loose"); }); }));
"""  # noqa: E501
BLOCKED = [calling("bash", command="true"), Turn(text="done")]


@pytest.mark.parametrize("remove", ["process.removeAllListeners()", 'process.removeAllListeners("uncaughtException")'])
async def test_removing_all_listeners_does_not_let_an_error_end_the_process(tmp_path: Path, remove: str) -> None:
    async with scripted(tmp_path, GATE.replace("REMOVE", remove), turns=BLOCKED, settings=QUICK) as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.errors == [("one.ts", "uncaught", "loose")] and it.results == [("gate", True)]


async def test_a_gate_fails_closed_if_an_error_ends_its_process(tmp_path: Path) -> None:
    remove = 'for (const each of process.listeners("uncaughtException")) process.off("uncaughtException", each)'
    async with scripted(tmp_path, GATE.replace("REMOVE", remove), turns=BLOCKED, settings=QUICK) as it:
        assert str(await it.agent.ask("hi")) == "done"
        ((text, is_error),) = it.results
        assert is_error and LOST in text
        await it.agent.reload_extensions()
