"""How sessions and runs begin, as extensions written for pi see it."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import calling, extended, notes, scripted

from fairlead.core.messages import CustomMessage
from fairlead.testing import Turn


async def test_a_session_has_started_before_resources_are_asked_for(tmp_path: Path) -> None:
    body = """
  for (const name of ["resources_discover", "session_start"]) pi.on(name as any, (event: any) => note([name, event.reason]));
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.agent.reload_extensions()
    assert notes(tmp_path) == [
        *(["session_start", "startup"], ["resources_discover", "startup"]),
        *(["session_start", "reload"], ["resources_discover", "reload"]),
    ]


async def test_a_prompt_has_begun_no_run_while_handlers_of_input_see_it(tmp_path: Path) -> None:
    body = """
  for (const name of ["input", "before_agent_start", "turn_start", "agent_settled"]) {
    pi.on(name as any, (event: any, ctx) => note([name, ctx.isIdle()]));
  }
  pi.registerTool({ name: "more", description: "More", parameters: Type.Object({}), execute: async () => {
    pi.sendUserMessage("more", { deliverAs: "steer" });
    await new Promise((done) => pi.events.on("heard", done));
    return { content: [], details: {} };
  } });
  pi.on("input", (event) => { if (event.source === "extension") setTimeout(() => pi.events.emit("heard", {}), 50); });
"""
    async with scripted(tmp_path, body, turns=[calling("more"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.errors == []
    assert notes(tmp_path) == [
        *(["input", True], ["before_agent_start", False], ["turn_start", False]),
        *(["input", False], ["turn_start", False], ["agent_settled", True]),
    ]


STARTS = """
  pi.registerCommand("go", { handler: async () => {
    pi.sendMessage({ customType: "task", content: "do it", display: true, details: { a: 1 } }, { triggerTurn: true });
  } });
  pi.on("before_agent_start", (event: any) => {
    note([event.messageType, event.prompt ?? null, event.message?.customType ?? null, event.message?.details ?? null]);
    return { message: { customType: "hint", content: "a hint", display: false }, systemPrompt: "Be brief." };
  });
"""


async def test_a_run_that_a_custom_message_starts_is_prepared_like_one_of_a_prompt(tmp_path: Path) -> None:
    async with scripted(tmp_path, STARTS) as it:
        await it.command("/go")
        await it.agent.ask("hi")
        custom = [message.custom_type for message in it.agent.session.messages if isinstance(message, CustomMessage)]
        assert custom == ["task", "hint", "hint"]
        first, _ = it.model.requests
        assert (first.system_prompt, len(first.messages)) == ("Be brief.", 2)
    assert notes(tmp_path) == [["custom", None, "task", {"a": 1}], ["user", "hi", None, None]]


async def test_a_python_extension_sees_the_custom_message_that_starts_a_run(tmp_path: Path) -> None:
    source = """
    def setup(fl):
        @fl.register_command("go")
        async def go(arguments, context):
            fl.send_message("task", "do it", trigger_turn=True)
        @fl.on("before_agent_start")
        def prepare(event):
            fl.append_entry("seen", [event.prompt, event.message and event.message.custom_type])
    """
    async with extended(tmp_path, source) as it:
        await it.command("/go")
        await it.agent.ask("hi")
        assert it.notes("seen") == [["", "task"], ["hi", None]]


async def test_text_is_appended_to_the_system_prompt(tmp_path: Path) -> None:
    body = """
  pi.on("before_agent_start", (event) => {
    event.systemPromptOptions.appendSystemPrompt += "Be brief.";
    note(event.systemPromptOptions.hiddenTools);
  });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        assert it.model.requests[0].system_prompt.endswith("\n\nBe brief.")
        assert it.errors == []
    assert notes(tmp_path) == [[]]


async def test_names_have_one_line_and_can_be_removed(tmp_path: Path) -> None:
    body = """
  pi.on("session_info_changed", (event) => note(event.name ?? null));
  pi.registerCommand("name", { handler: async () => {
    pi.setSessionName("  one\\n\\ntwo  ");
    note(pi.getSessionName());
    pi.setSessionName("");
    note([pi.getSessionName() ?? null]);
  } });
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/name")
        assert it.agent.session.history.name is None
        assert it.errors == []
    told = notes(tmp_path)
    assert [each for each in told if each in ("one two", ["one two"], [None], None)] == told
    assert told.count("one two") == 2 and told.count([None]) == 1 and told.count(None) == 1
