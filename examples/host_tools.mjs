#!/usr/bin/env node
// A host with its own tools: a small shop. It needs only Node.
//
//     node examples/host_tools.mjs "How many lamps are there? Fetch two more, and ask the boss whether that is enough."
//
// Every tool is an async function, so several can run at once. `restock` reports progress. An exception becomes the tool's error.
// `ask_boss` waits for a boss who never answers, and gives up when the agent cancels the call because of its time limit. Ctrl-C
// aborts the run and its tools.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";

const shelves = new Map([
  ["lamp", 3],
  ["desk", 1],
]);

/** Return the JSON Schema of an object whose properties are all required. */
const parameters = (properties) => ({
  type: "object",
  properties: Object.fromEntries(Object.entries(properties).map(([name, type]) => [name, { type }])),
  required: Object.keys(properties),
});

// A tool gets its arguments, a function to report progress, and a signal that fires when the call is cancelled.
const tools = {
  stock: {
    description: "How many there are of something",
    parameters: parameters({ item: "string" }),
    async run({ item }) {
      if (!shelves.has(item)) throw new Error(`There is no shelf for a ${item}.`);
      return `${shelves.get(item)} of ${item}`;
    },
  },
  restock: {
    description: "Fetch some more",
    parameters: parameters({ item: "string", count: "integer" }),
    async run({ item, count }, progress, signal) {
      for (let number = 1; number <= count; number++) {
        await wait(50, undefined, { signal }); // a walk to the storeroom
        shelves.set(item, (shelves.get(item) ?? 0) + 1);
        progress(`${number} of ${count} fetched`);
      }
      return tools.stock.run({ item });
    },
  },
  ask_boss: {
    description: "Ask the boss",
    parameters: parameters({ question: "string" }),
    timeoutMs: 300,
    async run(_, progress, signal) {
      await once(signal, "abort");
    },
  },
};

// AGENT names another agent of the family, or another way to start this one: AGENT="omp --mode rpc"
const [command, ...flags] = (process.env.AGENT ?? "fairlead --mode rpc").split(" ");
// A new session: Ctrl-C in the terminal reaches only this program, which sends an abort.
const agent = spawn(command, flags, { stdio: ["pipe", "pipe", "inherit"], detached: true });
const running = new Map();

const send = (message) => agent.stdin.write(`${JSON.stringify(message)}\n`);
const content = (text) => ({ content: [{ type: "text", text }] });
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");
const say = (text) => text && console.log(text);

/** Run a tool and answer, unless the call was cancelled. */
async function work({ id, toolName, arguments: given }) {
  const cancelling = new AbortController();
  running.set(id, { toolName, cancelling });
  const progress = (text) => send({ type: "host_tool_update", id, partialResult: content(text) });
  let answer;
  try {
    answer = { result: content(await tools[toolName].run(given, progress, cancelling.signal)) };
  } catch (error) {
    answer = { result: content(error.message), isError: true };
  }
  running.delete(id);
  if (!cancelling.signal.aborted) send({ type: "host_tool_result", id, ...answer });
}

const hear = {
  host_tool_call: (frame) => void work(frame),
  host_tool_cancel({ targetId }) {
    const call = running.get(targetId);
    if (!call) return;
    say(`cancelled: ${call.toolName}`);
    call.cancelling.abort();
  },
  tool_execution_update: (frame) => say(`progress: ${textOf(frame.partialResult)}`),
  tool_execution_end: (frame) => say(`${frame.isError ? "failed" : "done"}: ${frame.toolName}: ${textOf(frame.result)}`),
  message_end({ message }) {
    if (message.role === "assistant") say(textOf(message) || message.errorMessage);
  },
  response: (frame) => say(frame.success ? "" : `refused: ${frame.error}`),
};

const definitions = Object.entries(tools).map(([name, { run, ...definition }]) => ({ name, ...definition }));
send({ id: "tools", type: "set_host_tools", tools: definitions });
send({ id: "prompt", type: "prompt", message: process.argv.slice(2).join(" ") || "How many lamps are there?" });
process.on("SIGINT", () => send({ type: "abort" }));

/** Yield the lines of a stream. Only LF ends a line: readline would also split at U+2028, which JSON texts may contain. */
async function* linesOf(stream) {
  stream.setEncoding("utf8"); // so that a character which arrives in two pieces stays whole
  let rest = "";
  for await (const data of stream) {
    const lines = (rest + data).split("\n");
    rest = lines.pop();
    yield* lines;
  }
}

for await (const line of linesOf(agent.stdout)) {
  const frame = JSON.parse(line);
  hear[frame.type]?.(frame);
  if (frame.type === "agent_settled" || frame.success === false) agent.stdin.end(); // this ends the agent
}
