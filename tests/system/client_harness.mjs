// Starts an agent through pi's or omp's own RpcClient, runs a script with it, and prints the script's result as JSON.
// The task comes as JSON on standard input: module (the client's), cli (what the client starts with node or bun), directory, script.
import { readFileSync } from "node:fs";

const task = JSON.parse(readFileSync(0, "utf8"));
const { RpcClient } = await import(task.module);

const options = { cliPath: task.cli, cwd: task.directory, model: "scripted/one" };
const client = new RpcClient(options);
const seen = [];

/** Calls back with every event; omp's client has those of the session apart. */
function listen(listener) {
  return client.onSessionEvent ? client.onSessionEvent(listener) : client.onEvent(listener);
}

/** Resolves with an event, seen already or still to come, that passes the test: events may arrive before a command's answer. */
function until(test) {
  const found = seen.find(test);
  if (found) return Promise.resolve(found);
  return new Promise((resolve) => {
    const stop = listen((event) => {
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
listen((event) => seen.push(event));
try {
  const AsyncFunction = (async () => {}).constructor;
  const script = new AsyncFunction("client", "until", "refusal", "seen", "options", task.script);
  const result = await script(client, until, refusal, seen, options);
  process.stdout.write(JSON.stringify(result));
} finally {
  await client.stop();
}
