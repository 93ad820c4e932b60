"""pi's SDK inside extensions: `createAgentSession`, whose agent runs in another process."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import Extended, notes, scripted

from fairlead.testing import ProviderServer

BEGIN = """
  const sdk = await import("@earendil-works/pi-coding-agent");
  const memory = () => ({ sessionManager: sdk.SessionManager.inMemory(process.cwd()) });
  const failure = async (work: () => any) => { try { await work(); return "no error"; } catch (error: any)
      { return error.message; } };
  pi.registerCommand("go", { handler: async (_args, ctx) => {
"""
END = "  } });\n"


@asynccontextmanager
async def with_sdk(
    root: Path, monkeypatch: pytest.MonkeyPatch, body: str, turns: Sequence[dict[str, Any]] = ({"text": "ok"},), **options: Any
) -> AsyncGenerator[tuple[Extended, ProviderServer]]:
    """An agent whose extension has a command `/go`, and the provider of the agents that this command starts."""
    async with ProviderServer(turns) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        async with scripted(root, f"{BEGIN}{body}{END}", **options) as it:
            yield it, provider
            assert it.errors == []


def called(provider: ProviderServer, request: int = 0) -> list[str]:
    return [tool["name"] for tool in provider.requests[request].body["tools"]]


async def until_gone(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await asyncio.to_thread(select.select, [handle], [], [], 20)
    finally:
        os.close(handle)
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_a_session_answers_with_tools_of_the_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const stock = sdk.defineTool({ name: "stock", label: "Stock", description: "How many there are",
      parameters: Type.Object({ item: Type.String() }),
      async execute(_id, { item }, _signal, onUpdate, toolCtx) {
        onUpdate?.({ content: [{ type: "text", text: "looking" }], details: {} });
        if (item === "ghost") throw new Error("There are no ghosts");
        return { content: [{ type: "text", text: `3 of ${item} for ${toolCtx.model.id}` }], details: { shelf: "B2" } };
      } });
    const { session } = await sdk.createAgentSession({ ...memory(), customTools: [stock], tools: ["read", "stock"] });
    const events: any[] = [];
    session.subscribe((event) => events.push(event));
    note([session.model.provider, session.getActiveToolNames(), session.isStreaming, session.sessionFile ?? null]);
    const running = session.prompt("How many?");
    await running;
    const partial = events.find((event) => event.assistantMessageEvent?.type === "text_end").message.content;
    note([session.getLastAssistantText(), session.messages.map((message) => message.role), partial]);
    note(events.map((event) => event.type).filter((type, index, all) => type !== all[index - 1]));
    note(session.sessionManager.getEntries().filter((entry) => entry.type === "message").length);
    note([session.getSessionStats().toolCalls, session.getContextUsage().tokens > 0, session.state.pendingToolCalls.size]);
    session.dispose();
    note(await failure(() => session.prompt("more")));
"""
    turns = [
        {"toolCalls": [{"name": "stock", "arguments": {"item": "lamp"}}, {"name": "stock", "arguments": {"item": "ghost"}}]},
        {"text": "There are three."},
    ]
    async with with_sdk(tmp_path, monkeypatch, body, turns) as (it, provider):
        await it.command("/go")
    first, answered, events, messages, stats, late = notes(tmp_path)
    assert first == ["anthropic", ["read", "stock"], False, None]
    roles = ["user", "assistant", "toolResult", "toolResult", "assistant"]
    assert answered == ["There are three.", roles, [{"type": "text", "text": "There are three."}]]
    assert events[:2] == ["agent_start", "turn_start"] and events[-2:] == ["agent_end", "agent_settled"]
    assert {"message_update", "tool_execution_update", "tool_execution_end"} <= set(events)
    assert (messages, stats, late) == (5, [2, True, 0], "The session has been disposed.")
    assert called(provider) == ["read", "stock"]
    results = [each["content"][0]["text"] for each in provider.requests[1].body["messages"][-1]["content"]]
    assert results[0].startswith("3 of lamp for claude-") and results[1] == "There are no ghosts"
    assert not list((tmp_path / "home").rglob("*.jsonl"))


async def test_options_choose_model_level_tools_and_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const model = ctx.modelRegistry.find("anthropic", "claude-sonnet-4-5");
    const extensions = { extensions: [], errors: [], runtime: sdk.createExtensionRuntime() };
    const none = () => ({ skills: [], prompts: [], themes: [], agentsFiles: [{ path: "RULES.md", content: "Be brief." }],
      diagnostics: [] });
    const resourceLoader: any = { getExtensions: () => extensions, getSkills: none, getPrompts: none, getThemes: none,
      getAgentsFiles: none,
      getSystemPrompt: () => "You are a clerk.", getAppendSystemPrompt: () => ["Say please."], extendResources() {},
      async reload() {} };
    const { session } = await sdk.createAgentSession({ ...memory(), model, thinkingLevel: "low", tools: [], resourceLoader });
    session.agent.state.messages = [{ role: "user", content: [{ type: "text", text: "Earlier question" }], timestamp: 1 }];
    await session.prompt("Now");
    note([session.model.id, session.thinkingLevel, session.getAllTools().length, session.messages.length]);
    session.setThinkingLevel("high");
    await session.setModel(ctx.modelRegistry.find("anthropic", "claude-opus-4-5"));
    session.agent.state.systemPrompt = "You are a judge.";
    await session.prompt("Again");
    note([session.model.id, session.messages.length]);
    note(await failure(() => { session.agent.streamFn = () => {}; }));
    session.dispose();
"""
    async with with_sdk(tmp_path, monkeypatch, body) as (it, provider):
        await it.command("/go")
    assert notes(tmp_path)[:2] == [["claude-sonnet-4-5", "low", 0, 3], ["claude-opus-4-5", 5]]
    assert notes(tmp_path)[2].startswith("session.agent.streamFn cannot be set in fairlead")
    first, second = [request.body for request in provider.requests]
    system = json.dumps(first["system"])
    assert all(text in system for text in ("You are a clerk.", "Say please.", "Be brief."))
    assert "Earlier question" in json.dumps(first["messages"]) and not first.get("tools")
    assert "You are a judge." in json.dumps(second["system"]) and "Earlier question" in json.dumps(second["messages"])
    assert second["model"] == "claude-opus-4-5"


async def test_a_saved_session_is_resumed_and_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""
    const manager = sdk.SessionManager.create(process.cwd(), {json.dumps(str(tmp_path / "saved"))});
    const {{ session }} = await sdk.createAgentSession({{ sessionManager: manager }});
    await session.prompt("one");
    note(await failure(() => sdk.createAgentSession({{ sessionManager: manager }})));
    manager.appendCustomEntry("mark", {{ by: "extension" }});
    await session.prompt("two");
    session.setSessionName("Named");
    session.dispose();
    const again = sdk.SessionManager.open(manager.getSessionFile());
    const resumed = (await sdk.createAgentSession({{ sessionManager: again }})).session;
    await resumed.prompt("three");
    resumed.dispose();
    note([resumed.sessionId === session.sessionId, resumed.sessionFile === session.sessionFile, resumed.sessionName]);
    note(again.getBranch().filter((entry) => ["message", "custom"].includes(entry.type)).map((entry) =>
      entry.message?.role ?? entry.customType));
    note(again.buildSessionContext().messages.length);
    const forked = sdk.SessionManager.open(again.getSessionFile());
    forked.createBranchedSession(again.getEntries().find((entry) => entry.message?.role === "assistant").id);
    note([forked.getSessionFile() !== again.getSessionFile(), forked.getEntries().filter((entry) => entry.message).length]);
    note((await sdk.SessionManager.list(process.cwd(), {json.dumps(str(tmp_path / "saved"))})).length);
"""
    async with with_sdk(tmp_path, monkeypatch, body) as (it, _):
        await it.command("/go")
    used, same, branch, messages, forked, listed = notes(tmp_path)
    assert used.startswith("The session of this SessionManager is in use.")
    assert same == [True, True, "Named"]
    assert branch == ["user", "assistant", "mark", "user", "assistant", "user", "assistant"]
    assert (messages, forked, listed) == (6, [True, 2], 2)


async def test_a_prompt_is_aborted_and_steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const { session } = await sdk.createAgentSession({ ...memory(), tools: ["bash"] });
    const started = (type: string) => new Promise<void>((resolve) => {
      const stop = session.subscribe((event) => { if (event.type === type) { stop(); resolve(); } });
    });
    const updated = started("message_update");
    const running = session.prompt("one");
    await updated;
    note([session.isStreaming, await failure(() => session.prompt("two"))]);
    await session.abort();
    await running;
    note([session.isStreaming, session.messages.at(-1).stopReason]);
    const tool = started("tool_execution_start");
    const second = session.prompt("three");
    await tool;
    await session.steer("Faster, please");
    note(session.pendingMessageCount);
    await second;
    note([session.getLastAssistantText(), session.pendingMessageCount]);
    await session.abort();
    session.dispose();
    session.dispose();
    await session.abort();
"""
    turns = [
        {"text": "a long answer that stops", "hangAfter": 1},
        {"toolCalls": [{"name": "bash", "arguments": {"command": f"until test -e {tmp_path}/go; do sleep 0.05; done"}}]},
        {"text": "done"},
    ]
    async with with_sdk(tmp_path, monkeypatch, body, turns) as (it, provider):
        running = asyncio.create_task(it.command("/go"))
        await provider.until(lambda server: len(server.requests) == 2)
        while len(notes(tmp_path)) < 3:  # noqa: ASYNC110  # the notes are a file of another process
            await asyncio.sleep(0.02)
        (tmp_path / "go").touch()
        await running
    busy, aborted, waiting, done = notes(tmp_path)
    assert busy[0] is True and busy[1] != "no error"
    assert aborted == [False, "aborted"]
    assert (waiting, done) == (1, ["done", 0])
    assert "Faster, please" in json.dumps(provider.requests[2].body["messages"])


async def test_an_agent_that_dies_fails_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const { session } = await sdk.createAgentSession({ ...memory(), tools: ["bash"] });
    const events: string[] = [];
    session.subscribe((event) => events.push(event.type));
    note(await failure(() => session.prompt("one")));
    note([session.isStreaming, events.slice(-2), session.messages.length > 0, await failure(() => session.prompt("two"))]);
    await session.abort();
    session.dispose();
"""
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": "kill -9 $PPID"}}]}]
    async with with_sdk(tmp_path, monkeypatch, body, turns) as (it, _):
        await it.command("/go")
    died, after = notes(tmp_path)
    assert died == "The agent of this session was ended by SIGKILL."
    assert after == [False, ["agent_end", "agent_settled"], True, died]


async def test_agents_end_with_the_process_of_extensions_and_when_disposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
    const sessions = await Promise.all([...Array(12).keys()].map(() => sdk.createAgentSession({ ...memory(), tools: ["bash"] })));
    for (const { session } of sessions) {
      await session.prompt("who");
      note(Number(session.messages.findLast((message) => message.role === "toolResult").content[0].text));
    }
    for (const { session } of sessions.slice(1)) session.dispose();
    note([process.pid]);
"""
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": "echo $PPID"}}]}, {"text": "ok"}]
    script = [turn for _ in range(12) for turn in turns]
    async with with_sdk(tmp_path, monkeypatch, body, script) as (it, _):
        await it.command("/go")
        first, *disposed, [process] = notes(tmp_path)
        assert len({first, *disposed}) == 12
        for pid in disposed:
            await until_gone(pid)
        assert Path(f"/proc/{first}").exists()
        os.kill(process, signal.SIGKILL)
        await until_gone(first)


async def test_inline_extensions_judge_calls_and_add_tools_and_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
    const factory = (api: any) => {
      api.on("tool_call", (event: any, hookCtx: any) => {
        if (event.input.command === "rm") return { block: true, reason: `Not in ${hookCtx.model.id}` };
        if (event.toolName === "bash") event.input.command = "echo changed";
      });
      api.on("before_agent_start", (event: any) => ({ systemPrompt: `${event.systemPrompt} Mind the gap.` }));
      api.on("session_start", () => api.setSessionName("From a hook"));
      api.registerTool({ name: "lamp", description: "A lamp", parameters: Type.Object({}), execute: async () =>
      ({ content: [{ type: "text", text: "lit" }], details: {} }) });
    };
    const resourceLoader = new sdk.DefaultResourceLoader({ cwd: process.cwd(), agentDir: sdk.getAgentDir(), noExtensions: true,
      noSkills: true, noContextFiles: true, extensionFactories: [{ name: "gate", factory }] });
    await resourceLoader.reload();
    const { session } = await sdk.createAgentSession({ ...memory(), resourceLoader });
    note([session.extensionRunner.hasHandlers("tool_call"), session.extensionRunner.hasHandlers("context"),
      session.getActiveToolNames()]);
    await session.prompt("go");
    note(session.sessionName);
    session.dispose();
"""
    calls: list[tuple[str, dict[str, str]]] = [("bash", {"command": "rm"}), ("bash", {"command": "ls"}), ("lamp", {})]
    turns = [{"toolCalls": [{"name": name, "arguments": given} for name, given in calls]}, {"text": "done"}]
    async with with_sdk(tmp_path, monkeypatch, body, turns) as (it, provider):
        await it.command("/go")
    assert notes(tmp_path) == [[True, False, ["read", "bash", "edit", "write", "lamp"]], "From a hook"]
    results = [each["content"][0]["text"] for each in provider.requests[1].body["messages"][-1]["content"]]
    assert results[0].startswith("Not in claude-") and results[1:] == ["changed\n", "lit"]
    assert "Mind the gap." in json.dumps(provider.requests[0].body["system"])


async def test_a_reloaded_session_has_its_inline_extensions_and_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    let made = 0;
    const factory = (api: any) => {
      made += 1;
      api.on("before_agent_start", (event: any) => ({ systemPrompt: `${event.systemPrompt} Mind the gap.` }));
      api.registerTool({ name: "lamp", description: "A lamp", parameters: Type.Object({}), execute: async () =>
      ({ content: [{ type: "text", text: "lit" }] }) });
    };
    const resourceLoader = new sdk.DefaultResourceLoader({ cwd: process.cwd(), agentDir: sdk.getAgentDir(), noExtensions: true,
      extensionFactories: [factory] });
    await resourceLoader.reload();
    const { session } = await sdk.createAgentSession({ ...memory(), resourceLoader, thinkingLevel: "low" });
    const choices = () => [session.getActiveToolNames(), session.autoCompactionEnabled, session.steeringMode,
      session.thinkingLevel];
    await session.prompt("one");
    session.setActiveToolsByName(["read", "lamp"]);
    session.setAutoCompactionEnabled(false);
    session.setSteeringMode("all");
    session.setThinkingLevel("high");
    const before = choices();
    const command = session.executeBash("echo hi");
    note([session.isBashRunning, (await command).output, session.isBashRunning]);
    await session.reload();
    await session.prompt("two");
    note([made, before, choices(), session.messages.filter((each) => each.role === "user").length]);
    session.dispose();
"""
    turns: list[dict[str, Any]] = [{"text": "ok"}, {"toolCalls": [{"name": "lamp", "arguments": {}}]}, {"text": "done"}]
    async with with_sdk(tmp_path, monkeypatch, body, turns) as (it, provider):
        await it.command("/go")
    [commands, [made, before, after, prompts]] = notes(tmp_path)
    assert commands == [True, "hi\n", False]
    assert (made, after, prompts) == (2, before, 2)
    assert before == [["read", "lamp"], False, "all", "high"]
    assert called(provider, 1) == ["read", "lamp"]
    assert "Mind the gap." in json.dumps(provider.requests[1].body["system"])


async def test_a_loader_lists_prompts_and_skills_as_the_agent_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const resourceLoader = new sdk.DefaultResourceLoader({ cwd: process.cwd(), agentDir: sdk.getAgentDir(),
      additionalPromptTemplatePaths: ["more.md", "missing"] });
    await resourceLoader.reload();
    const describe = ({ filePath, sourceInfo: { source, scope }, ...prompt }: any) => [prompt, source, scope];
    note(resourceLoader.getPrompts().prompts.map(describe));
    note(resourceLoader.getSkills().skills.map(({ name, sourceInfo }: any) => [name, sourceInfo.source, sourceInfo.baseDir]));
    const { session } = await sdk.createAgentSession({ ...memory(), resourceLoader });
    note(session.promptTemplates.map((prompt: any) => prompt.name));
    session.dispose();
"""
    home = tmp_path / "home"
    (home / "prompts").mkdir(parents=True)
    (home / "prompts" / "greet.md").write_text("---\ndescription: Greet\nargument-hint: <name>\n---\nHello $1.\n")
    (home / "skills" / "tidy").mkdir(parents=True)
    (home / "skills" / "tidy" / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidy up\n---\nDo.\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "more.md").write_text("Say more.\n")
    async with with_sdk(tmp_path, monkeypatch, body) as (it, _):
        await it.command("/go")
    prompts, skills, names = notes(tmp_path)
    assert prompts == [
        [{"name": "greet", "description": "Greet", "argumentHint": "<name>", "content": "Hello $1."}, "auto", "user"],
        [{"name": "more", "description": "Say more.", "content": "Say more.\n"}, "path", "user"],
    ]
    assert skills == [["tidy", "auto", str(home)]]
    assert names == ["greet", "more"]


async def test_a_tool_of_the_extension_replaces_a_built_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const own = sdk.createReadTool(process.cwd());
    const bash = { ...sdk.createBashTool(process.cwd()), async execute(_id: any, { command }: any, _signal: any, onUpdate: any) {
      onUpdate({ content: [{ type: "text", text: "half" }], details: {} });
      return { content: [{ type: "text", text: `not running ${command}` }], details: {} };
    } };
    const { session } = await sdk.createAgentSession({ ...memory(), tools: ["read", "bash"], customTools: [own, bash] });
    const halves: any[] = [];
    session.subscribe((event) => {
      if (event.type === "tool_execution_update") halves.push(event.partialResult.content[0].text);
    });
    await session.prompt("go");
    note([session.getActiveToolNames().sort(), halves]);
    session.dispose();
"""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "it.txt").write_text("of the agent")
    calls = [("bash", {"command": "ls"}), ("read", {"path": "it.txt"})]
    turns = [{"toolCalls": [{"name": name, "arguments": given} for name, given in calls]}, {"text": "done"}]
    async with with_sdk(tmp_path, monkeypatch, body, turns) as (it, provider):
        await it.command("/go")
    assert notes(tmp_path) == [[["bash", "read"], ["half"]]]
    results = [each["content"][0]["text"] for each in provider.requests[1].body["messages"][-1]["content"]]
    assert results == ["not running ls", "of the agent"]


async def test_an_agent_is_as_careful_as_that_of_the_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    const { session } = await sdk.createAgentSession({ ...memory(), tools: ["bash"] });
    await session.prompt("go");
    note(session.messages.findLast((message) => message.role === "toolResult").isError);
    session.dispose();
    const { spawnSync } = await import("node:child_process");
    const run = (...args: string[]) => spawnSync(process.execPath, [process.argv[1], ...args], { encoding: "utf8" });
    note(run("-p", "--no-session", "--yolo", "go").status);
    note(run("--version").status);
"""
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": f"touch {tmp_path}/made"}}]}, {"text": "ok"}] * 2
    async with with_sdk(tmp_path, monkeypatch, body, turns, approval="ask") as (it, provider):
        await it.command("/go")
    assert notes(tmp_path) == [True, 0, 0]
    assert len(provider.requests) == 4
    assert not (tmp_path / "made").exists()


async def test_a_program_of_an_extension_imports_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the packages from `argv[1]`. Its agents have the home of the extension's agent and are as careful."""
    (tmp_path / "program.mjs").write_text("""
      import { createRequire } from "node:module";
      const [home] = process.argv.slice(2);
      const require = createRequire(`${home}/package.json`);
      const sdk = await import(`${home}/dist/index.mjs`);
      const core = await import(`${home}/../pi-agent-core/dist/index.mjs`);
      const chord = await import(`${home}/node_modules/@earendil-works/chord/dist/index.mjs`);
      const { session } = await sdk.createAgentSession({ sessionManager: sdk.SessionManager.inMemory(), tools: ["bash"] });
      await session.prompt("go");
      const failure = (work) => { try { return work(); } catch (error) { return error.message; } };
      console.log(JSON.stringify([sdk.getAgentDir(), session.messages.findLast(({ role }) => role === "toolResult").isError,
        require("typebox").Type.String().type, typeof require("typebox/value").Value.Check,
        typeof require("typebox/compile").Compile,
        failure(() => new core.NodeExecutionEnv()), failure(() => chord.createContextKey("x"))]));
      session.dispose();
    """)
    body = f"""
    const {{ spawnSync }} = await import("node:child_process");
    const path = await import("node:path");
    const home = path.dirname(path.dirname(process.argv[1]));
    const done = spawnSync(process.execPath, [{json.dumps(str(tmp_path / "program.mjs"))}, home], {{ encoding: "utf8" }});
    note(done.status === 0 ? JSON.parse(done.stdout) : done.stderr);
"""
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": f"touch {tmp_path}/made"}}]}, {"text": "ok"}]
    async with with_sdk(tmp_path, monkeypatch, body, turns, approval="ask") as (it, provider):
        await it.command("/go")
    [[home, *rest]] = notes(tmp_path)
    assert (home, rest[:4]) == (str(tmp_path / "home"), [True, "string", "function", "function"])
    assert rest[4:] == [
        "new NodeExecutionEnv() of pi-agent-core is not available in fairlead.",
        "createContextKey() of chord is not available in fairlead.",
    ]
    assert len(provider.requests) == 2
    assert not (tmp_path / "made").exists()


async def test_names_of_the_sdk_work_without_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text('{"shellPath": "/bin/sh", "compaction": {"keepRecentTokens": 5}}')
    (tmp_path / "home" / "auth.json").write_text('{"groq": {"type": "api_key", "key": "secret"}}')
    body = """
    const ai = await import("@earendil-works/pi-ai");
    const settings = sdk.SettingsManager.create(process.cwd());
    settings.setDefaultModelAndProvider("anthropic", "claude-opus-4-5");
    note([settings.getShellPath(), settings.getCompactionSettings(), sdk.SettingsManager.create().getDefaultModel(),
      settings.getTheme() ?? null]);
    note([sdk.SettingsManager.inMemory({ retry: { enabled: false } }).getRetryEnabled(),
      sdk.SettingsManager.inMemory().getRetryEnabled()]);
    note([sdk.readStoredCredential("groq"), await sdk.AuthStorage.create().read("groq"),
      await sdk.AuthStorage.inMemory({}).list()]);
    const runtime = await sdk.ModelRuntime.create();
    const { model, thinkingLevel } = sdk.resolveCliModel({ cliModel: "anthropic/claude-sonnet-4-5:high", modelRuntime: runtime });
    note([model.id, thinkingLevel, ai.getSupportedThinkingLevels(model).length > 1, ai.clampThinkingLevel(model, "max"),
      ai.getEnvApiKey("anthropic")]);
    note(new sdk.ModelRegistry(runtime).find("anthropic", "claude-sonnet-4-5").id);
    const memory = sdk.SessionManager.inMemory();
    for (const text of ["a".repeat(40), "b".repeat(40)]) {
      memory.appendMessage({ role: "user", content: text, timestamp: 1 });
      memory.appendMessage({ role: "assistant", content: [{ type: "text", text }], timestamp: 2 } as any);
    }
    const entries = memory.getBranch();
    note(sdk.findCutPoint(entries, 0, entries.length, 15));
    note(sdk.prepareCompaction(entries, settings.getCompactionSettings()).messagesToSummarize.length);
    const id = memory.appendCompaction("S", entries[2].id, 20);
    note([sdk.buildSessionContext(memory.getEntries()).messages.map((each) => each.role),
      sdk.sessionEntryToContextMessages(memory.getEntry(id))[0].summary]);
    note(sdk.truncateToVisualLines("one\\ntwo\\nthree", 2, 10));
    const early: any = sdk.createExtensionRuntime();
    early.registerProvider("one", {});
    early.registerProvider("two", {}, "/x");
    early.unregisterProvider("one");
    note([early.pendingProviderRegistrations, await failure(() => early.sendMessage({}))]);
    const models: any = new sdk.ModelRegistry(await sdk.ModelRuntime.create());
    note([await failure(() => models.registerProvider("p", {})), await sdk.resizeImage({ data: "x" } as any, "image/png")]);
    note([await sdk.resizeImage(Buffer.from("no image"), "image/png"), await failure(() =>
      sdk.DefaultPackageManager.prototype.install)]);
"""
    async with with_sdk(tmp_path, monkeypatch, body) as (it, _):
        await it.command("/go")
    assert notes(tmp_path)[:-1] == [
        ["/bin/sh", {"enabled": True, "reserveTokens": 16384, "keepRecentTokens": 5}, "claude-opus-4-5", None],
        [False, True],
        [{"type": "api_key", "key": "secret"}, {"type": "api_key", "key": "secret"}, []],
        ["claude-sonnet-4-5", "high", True, "high", "any"],
        "claude-sonnet-4-5",
        {"firstKeptEntryIndex": 2, "turnStartIndex": -1, "isSplitTurn": False},
        2,
        [["compactionSummary", "user", "assistant"], "S"],
        {"visualLines": ["two       ", "three     "], "skippedCount": 1},
        [
            [{"name": "two", "config": {}, "extensionPath": "/x"}],
            "Extension runtime not initialized. Action methods cannot be called during extension loading.",
        ],
        ["registerProvider() of ModelRegistry is not available in fairlead. Use an extension, or `fairlead login`.", None],
    ]
