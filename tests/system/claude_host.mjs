// A host that uses claude-agent-sdk for TypeScript: `claude_host.mjs MODULE WHAT CLI CWD`. It prints what it saw as JSON.
const [module, what, pathToClaudeCodeExecutable, cwd, more] = process.argv.slice(2);
const sdk = await import(module);
const { query, listSessions, getSessionMessages, tool } = sdk;

const options = { pathToClaudeCodeExecutable, cwd, model: "claude-sonnet-4-5" };

async function ask(prompt, more = {}) {
  let result;
  for await (const message of query({ prompt, options: { ...options, ...more } })) {
    if (message.type === "result") result = message;
  }
  return result;
}

const flows = {
  async oneShot() {
    const result = await ask("go", { allowedTools: ["Bash"] });
    return { result: result.result, turns: result.num_turns };
  },

  async streaming() {
    const seen = [];
    let push;
    const waiting = [];
    async function* prompts() {
      for (;;) {
        const text = waiting.shift() ?? (await new Promise((resolve) => (push = resolve)));
        if (text === null) return;
        yield { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null, session_id: "" };
      }
    }
    const say = (text) => (push ? (push(text), (push = undefined)) : waiting.push(text));
    const running = query({ prompt: prompts(), options: { ...options, includePartialMessages: true } });
    say("one");
    let interrupted = false;
    for await (const message of running) {
      if (message.type === "stream_event" && message.event.type === "content_block_delta" && seen.length === 2 && !interrupted) {
        interrupted = true;
        await running.interrupt();
      }
      if (message.type !== "result") continue;
      seen.push(message.subtype === "success" ? message.result : message.subtype);
      if (seen.length === 1) {
        await running.setModel("claude-haiku-4-5");
        seen.push((await running.supportedModels()).length > 0);
        say("slow");
      } else if (seen.length === 3) say("three");
      else say(null);
    }
    return seen;
  },

  async consent() {
    const asked = [];
    const canUseTool = async (name, input) => {
      asked.push([name, input]);
      if (name === "Bash") return { behavior: "allow", updatedInput: { command: "echo changed" } };
      return { behavior: "deny", message: "Not today" };
    };
    async function* once() {
      yield { type: "user", message: { role: "user", content: "go" }, parent_tool_use_id: null, session_id: "" };
    }
    const result = await ask(once(), { canUseTool });
    return { asked, denied: result.permission_denials };
  },

  async hooks() {
    const seen = [];
    const listen = async (input) => {
      seen.push(input.hook_event_name);
      if (input.hook_event_name === "PreToolUse" && input.tool_input.command === "rm x")
        return { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "keep x" } };
      return {};
    };
    const events = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "PermissionRequest", "PostToolBatch"];
    const hooks = Object.fromEntries(events.map((event) => [event, [{ hooks: [listen] }]]));
    const canUseTool = async (name, input, { suggestions }) => ({ behavior: "allow", updatedInput: input, updatedPermissions: suggestions });
    async function* once() {
      yield { type: "user", message: { role: "user", content: "go" }, parent_tool_use_id: null, session_id: "" };
    }
    const result = await ask(once(), { hooks, canUseTool, allowedTools: ["Bash"] });
    return { seen, result: result.result };
  },

  async structured() {
    const schema = { type: "object", properties: { answer: { type: "number" } }, required: ["answer"] };
    return (await ask("go", { outputFormat: { type: "json_schema", schema } })).structured_output;
  },

  async partial() {
    const kinds = [];
    for await (const message of query({ prompt: "go", options: { ...options, includePartialMessages: true } })) {
      const kind = message.type === "stream_event" ? message.event.type : message.type;
      if (!kinds.includes(kind)) kinds.push(kind);
    }
    return kinds;
  },

  async limits() {
    const seen = [];
    for (const more of [{ maxTurns: 1 }, { maxBudgetUsd: 0.001 }]) {
      try {
        for await (const message of query({ prompt: "go", options: { ...options, allowedTools: ["Bash"], ...more } })) {
          if (message.type === "result") seen.push([message.subtype, message.is_error]);
        }
      } catch {
        seen.push("Error");
      }
    }
    return seen;
  },

  async many() {
    let count = 0;
    let answered;
    async function* prompts() {
      for (let number = 0; number < 1000; number++) {
        const next = new Promise((resolve) => (answered = resolve));
        yield { type: "user", message: { role: "user", content: `prompt ${number}` }, parent_tool_use_id: null, session_id: "" };
        await next;
      }
    }
    for await (const message of query({ prompt: prompts(), options })) {
      if (message.type !== "result") continue;
      count += message.result === "ok" ? 1 : 0;
      answered();
    }
    return count;
  },

  async functions() {
    const session = (await ask("first")).session_id;
    await sdk.renameSession(session, "New title", { dir: cwd });
    await sdk.tagSession(session, "mine", { dir: cwd });
    const info = await sdk.getSessionInfo(session, { dir: cwd });
    const fork = (await sdk.forkSession(session, { dir: cwd })).sessionId;
    const resumed = await ask("second", { resume: fork });
    const before = (await listSessions({ dir: cwd })).length;
    await sdk.deleteSession(fork, { dir: cwd });
    return {
      info: [info.customTitle, info.tag, info.firstPrompt],
      resumed: [resumed.session_id === fork, resumed.result],
      left: [before, (await listSessions({ dir: cwd })).length],
    };
  },

  async servers() {
    const { z } = await import(more);
    const add = tool("add", "Adds", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
      content: [{ type: "text", text: `${a + b}` }],
      structuredContent: { sum: a + b },
    }));
    const fail = tool("fail", "Fails", {}, async () => {
      throw new Error("it broke");
    });
    async function* once() {
      yield { type: "user", message: { role: "user", content: "go" }, parent_tool_use_id: null, session_id: "" };
    }
    const mcpServers = { calc: sdk.createSdkMcpServer({ name: "calc", tools: [add, fail] }) };
    const running = query({ prompt: once(), options: { ...options, mcpServers, allowedTools: ["mcp__calc"] } });
    const results = [];
    let status;
    for await (const message of running) {
      if (message.type === "user" && message.tool_use_result) results.push(message.message.content[0].content);
      if (message.type === "result") status = await running.mcpServerStatus();
    }
    return { results, status: status.map((each) => [each.name, each.status, each.tools.map((tool) => tool.name).sort()]) };
  },

  async agents() {
    const agents = { reviewer: { description: "Reviews", prompt: "You review.", tools: ["Bash"] } };
    const seen = [];
    let session;
    for await (const message of query({ prompt: "PARENT go", options: { ...options, agents, allowedTools: ["Bash", "Agent"] } })) {
      if (message.parent_tool_use_id || message.subtype?.startsWith("task_")) seen.push(message.subtype ?? message.type);
      session = message.session_id ?? session;
    }
    const [agent] = await sdk.listSubagents(session, { dir: cwd });
    const said = (await sdk.getSubagentMessages(session, agent, { dir: cwd })).map((each) => each.type);
    return { seen, said };
  },

  async sessions() {
    const first = (await ask("first")).session_id;
    const second = await ask("second", { resume: first });
    const forked = await ask("third", { resume: first, forkSession: true });
    const listed = await listSessions({ dir: cwd });
    const said = await getSessionMessages(first, { dir: cwd });
    return {
      ids: [second.session_id === first, forked.session_id !== first],
      listed: listed.length,
      said: said.map((each) => each.type),
    };
  },
};

console.log(JSON.stringify(await flows[what]()));
