// A host: one prompt in the session of this folder, with approvals, abort, resume and failure.
//
//     node host.ts "What is in this folder?"
import { ConnectionClosedError, RunError, spawnAgent } from "fairlead-client";

const client = await spawnAgent({
  args: ["--approval", "ask", "--continue"], // resumes the latest session of this folder
  ui: { approve: ({ title }) => (title.includes("rm ") ? "deny" : "allow") },
});
const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
try {
  const run = client.prompt(process.argv[2] ?? "What is in this folder?", { signal: stop.signal });
  for await (const event of run) {
    if (event.type === "tool_execution_start") console.log(`[${event.toolName}]`);
    if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
      process.stdout.write(event.assistantMessageEvent.delta);
    }
  }
  const { status, usage } = await run;
  console.log(`\n${status}: ${usage.totalTokens} tokens, $${usage.cost.toFixed(4)}`);
} catch (error) {
  process.exitCode = 1;
  if (error instanceof RunError) console.error(`The run failed: ${error.message}`);
  else if (error instanceof ConnectionClosedError) console.error(`The agent is gone: ${error.message}`);
  else throw error;
} finally {
  await client.stop();
}
