"""Extensions written for pi: what they see, register and change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import calling, extended, notes, script, scripted, user_texts

from fairlead.core.messages import CustomMessage
from fairlead.core.runtime import NoUi
from fairlead.errors import MoveCancelled, RunAborted
from fairlead.testing import Turn


async def test_run_events_are_delivered_in_order(tmp_path: Path) -> None:
    names = (
        "session_start input before_agent_start agent_start turn_start message_start message_end tool_execution_start "
        "tool_call tool_result tool_execution_end turn_end agent_end agent_before_settle agent_settled session_shutdown"
    )
    body = f'for (const name of "{names}".split(" ")) pi.on(name as any, (event: any) => note(event.type));'
    async with scripted(tmp_path, body, turns=[calling("bash", command="true"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
    message = ["message_start", "message_end"]
    assert notes(tmp_path) == [
        *("session_start", "input", "before_agent_start", "agent_start", "turn_start", *message, *message),
        *("tool_execution_start", "tool_call", "tool_result", "tool_execution_end", *message, "turn_end"),
        *("turn_start", *message, "turn_end", "agent_end", "agent_before_settle", "agent_settled", "session_shutdown"),
    ]
    assert it.errors == []


async def test_blocked_changed_and_failed_calls_reach_the_model(tmp_path: Path) -> None:
    body = """
  pi.on("tool_call", async (event) => {
    const input = event.input as { command: string };
    if (input.command.includes("rm")) return { block: true, reason: "Not that." };
    if (input.command.includes("nothing")) return { block: true };
    if (input.command.includes("boom")) throw new Error("exploded");
    input.command = input.command.replace("one", "two");
  });
"""
    turns = [calling("bash", command=text) for text in ("rm x", "echo nothing", "echo boom", "echo one")]
    async with scripted(tmp_path, body, turns=[*turns, Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [
            ("Not that.", True),
            ("Tool execution was blocked", True),
            ("exploded", True),
            ("two\n", False),
        ]
        assert it.errors == []


async def test_results_input_and_prompts_are_changed(tmp_path: Path) -> None:
    body = """
  pi.on("input", (event) => {
    if (event.text === "drop") return { action: "handled" };
    return { action: "transform", text: event.text.toUpperCase() };
  });
  pi.on("tool_result", (event) => ({ content: [{ type: "text", text: `<${event.content[0].text.trim()}>` }] }));
  pi.on("before_agent_start", (event, ctx) => {
    note(ctx.getSystemPrompt() === event.systemPrompt);
    return { systemPrompt: "Be brief.", message: { customType: "hint", content: "a hint", display: false } };
  });
  pi.on("context", (event) => {
    note(event.messages.map((message: any) => message.customType ?? message.role));
    return { messages: event.messages.filter((message: any) => message.customType !== "hint") };
  });
"""
    async with scripted(tmp_path, body, turns=[calling("bash", command="echo one"), Turn(text="ok")]) as it:
        assert str(await it.agent.ask("drop")) == ""
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.results == [("<one>", False)]
        assert user_texts(it.agent.session.messages) == ["HI"]
        assert any(isinstance(message, CustomMessage) for message in it.agent.session.messages)
        first, second = it.model.requests
        assert (first.system_prompt, len(first.messages), len(second.messages)) == ("Be brief.", 1, 3)
    assert notes(tmp_path) == [True, ["user", "hint"], ["user", "hint", "assistant", "toolResult"]]


async def test_tools_run_with_updates_and_stop_when_they_are_aborted(tmp_path: Path) -> None:
    body = """
  pi.registerTool({
    name: "greet", label: "Greet", description: "Greets", promptSnippet: "Greet people",
    parameters: Type.Object({ who: Type.String({ description: "Who" }), loud: Type.Optional(Type.Boolean()) }),
    async execute(id, params, signal, onUpdate, ctx) {
      onUpdate?.({ content: [{ type: "text", text: "half" }], details: { percent: 50 } });
      if (params.who === "nobody") throw new Error("no such person");
      if (params.who === "soft") return { content: [{ type: "text", text: "failed softly" }], details: { a: 1 }, isError: true };
      if (params.who === "wait") {
        ctx.abort();
        await new Promise((done) => signal!.addEventListener("abort", done));
        note("aborted");
      }
      const said = `${id} ${params.loud ? "HELLO" : "hello"} ${params.who}`;
      return { content: [{ type: "text", text: said }], details: { done: true } };
    },
  });
"""
    turns = [calling("greet", who="you", loud="true"), calling("greet", who="nobody"), calling("greet", who="soft")]
    async with scripted(tmp_path, body, turns=[*turns, calling("greet", who="wait"), Turn(text="ok")]) as it:
        with pytest.raises(RunAborted):
            await it.agent.ask("hi")
        assert it.results[:3] == [("c1 HELLO you", False), ("no such person", True), ("failed softly", True)]
        (spec,) = [tool for tool in it.model.requests[0].tools if tool.name == "greet"]
        assert spec.parameters["required"] == ["who"] and spec.parameters["properties"]["who"]["description"] == "Who"
        assert "Greet people" in it.model.requests[0].system_prompt
    assert notes(tmp_path) == ["aborted"]


async def test_a_built_in_tool_is_replaced_and_wrapped(tmp_path: Path) -> None:
    body = """
  const { createBashTool } = await import("@earendil-works/pi-coding-agent");
  const bash = createBashTool(process.cwd(), { spawnHook: ({ command, cwd, env }) => ({ command: `echo before; ${command}`, cwd, env: { ...env, WHO: "me" } }) });
  pi.registerTool({ ...bash, async execute(id, params, signal, onUpdate) {
    const result = await bash.execute(id, params, signal, onUpdate);
    note(pi.getAllTools().find((tool) => tool.name === "bash")!.sourceInfo.source);
    return result;
  } });
"""  # noqa: E501
    async with scripted(tmp_path, body, turns=[calling("bash", command="echo $WHO"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("before\nme\n", False)]
        assert it.agent.session.tools.active.count("bash") == 1
        await it.agent.reload_extensions()
        assert it.agent.session.tools["bash"].label == "bash"
    assert notes(tmp_path) == ["cli"]


async def test_commands_act_on_the_session_and_read_it_at_once(tmp_path: Path) -> None:
    body = """
  pi.registerFlag("plan", { type: "boolean", default: false });
  pi.registerCommand("act", { description: "Acts", handler: async (args, ctx) => {
    pi.appendEntry("mine", { args });
    pi.setSessionName("named");
    pi.sendMessage({ customType: "note", content: "quiet", display: true, details: { a: 1 } });
    const entries = ctx.sessionManager.getEntries();
    pi.setLabel(entries[0].id, "here");
    note([entries.map((entry: any) => entry.customType ?? entry.type), pi.getSessionName(), pi.getFlag("plan")]);
    const session = ctx.sessionManager;
    note([session.getLabel(entries[0].id), session.getBranch().length, session.getLeafId() !== null]);
    note([ctx.isIdle(), ctx.hasUI, ctx.mode, ctx.model!.id, pi.getThinkingLevel(), pi.getCommands().map((each) => each.name)]);
    pi.setActiveTools(["read", "no-such-tool"]);
    note(pi.getActiveTools());
    const result = await pi.exec("sh", ["-c", "echo out; exit 3"]);
    note([result.stdout, result.code, result.killed]);
    const withSession = async (next: any) => note(next.sessionManager.getEntries().length);
    note((await ctx.newSession({ parentSession: ctx.sessionManager.getSessionFile(), withSession })).cancelled);
  } });
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/act now")
        assert it.errors == []
    assert notes(tmp_path) == [
        [["model_change", "thinking_level_change", "mine", "session_info", "note"], "named", False],
        ["here", 6, True],
        [True, False, "print", "scripted-1", "medium", ["act"]],
        ["read"],
        ["out\n", 3, False],
        2,
        False,
    ]


class Answers(NoUi):
    """A user who answers every question."""

    available = True

    def __init__(self) -> None:
        self.shown: list[Any] = []

    async def select(self, title: str, options: Any, **limits: Any) -> str | None:
        return options[-1]

    async def confirm(self, title: str, message: str = "", **limits: Any) -> bool:
        return True

    async def input(self, title: str, placeholder: str | None = None, **limits: Any) -> str | None:
        cancel = limits["cancel"]
        return None if cancel.fired else placeholder

    def notify(self, message: str, kind: Any = None) -> None:
        self.shown.append((message, kind))

    def set_status(self, key: str, text: str | None) -> None:
        self.shown.append((key, text))


async def test_the_user_is_asked_and_informed(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("ask", { handler: async (args, ctx) => {
    const { ui } = ctx;
    ui.notify("told", "warning");
    ui.setStatus("key", undefined);
    note([await ui.select("Pick", ["a", "b"]), await ui.confirm("Sure?", ""), await ui.input("Name", "typed")]);
    note([await ui.editor("Text") === undefined, await ui.custom(() => ({}) as any) === undefined, ui.getEditorText()]);
    const stop = AbortSignal.abort();
    note(await ui.input("Never", "x", { signal: stop }) === undefined);
    ui.notify(ui.theme.bold("done").includes("done") ? "themed" : "not");
  } });
"""
    async with scripted(tmp_path, body) as it:
        answers = Answers()
        it.agent.session.host.make_ui = lambda: answers
        await it.command("/ask")
        assert it.errors == []
        assert answers.shown == [("told", "warning"), ("key", None), ("themed", None)]
    assert notes(tmp_path) == [["b", True, "typed"], [True, True, ""], True]


async def test_messages_of_an_extension_reach_the_model(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("say", { handler: async (args) => { pi.sendUserMessage("from ext: " + args); } });
  pi.registerCommand("again", { handler: async () => { pi.sendUserMessage("/say expanded", { expandPromptTemplates: true }); } });
  pi.on("agent_settled", () => note("settled"));
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/say hello")
        await it.command("/again")
        await it.agent.idle()
        assert user_texts(it.agent.session.messages) == ["from ext: hello", "from ext: expanded"]


async def test_sessions_are_kept_from_being_left(tmp_path: Path) -> None:
    body = """
  pi.on("session_before_switch", (event) => ({ cancel: event.reason === "new" }));
  pi.on("session_before_compact", (event) => {
    note([event.reason, event.preparation.messagesToSummarize.length > 0, event.signal.aborted]);
    return { compaction: { summary: "short", firstKeptEntryId: event.preparation.firstKeptEntryId, tokensBefore: 1 } };
  });
  pi.on("session_compact", (event) => note([event.compactionEntry.summary, event.fromExtension]));
"""
    async with scripted(tmp_path, body) as it:
        with pytest.raises(MoveCancelled):
            await it.agent.session.history.new()
        for text in ("one", "two"):
            await it.agent.ask(text)
        result = await it.agent.session.compact(keep_messages=1)
        assert result.summary == "short"
    assert notes(tmp_path) == [["manual", True, False], ["short", True]]


async def test_python_and_typescript_extensions_work_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "three.ts").write_text(
        'export default (pi) => { pi.on("input", (event) => ({ action: "transform", text: event.text + " two" })); };'
    )
    (tmp_path / "four.mjs").write_text(
        'import { Type } from "@sinclair/typebox";\nimport { StringEnum } from "@mariozechner/pi-ai";\n'
        'export default (pi) => { pi.on("input", (event) => ({ action: "transform", '
        'text: event.text + " " + Type.Literal("x").const }));'
        ' if (StringEnum(["a"]).enum[0] !== "a") throw new Error(); };'
    )
    source = """
        from fairlead.extension import Transform
        def setup(fl):
            fl.on("input", lambda event: Transform(event.text + " one"))
    """
    settings = json.dumps({"extensions": [str(tmp_path / "three.ts"), str(tmp_path / "four.mjs")]})
    async with extended(tmp_path, source, settings=settings) as it:
        await it.agent.ask("hi")
        assert user_texts(it.agent.session.messages) == ["hi one two x"]
        assert it.errors == []


async def test_a_model_of_an_extension_is_asked(tmp_path: Path) -> None:
    body = """
  const { createAssistantMessageEventStream } = await import("@earendil-works/pi-ai");
  pi.registerProvider("own", {
    baseUrl: "http://own", apiKey: "x", api: "own-api",
    models: [{ id: "m1", name: "M1", reasoning: false, input: ["text"], cost: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 }, contextWindow: 1000, maxTokens: 100 }],
    streamSimple(model, context) {
      const stream = createAssistantMessageEventStream();
      const said = (context.messages.at(-1) as any).content;
      const message: any = { role: "assistant", content: [{ type: "text", text: `heard ${JSON.stringify(said)}` }], api: model.api, provider: model.provider, model: model.id,
        usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }, stopReason: "stop", timestamp: Date.now() };
      queueMicrotask(() => { stream.push({ type: "done", reason: "stop", message }); stream.end(); });
      return stream;
    },
  });
  pi.registerCommand("use", { handler: async (args, ctx) => {
    note(await pi.setModel(ctx.modelRegistry.find("own", "m1")!));
    const answer = await ctx.modelRegistry.complete(ctx.model!, { messages: [{ role: "user", content: "psst", timestamp: 1 }] });
    note(answer.content);
  } });
"""  # noqa: E501
    async with extended(tmp_path, settings="{}") as _:
        pass
    source = tmp_path / "provider.ts"
    source.write_text(
        'import { appendFileSync } from "node:fs";\n'
        f"const file = {json.dumps(str(tmp_path / 'notes'))};\n"
        "const note = (value: unknown) => appendFileSync(file, JSON.stringify(value) + '\\n');\n"
        f"export default async function (pi: any) {{\n{body}\n}}\n"
    )
    from fairlead import Agent

    env = {"FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    async with Agent(cwd=tmp_path, env=env, extensions=[source]) as agent:
        assert str(await agent.ask("/use")) == ""
        answer = await agent.ask("hi")
    assert str(answer).startswith("heard ") and "hi" in str(answer)
    assert notes(tmp_path) == [True, [{"type": "text", "text": 'heard "psst"'}]]


async def test_parts_of_the_system_prompt_are_added(tmp_path: Path) -> None:
    body = """
  pi.on("before_agent_start", (event) => {
    note(event.systemPromptOptions.selectedTools);
    event.systemPromptOptions.sections.house_rules = "No tabs.";
    event.systemPromptOptions.promptGuidelines.push("Be kind.");
  });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        prompt = it.model.requests[0].system_prompt
        assert prompt.endswith("<house_rules>\nNo tabs.\n</house_rules>\n\n- Be kind.") and prompt.startswith("You are")
    assert notes(tmp_path)[0] == ["read", "bash", "edit", "write"]


async def test_a_result_can_end_the_run(tmp_path: Path) -> None:
    body = """
  pi.registerTool({ name: "finish", label: "F", description: "Ends", parameters: Type.Object({}),
    async execute() { return { content: [{ type: "text", text: "over" }], details: {}, terminate: true }; } });
"""
    async with scripted(tmp_path, body, turns=[calling("finish"), Turn(text="never asked")]) as it:
        await it.agent.ask("hi")
        await it.agent.idle()
        assert len(it.model.requests) == 1 and it.results == [("over", False)]


async def test_each_session_gets_a_new_instance(tmp_path: Path) -> None:
    body = """
  let count = 0;
  pi.on("session_start", (event) => note([event.reason, ++count]));
  pi.registerCommand("go", { handler: async (args, ctx) => {
    await ctx.newSession({ withSession: async (fresh) => { await fresh.sendUserMessage("kick off"); } });
  } });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.command("/go")
        await it.agent.idle()
        assert user_texts(it.agent.session.messages) == ["kick off"]
        assert it.errors == []
    assert notes(tmp_path) == [["startup", 1], ["new", 1]]


async def test_entries_are_proposed_at_the_end_of_a_turn_and_of_a_run(tmp_path: Path) -> None:
    body = """
  let turns = 0;
  pi.on("turn_end", (event) => {
    note([event.turnIndex, event.toolResults.length]);
    const hint = { type: "custom_message", customType: "hint", content: "again", display: false };
    const mark = { type: "custom", customType: "mark", data: 1 };
    if (++turns === 1) return { entries: [...event.entries, mark, hint], continue: true };
  });
  let asked = false;
  pi.on("agent_before_settle", () => {
    if (asked) return;
    asked = true;
    return { entries: [{ type: "custom_message", customType: "more", content: "once more", display: true }], continue: true };
  });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.agent.idle()
        custom = [message for message in it.agent.session.messages if isinstance(message, CustomMessage)]
        assert [message.custom_type for message in custom] == ["hint", "more"]
        assert it.notes("mark") == [1] and len(it.model.requests) == 3
    assert notes(tmp_path) == [[0, 0], [1, 0], [0, 0]]


async def test_arguments_are_prepared_before_they_are_checked(tmp_path: Path) -> None:
    body = """
  pi.registerTool({ name: "pick", label: "P", description: "Picks", parameters: Type.Object({ action: Type.String() }),
    prepareArguments: (args: any) => (args.oldAction ? { action: args.oldAction } : args),
    async execute(id, params) { return { content: [{ type: "text", text: params.action }], details: {} }; } });
"""
    turns = [calling("pick", oldAction="old"), calling("pick", action="new"), calling("pick", other=1), Turn(text="ok")]
    async with scripted(tmp_path, body, turns=turns) as it:
        await it.agent.ask("hi")
        assert it.results[:2] == [("old", False), ("new", False)]
        assert it.results[2][1] and it.results[2][0].startswith('Validation failed for tool "pick"')
        (spec,) = [tool for tool in it.model.requests[0].tools if tool.name == "pick"]
        assert spec.parameters["required"] == ["action"]


async def test_commands_with_one_name_are_numbered_as_in_pi(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("go", { handler: async () => note("NUMBER") });
  pi.registerCommand("list", { handler: async () => note(pi.getCommands().map((each) => each.name)) });
"""
    sources = [script(tmp_path, body.replace("NUMBER", number)) for number in ("one", "two")]
    async with extended(tmp_path, *sources, suffix="ts") as it:
        for text in ("/go:1", "/go:2", "/list:1"):
            await it.command(text)
        assert it.errors == []
    assert notes(tmp_path) == ["one", "two", ["go:1", "list:1", "go:2", "list:2"]]
