import assert from "node:assert/strict";
import { test } from "node:test";

import { CommandError, CommandTimeoutError, ConnectionClosedError, fromStreams, Client } from "fairlead-client";

import { FakeAgent, type Line } from "./fake-agent.js";

test("requests are numbered, and responses may come in any order", async () => {
    const agent = new FakeAgent();
    agent.answers["get_tools"] = agent.answers["get_commands"] = () => undefined;
    const client = await agent.connect();
    const tools = client.getTools();
    const commands = client.getCommands();
    const [first, second] = [await agent.line("get_tools"), await agent.line("get_commands")];
    assert.match(first["id"], /^req_\d+$/);
    assert.notEqual(first["id"], second["id"]);
    agent.send({ type: "response", id: second["id"], command: "get_commands", success: true, data: { commands: [] } });
    agent.send({ type: "response", id: first["id"], command: "get_tools", success: true, data: { tools: [] } });
    assert.deepEqual(await commands, { commands: [] });
    assert.deepEqual(await tools, { tools: [] });
});

test("a refusal names the command and its code", async () => {
    const agent = new FakeAgent();
    agent.answers["fork"] = () => ({ success: false, error: "Entry not found", code: "not_found" });
    const client = await agent.connect();
    await assert.rejects(client.fork({ entryId: "x" }), (error: CommandError) => {
        assert.deepEqual(
            [error.name, error.command, error.message, error.code],
            ["CommandError", "fork", "Entry not found", "not_found"],
        );
        return true;
    });
});

test("an error without an id belongs to the oldest request with that name", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const unknown = client.getIntegrations();
    const state = client.getState();
    await agent.line("get_integrations");
    agent.send({ type: "response", command: "get_integrations", success: false, error: "Unknown command: get_integrations" });
    await assert.rejects(unknown, /Unknown command/);
    assert.equal((await state).sessionId, "s");
});

test("a parse error without an id belongs to the oldest request, but not to a long one", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const bash = client.bash({ command: "sleep 1" });
    const tools = client.getTools();
    await agent.line("get_tools");
    agent.send({ type: "response", command: "parse", success: false, error: "tools are undefined" });
    await assert.rejects(tools, /tools are undefined/);
    agent.send({ type: "response", id: (await agent.line("bash"))["id"], command: "bash", success: true, data: { output: "" } });
    assert.equal((await bash).output, "");
});

test("a command has a time limit, and a late response is ignored", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect({ timeoutMs: 20 });
    const events = client.events();
    await assert.rejects(
        client.getTools(),
        (error: CommandTimeoutError) => error.command === "get_tools" && error.timeoutMs === 20,
    );
    agent.send({ type: "response", id: (await agent.line("get_tools"))["id"], command: "get_tools", success: true, data: {} });
    await client.getState();
    agent.send({ type: "turn_start" });
    assert.equal(((await events.next()).value as Line)["type"], "turn_start");
});

test("long commands have no time limit, unless one is given", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect({ timeoutMs: 1 });
    const compaction = client.compact();
    await assert.rejects(client.bash({ command: "true" }, { timeoutMs: 30 }), CommandTimeoutError);
    agent.send({
        type: "response",
        id: (await agent.line("compact"))["id"],
        command: "compact",
        success: true,
        data: { summary: "S" },
    });
    assert.equal((await compaction).summary, "S");
});

test("a signal stops the waiting", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const stop = new AbortController();
    const tools = client.getTools({}, { signal: stop.signal });
    stop.abort(new Error("enough"));
    await assert.rejects(tools, /enough/);
    await assert.rejects(client.getTools({}, { signal: stop.signal }), /enough/);
});

test("the end of the connection rejects what waits, and ends the events with an error", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const events = client.events();
    const waiting = [client.getTools(), client.prompt("go"), events.next()];
    agent.end();
    for (const each of waiting) await assert.rejects(Promise.resolve(each), ConnectionClosedError);
    assert.equal((await events.next()).done, true);
    await assert.rejects(client.getState(), ConnectionClosedError);
    assert.equal(client.isOpen, false);
});

test("stop rejects what waits, and ends the events without an error", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const events = client.events();
    const waiting = client.prompt("go");
    const next = events.next();
    await client.stop();
    await assert.rejects(Promise.resolve(waiting), /stopped/);
    assert.equal((await next).done, true);
});

test("an agent that does not respond is an error at the start", async () => {
    const agent = new FakeAgent();
    agent.answers = {};
    await assert.rejects(agent.connect({ startTimeoutMs: 20 }), CommandTimeoutError);
});

test("streams of the web are a transport", async () => {
    const toAgent = new TransformStream<Uint8Array, Uint8Array>();
    const toClient = new TransformStream<Uint8Array, Uint8Array>();
    const answering = (async () => {
        const writer = toClient.writable.getWriter();
        for await (const chunk of toAgent.readable as unknown as AsyncIterable<Uint8Array>) {
            for (const line of new TextDecoder().decode(chunk).trim().split("\n")) {
                const { id, type } = JSON.parse(line) as Line;
                const data = { sessionId: "web" };
                await writer.write(
                    new TextEncoder().encode(`${JSON.stringify({ id, type: "response", command: type, success: true, data })}\n`),
                );
            }
        }
        await writer.close();
    })();
    const client = await Client.connect(fromStreams(toClient.readable, toAgent.writable));
    assert.equal((await client.getState()).sessionId, "web");
    await client.stop();
    await answering;
});
