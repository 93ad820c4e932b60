// What bench/clients.py measures, with the TypeScript client: node --expose-gc client_work.mjs CLIENT WORK ARGV...
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const UPDATES = 20_000;
const [PROMPTS, EARLY] = [1_000, 100];
const [module, work, ...argv] = process.argv.slice(2);
const { spawnAgent } = await import(module);

/** The memory that a process holds now, in MiB. */
const memory = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
/** The CPU seconds that a process has used. Ticks are a hundredth of a second. */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const client = await spawnAgent({ command: argv, timeoutMs: 60_000 });
const children = execFileSync("pgrep", ["-P", String(process.pid)], { encoding: "utf8" }).trim().split("\n");
const pid = children.find((each) => existsSync(`/proc/${each}/stat`)); // pgrep has ended
const figures = {};
if (work === "updates") {
  const [began, before, server] = [performance.now(), cpu("self"), cpu(pid)];
  const run = client.prompt("go");
  let length = 0;
  for await (const text of run.text()) length += text.length;
  await run;
  if (length !== UPDATES * "A piece. ".length) throw new Error(`the client got ${length} characters`);
  figures.wall = (performance.now() - began) / 1000;
  figures.cpu = cpu("self") - before;
  figures.server_cpu = cpu(pid) - server;
  figures.memory = memory("self");
} else {
  for (let number = 1; number <= PROMPTS; number++) {
    const { text } = await client.prompt("go");
    if (text !== "ok") throw new Error(`the answer is ${text}`);
    if (number !== EARLY && number !== PROMPTS) continue;
    globalThis.gc();
    const which = number === EARLY ? "early" : "memory";
    figures[which] = memory("self");
    figures[`server_${which}`] = memory(pid);
  }
}
console.log(JSON.stringify(figures));
await client.stop();
