"""Handlers of `message_end` that replace a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.extend.extended import Extended, calling, extended, notes, scripted, user_texts

from fairlead.core import events as e
from fairlead.core.messages import AssistantMessage, ToolCall, ToolResultMessage
from fairlead.testing import Turn


def ended(it: Extended) -> list[Any]:
    return [event.message for event in it.told if isinstance(event, e.MessageEnd)]


async def test_an_answer_is_replaced_for_the_host_the_session_and_the_model(tmp_path: Path) -> None:
    body = """
  pi.on("message_end", (event) => {
    if (event.message.role !== "assistant") return;
    const usage = { ...event.message.usage, cost: { ...event.message.usage.cost, total: 0.123 } };
    return { message: { ...event.message, content: [{ type: "text", text: "replaced" }], usage } };
  });
  pi.on("message_end", (event) => note((event.message as any).content[0].text));
"""
    async with scripted(tmp_path, body) as it:
        assert str(await it.agent.ask("hi")) == "replaced"
        assert it.errors == []
        answer = ended(it)[-1]
        assert answer.text() == "replaced" and answer.usage.cost.total == 0.123
        assert it.agent.session.messages[-1] == answer
        (end,) = [event for event in it.told if isinstance(event, e.TurnEnd)]
        assert end.message == answer
        log = it.agent.session.history.log
        stored = log.plain(log.entries())
        assert stored[-1]["message"]["content"] == [{"type": "text", "text": "replaced"}]
        await it.agent.ask("again")
        said = [message for message in it.model.requests[-1].messages if isinstance(message, AssistantMessage)]
        assert [message.text() for message in said] == ["replaced"]
    assert notes(tmp_path) == ["hi", "replaced", "again", "replaced"]


async def test_the_tool_calls_of_a_replaced_answer_are_made(tmp_path: Path) -> None:
    body = """
  pi.on("message_end", (event) => {
    const message = event.message as any;
    if (message.role !== "assistant") return;
    const content = message.content.filter((block: any) => block.type !== "toolCall" || block.name !== "write");
    return { message: { ...message, content: content.map((block: any) =>
      block.type === "toolCall" ? { ...block, arguments: { command: "echo changed" } } : block) } };
  });
"""
    calls = [ToolCall("c1", "bash", {"command": "echo one"}), ToolCall("c2", "write", {"path": "a", "content": ""})]
    async with scripted(tmp_path, body, turns=[Turn(tool_calls=calls), Turn(text="ok")]) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.results == [("changed\n", False)]
        assert not (tmp_path / "project" / "a").exists()


async def test_a_tool_result_and_a_prompt_are_replaced(tmp_path: Path) -> None:
    body = """
  pi.on("message_end", (event) => {
    const { role } = event.message;
    if (role === "toolResult") return { message: { ...event.message, content: [{ type: "text", text: "no output for you" }] } };
    if (role === "user") return { message: { ...event.message, content: [{ type: "text", text: "another question" }] } };
  });
"""
    async with scripted(tmp_path, body, turns=[calling("bash", command="echo one"), Turn(text="ok")], keep=True) as it:
        await it.agent.ask("hi")
        assert it.errors == []
        assert user_texts(ended(it)) == user_texts(it.agent.session.messages) == ["another question"]
        first, second = it.model.requests
        assert user_texts(first.messages) == ["another question"]
        (result,) = [message for message in second.messages if isinstance(message, ToolResultMessage)]
        assert [getattr(block, "text", "") for block in result.content] == ["no output for you"]
        path = it.agent.session.history.path
    async with extended(tmp_path) as again:
        await again.agent.session.history.switch(str(path))
        assert user_texts(again.agent.session.messages) == ["another question"]


async def test_a_message_in_another_role_or_form_is_not_used(tmp_path: Path) -> None:
    body = """
  pi.on("message_end", (event) => ({ message: { role: "user", content: "me", timestamp: 1 } }) as any);
  pi.on("message_end", (event) => {
    if (event.message.role === "toolResult") return { message: { ...event.message, toolCallId: "another" } };
    if (event.message.role === "assistant") return { message: { ...event.message, usage: "much" } } as any;
  });
  pi.on("message_end", (event) => { if (event.message.role === "assistant") throw new Error("exploded"); });
"""
    async with scripted(tmp_path, body, turns=[calling("bash", command="echo one"), Turn(text="ok")]) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        roles = [message.role for message in it.agent.session.messages]
        assert roles == ["user", "assistant", "toolResult", "assistant"]
        problems = [problem for _, _, problem in it.errors]
        same_role = "message_end handlers must return a message with the same role"
        assert problems.count(same_role) == 4 and problems.count("exploded") == 2
        assert sum("message: " in problem for problem in problems) == 2


async def test_handlers_that_hang_or_are_aborted_leave_the_message_as_it_is(tmp_path: Path) -> None:
    body = """
  pi.on("message_end", async (event, ctx) => {
    if (event.message.role !== "assistant") return;
    ctx.abort();
    await new Promise(() => {});
  });
"""
    async with scripted(tmp_path, body, turns=[Turn(text="kept")]) as it:
        await it.agent.session.prompt("hi")
        await it.agent.idle()
        assert it.agent.session.messages[-1] == ended(it)[-1] and ended(it)[-1].text() == "kept"


async def test_a_process_that_is_gone_leaves_messages_as_they_are(tmp_path: Path) -> None:
    body = 'pi.on("message_end", () => process.kill(process.pid, "SIGKILL"));'
    async with scripted(tmp_path, body) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert len(it.agent.session.messages) == 2 and len(it.errors) == 2


async def test_a_python_extension_replaces_a_message(tmp_path: Path) -> None:
    source = """
    from msgspec.structs import replace

    from fairlead.extension import Fairlead, Revise, TextContent

    def setup(fl: Fairlead) -> None:
        def shout(event):
            if event.message.role == "assistant":
                return Revise(replace(event.message, content=[TextContent(event.message.text().upper())]))

        fl.on("message_end", shout)
    """
    async with extended(tmp_path, source) as it:
        assert str(await it.agent.ask("hi")) == "OK"
        assert it.errors == []
