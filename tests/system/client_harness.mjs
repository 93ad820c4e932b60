// Starts an agent through pi's own RpcClient, runs a script with it, and prints the script's result as JSON.
// The task comes as JSON on standard input: module (the client's), cli (what the client starts with node), directory, script.
import { readFileSync } from "node:fs";

const task = JSON.parse(readFileSync(0, "utf8"));
const { RpcClient } = await import(task.module);

const client = new RpcClient({ cliPath: task.cli, cwd: task.directory, model: "scripted/one" });
const seen = [];

/** Resolves with an event, seen already or still to come, that passes the test: events may arrive before a command's answer. */
function until(test) {
  const found = seen.find(test);
  if (found) return Promise.resolve(found);
  return new Promise((resolve) => {
    const stop = client.onEvent((event) => {
      if (test(event)) {
        queueMicrotask(stop); // not at once: the client would pass over the listener behind this one
        resolve(event);
      }
    });
  });
}

/** Resolves with the text of the error that a call ends in. */
function refusal(call) {
  return call.then(
    () => "not refused",
    (error) => error.message,
  );
}

await client.start();
client.onEvent((event) => seen.push(event));
try {
  const AsyncFunction = (async () => {}).constructor;
  const result = await new AsyncFunction("client", "until", "refusal", "seen", task.script)(client, until, refusal, seen);
  process.stdout.write(JSON.stringify(result));
} finally {
  await client.stop();
}
