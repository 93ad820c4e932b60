// A first host: a chat in the terminal, with approvals, abort, resume and failures. docs/first-host.md explains it.
import { createInterface } from "node:readline";
import { ClientError, ConnectionClosedError, spawnAgent, type Run } from "fairlead-client";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const client = await spawnAgent({
  args: ["--dialect", "pi", "--approval", "ask", ...process.argv.slice(2)],
  ui: {
    async approve({ title }) {
      console.log(`${title}\nAllow this? [y/N]`);
      return (await lines.next()).value === "y" ? "allow" : "deny";
    },
  },
});
let run: Run | undefined;
process.on("SIGINT", () => void run?.abort());
for (let line = await lines.next(); !line.done; line = await lines.next()) {
  try {
    run = client.prompt(line.value);
    for await (const text of run.text()) process.stdout.write(text);
    console.log((await run).status === "aborted" ? "\n(aborted)" : "");
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    console.log(`\nThat did not work: ${error.message}`);
    if (error instanceof ConnectionClosedError) await client.restart(); // resumes the session
  }
}
await client.stop();
