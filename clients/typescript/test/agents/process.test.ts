// Processes that do not behave.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ClientError, ConnectionClosedError, spawnAgent, startProcess, Client } from "fairlead-client";

const node = (script: string): string[] => [process.execPath, "-e", script, "--"];
const ANSWER = `
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, type } = JSON.parse(line);
    console.log(JSON.stringify({ id, type: "response", command: type, success: true, data: { sessionId: String(process.pid) } }));
  });`;

test("a program that does not exist is named", async () => {
    await assert.rejects(spawnAgent({ command: "no-such-agent" }), (error: ClientError) =>
        /no-such-agent.*PATH.*command/.test(error.message),
    );
});

test("a working directory that does not exist is named", async () => {
    await assert.rejects(spawnAgent({ command: node(ANSWER), cwd: "/no/such/folder" }), /working directory \/no\/such\/folder/);
});

test("an agent that exits at once is an error with its code and what it wrote to standard error", async () => {
    const words = 'console.error("No API key"); process.exit(3)';
    await assert.rejects(spawnAgent({ command: node(words) }), (error: ConnectionClosedError) => {
        assert.equal(error.exit?.code, 3);
        assert.match(error.message, /exited with code 3.*No API key/s);
        return true;
    });
});

test("an agent that ignores the end of its input and SIGTERM is killed, and so are its children", async () => {
    const stubborn = `
    process.on("SIGTERM", () => {});
    setInterval(() => {}, 1000);
    const child = require("node:child_process").spawn("sleep", ["1000"], { detached: true, stdio: "ignore" });
    ${ANSWER.replace("String(process.pid)", "String(child.pid)")}`;
    const transport = await startProcess([], { command: node(stubborn), stopTimeoutMs: 100 });
    const client = await Client.connect(transport);
    const child = Number((await client.getState()).sessionId);
    const exit = await client.stop();
    assert.equal(exit?.signal, "SIGKILL");
    for (;;) {
        try {
            process.kill(child, 0);
        } catch {
            break;
        }
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
});

test("a child that holds the output of a dead agent does not hold up the client", async () => {
    const leaving = `
    require("node:child_process").spawn("sleep", ["5"], { detached: true, stdio: ["ignore", "inherit", "ignore"] }).unref();
    ${ANSWER}
    process.stdin.on("end", () => process.exit(0));`;
    const client = await spawnAgent({ command: node(leaving) });
    const before = Date.now();
    assert.equal((await client.stop())?.code, 0);
    assert.ok(Date.now() - before < 4000);
});

test("a client leaves nothing that keeps this process alive", async () => {
    await using client = await spawnAgent({ command: node(ANSWER) });
    assert.equal(client.isOpen, true);
});

test("what an agent writes to standard error can be read", async () => {
    let words = "";
    const client = await spawnAgent({ command: node(`console.error("Hello"); ${ANSWER}`), onStderr: (text) => (words += text) });
    await client.stop();
    assert.equal(words, "Hello\n");
});
