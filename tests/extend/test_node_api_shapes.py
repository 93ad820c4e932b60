"""What the methods of pi's extension API return."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.extend.extended import calling, notes, scripted

from fairlead import Storage
from fairlead.core.runtime import NoUi
from fairlead.session.selection import Scoped
from fairlead.testing import SCRIPTED_MODEL, Turn


async def test_programs_end_as_pi_reports_it(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("run", { handler: async () => {
    note(await pi.exec("sh", ["-c", "echo out; echo err >&2; exit 3"]));
    note(await pi.exec("no-such-program", []));
    note(await pi.exec("sleep", ["60"], { timeout: 50 }));
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 50);
    note(await pi.exec("sleep", ["60"], { signal: stop.signal }));
    note(await pi.exec("sh", ["-c", "yes | head -c 100000"], { maxBuffer: 4 }));
    note(await pi.exec("pwd", [], { cwd: "/" }));
  } });
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/run")
        assert it.errors == []
    ended = {"stdout": "", "stderr": "", "code": 0, "killed": True, "truncated": False}
    assert notes(tmp_path) == [
        {"stdout": "out\n", "stderr": "err\n", "code": 3, "killed": False, "truncated": False},
        {"stdout": "", "stderr": "spawn no-such-program ENOENT", "code": 1, "killed": False, "truncated": False},
        ended,
        ended,
        {"stdout": "y\ny\n", "stderr": "", "code": 1, "killed": True, "truncated": True},
        {"stdout": "/\n", "stderr": "", "code": 0, "killed": False, "truncated": False},
    ]


async def test_sessions_are_listed_with_their_times_and_sizes(tmp_path: Path) -> None:
    body = """
  const { SessionManager } = await import("@earendil-works/pi-coding-agent");
  pi.registerCommand("list", { handler: async (_args, ctx) => {
    for (const listed of [await SessionManager.list(ctx.cwd), await SessionManager.listAll()]) {
      note(listed.map((each) => [each.path === ctx.sessionManager.getSessionFile(), each.messageCount, each.firstMessage,
        each.created instanceof Date, each.modified.getTime() >= each.created.getTime(), "name" in each, each.allMessagesText]));
    }
  } });
"""
    async with scripted(tmp_path, body, store=Storage(tmp_path / "sessions")) as it:
        await it.agent.ask("hi there")
        await it.command("/list")
        assert it.errors == []
    assert notes(tmp_path) == [[[True, 2, "hi there", True, True, True, "hi there ok"]]] * 2


async def test_a_projection_has_the_messages_of_each_entry(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("look", { handler: async (_args, ctx) => {
    const { entries, messages } = ctx.sessionManager.buildSessionProjection();
    note(entries.filter((each) => each.messages.length).map((each) => [each.sourceEntry.type, each.messages[0].role]));
    note([messages.length, ctx.sessionManager.getEntryCount() === ctx.sessionManager.getEntries().length]);
  } });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.command("/look")
        assert it.errors == []
    assert notes(tmp_path) == [[["message", "user"], ["message", "assistant"]], [2, True]]


async def test_hidden_and_unknown_tools_cannot_be_activated(tmp_path: Path) -> None:
    body = """
  const tool = (name, exposure) => ({ name, exposure, description: name, parameters: Type.Object({}),
    execute: async () => ({ content: [{ type: "text", text: name }], details: {} }) });
  for (const exposure of ["hidden", "deferred", "codemode"]) pi.registerTool(tool(exposure, exposure));
  pi.registerCommand("activate", { handler: async () => {
    pi.setActiveTools(["read", "hidden", "deferred", "unknown", "deferred"]);
    note(pi.getActiveTools());
  } });
"""
    async with scripted(tmp_path, body, turns=[calling("hidden"), Turn(text="ok")]) as it:
        await it.command("/activate")
        await it.agent.ask("hi")
        assert it.results[0][1]
    assert notes(tmp_path) == [["read", "deferred"]]


async def test_a_notification_keeps_its_kind(tmp_path: Path) -> None:
    class Shows(NoUi):
        available = True

        def __init__(self) -> None:
            self.shown: list[tuple[str, str | None]] = []

        def notify(self, message: str, kind: Any = None) -> None:
            self.shown.append((message, kind))

    ui = Shows()
    body = """
  pi.registerCommand("say", { handler: async (_args, ctx) => {
    ctx.ui.notify("one", "warning");
    ctx.ui.notify("two", "success" as any);
  } });
"""
    async with scripted(tmp_path, body) as it:
        it.agent.session.host.ui = ui
        await it.command("/say")
        assert it.errors == []
    assert ui.shown == [("one", "warning"), ("two", "success")]


async def test_a_new_session_is_prepared_before_it_is_used(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("new", { handler: async (_args, ctx) => {
    const before = ctx.sessionManager.getSessionId();
    await ctx.newSession({
      setup: async (session) => {
        const id = session.appendMessage({ role: "user", content: [{ type: "text", text: "carried over" }], timestamp: 1 });
        session.appendCustomEntry("mine", { a: 1 });
        session.appendCustomMessageEntry("hint", "a hint", true, { b: 2 });
        session.appendSessionInfo("prepared");
        session.appendLabelChange(id, "here");
        note([session.getEntry(id).message.content[0].text, session.getLabel(id), session.getSessionName(), session.getSessionId() !== before]);
      },
      withSession: async (ctx) => note(ctx.sessionManager.getEntries().filter((each) => !each.type.endsWith("_change")).map((each) => each.type)),
    });
  } });
"""  # noqa: E501
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.command("/new")
        assert it.errors == []
    assert notes(tmp_path) == [
        ["carried over", "here", "prepared", True],
        ["message", "custom", "custom_message", "session_info", "label"],
    ]


async def test_models_are_described_and_those_of_other_kinds_are_reported_as_missing(tmp_path: Path) -> None:
    body = """
  pi.registerProvider("mine", { name: "My Models", baseUrl: "http://127.0.0.1:9", apiKey: "k", api: "openai-completions",
    models: [{ id: "m", name: "M", reasoning: false, input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 9000, maxTokens: 100 }] });
  pi.registerCommand("look", { handler: async (_args, { modelRegistry, scopedModels }) => {
    note([modelRegistry.getRegisteredProviderIds(), modelRegistry.getProviderDisplayName("mine"), modelRegistry.getRegisteredProviderConfig("mine").baseUrl]);
    note([scopedModels.map(({ model, thinkingLevel }) => [model.id, thinkingLevel ?? null])]);
    const { stopReason, answers, errorMessage } = await modelRegistry.classify({ provider: "p", id: "c" }, { state: {}, questions: {} });
    const images = await modelRegistry.generateImages({ provider: "p", id: "i" }, { input: [] });
    note([stopReason, answers, errorMessage.includes("p/c"), images.stopReason, images.output]);
  } });
"""  # noqa: E501
    async with scripted(tmp_path, body) as it:
        scoped: Scoped = [(SCRIPTED_MODEL, "high")]
        it.agent.session.models.scoped = scoped
        await it.command("/look")
        assert it.errors == []
    assert notes(tmp_path) == [
        [["mine"], "My Models", "http://127.0.0.1:9"],
        [[[SCRIPTED_MODEL.id, "high"]]],
        ["error", {}, True, "error", []],
    ]


async def test_a_move_in_the_tree_has_the_entry_of_its_summary(tmp_path: Path) -> None:
    body = """
  pi.on("session_tree", (event) => note([event.summaryEntry?.type ?? null, event.summaryEntry?.summary ?? null]));
  pi.on("session_before_tree", () => ({ summary: { summary: "left", details: {} } }));
  pi.registerCommand("back", { handler: async (args, ctx) => {
    const first = ctx.sessionManager.getEntries().find((each) => each.message?.role === "assistant");
    await ctx.navigateTree(first.id, { summarize: args === "told" });
  } });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("one")
        await it.agent.ask("two")
        await it.command("/back")
        await it.agent.ask("three")
        await it.command("/back told")
        assert it.errors == []
    assert notes(tmp_path) == [[None, None], ["branch_summary", "left"]], json.dumps(notes(tmp_path))


async def test_a_copy_of_a_context_has_all_that_it_has(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("copy", { handler: async (_args, ctx) => {
    const copy = { ...ctx };
    await copy.waitForIdle();
    note([typeof copy.newSession, typeof copy.reload, copy.cwd === ctx.cwd, copy.isIdle()]);
  } });
  pi.registerTool({
    name: "copy", label: "Copy", description: "Copy.", parameters: Type.Object({}),
    async execute(_id, _params, _signal, _onUpdate, ctx) {
      const { tools, executeTool } = { ...ctx };
      note([Array.isArray(tools), typeof executeTool]);
      return { content: [], details: {} };
    },
  });
"""
    async with scripted(tmp_path, body, turns=[calling("copy"), Turn(text="ok")]) as it:
        await it.command("/copy")
        await it.agent.ask("hi")
        assert it.errors == []
    assert notes(tmp_path) == [["function", "function", True, True], [True, "function"]]


async def test_marks_of_typebox_do_not_leave_the_process(tmp_path: Path) -> None:
    body = """
  const item = { type: "string", "~optional": true, "~kind": "String", default: { "~mine": 1 } };
  const parameters = { "~kind": "Object", type: "object", properties: { item, "~odd": { type: "number", "~optional": true } } };
  const execute = async () => ({ content: [], details: {} });
  pi.registerTool({ name: "marked", label: "m", description: "d", parameters, outputSchema: parameters, execute });
  pi.registerCommand("look", { handler: async () => note(pi.getAllTools().find((tool) => tool.name === "marked").parameters) });
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/look")
        tool = it.agent.session.tools["marked"]
        assert tool.parameters == notes(tmp_path)[0]
    properties = {"item": {"type": "string", "default": {"~mine": 1}}, "~odd": {"type": "number"}}
    assert notes(tmp_path) == [{"type": "object", "properties": properties}]
