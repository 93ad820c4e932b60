// Chat with an agent in the terminal. Ctrl-C stops the answer, and at the prompt it ends the chat.
//
//     node chat.ts --model anthropic/claude-sonnet-4-5
//
// AGENT names another agent of the family, or another way to start this one: AGENT="pi" node chat.ts
// If that is a pi of 2025, which sends no responses, set RESPONSES=no too.
import { createInterface } from "node:readline";
import { ClientError, ConnectionClosedError, readableError, spawnAgent, type ApprovalDecision, type Run } from "fairlead-client";

const terminal = createInterface({ input: process.stdin, output: process.stdout });
const lines = terminal[Symbol.asyncIterator]();
let run: Run | undefined;

/** Shows a question and returns the next line; undefined at the end of the input. */
async function ask(question: string): Promise<string | undefined> {
  process.stdout.write(question);
  const { done, value } = await lines.next();
  return done ? undefined : value;
}

async function approve({ title }: { title: string }): Promise<ApprovalDecision> {
  return (await ask(`\n${title}\nAllow? [y/N] `)) === "y" ? "allow" : "deny";
}

const interrupt = (): void => (run && !run.isSettled ? void run.abort() : terminal.close());
terminal.on("SIGINT", interrupt);
process.on("SIGINT", interrupt);

const command = (process.env["AGENT"] ?? "fairlead").split(" ");
const args = process.argv.slice(2);
const dialect = [...command, ...args, process.env["FAIRLEAD_DIALECT"]].join(" ");
const client = await spawnAgent({
  command,
  args,
  responses: process.env["RESPONSES"] !== "no" && !dialect.includes("pi-2025"),
  ui: { approve },
});
try {
  for (let message = await ask("> "); message !== undefined; message = await ask("> ")) {
    if (!message.trim()) continue;
    try {
      run = client.prompt(message);
      for await (const event of run) {
        if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
          process.stdout.write(event.assistantMessageEvent.delta);
        }
        if (event.type === "tool_execution_start") console.log(`\n[Tool: ${event.toolName}]`);
        if (event.type === "extension_ui_request" && event.method === "notify") console.log(`[${event.message}]`);
        if (event.type === "auto_retry_start") console.log(`\n[Trying again: ${readableError(event.errorMessage)}]`);
      }
      const { status, usage } = await run;
      console.log(`\n[${status}, ${usage.totalTokens} tokens]`);
    } catch (error) {
      if (!(error instanceof ClientError) || error instanceof ConnectionClosedError) throw error;
      console.log(`\n[Failed: ${error.message}]`);
    }
  }
} finally {
  await client.stop();
  terminal.close();
}
