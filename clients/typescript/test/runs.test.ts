import assert from "node:assert/strict";
import { test } from "node:test";

import { CommandError, RunError, type Client, type Run } from "fairlead-client";

import { delta, FakeAgent, oneTurn, says, type Line } from "./fake-agent.js";

async function started(answers: FakeAgent["answers"] = {}): Promise<{ agent: FakeAgent; client: Client; run: Run }> {
    const agent = new FakeAgent();
    Object.assign(agent.answers, answers);
    const client = await agent.connect();
    const run = client.prompt("go");
    return { agent, client, run };
}

/** Whether a run has settled after everything that was sent has been read. */
async function isSettled(client: Client, run: Run): Promise<boolean> {
    await client.getAvailableModels({}, { timeoutMs: 1 }).catch(() => {});
    return run.isSettled;
}

test("agent_settled ends a run, and agent_end does not", async () => {
    const { agent, client, run } = await started({ get_state: () => ({ data: { sessionId: "s", isStreaming: true } }) });
    await run.accepted;
    agent.send(...oneTurn("One.", {}, { willRetry: false }));
    assert.equal(await isSettled(client, run), false);
    agent.send({ type: "agent_settled" });
    const { status, text, stopReason, usage, messages } = await run;
    assert.deepEqual(
        [status, text, stopReason, usage.totalTokens, usage.cost, messages.length],
        ["completed", "One.", "stop", 3, 0.5, 1],
    );
});

test("events behind the response to a prompt in one chunk belong to its run", async () => {
    const { agent, run } = await started({ prompt: () => undefined });
    const { id } = await agent.line("prompt");
    const frames = [
        { type: "response", id, command: "prompt", success: true },
        ...oneTurn("At once."),
        { type: "agent_settled" },
    ];
    agent.sendRaw(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(""));
    assert.equal((await run).text, "At once.");
});

test("the JSON around the message of a provider is left out", async () => {
    const shown = {
        '401 {"detail":"Unauthorized"}': "401 Unauthorized",
        '422 {"detail":[{"loc":["body"],"msg":"field required"}]}': "422 field required",
        '400 {"message":"{\\"error\\":{\\"message\\":\\"inner\\"}}"}': "400 inner",
        '429 {"error":{"message":"Provider returned error","metadata":{"raw":"Slow down"}}}': "429 Slow down",
        '400 {"error":{"message":""}}': '400 {"error":{"message":""}}',
    };
    for (const [errorMessage, sentence] of Object.entries(shown)) {
        const { agent, run } = await started();
        await run.accepted;
        agent.send(...oneTurn("", { stopReason: "error", errorMessage }), { type: "agent_settled" });
        await assert.rejects(Promise.resolve(run), (error: RunError) => error.message === sentence);
    }
});

test("a failed run rejects, and so do its events", async () => {
    const { agent, run } = await started();
    const events = run[Symbol.asyncIterator]();
    await run.accepted;
    agent.send(...oneTurn("", { stopReason: "error", errorMessage: '529 {"error":{"message":"overloaded"}}' }), { type: "agent_settled" });
    await assert.rejects(async () => {
        for await (const _ of events);
    }, /529 overloaded/);
    await assert.rejects(
        Promise.resolve(run),
        (error: RunError) => error.result.status === "failed" && error.message === "529 overloaded",
    );
});

test("without responses, the events decide (pi of 2025)", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect({ responses: false });
    const run = client.prompt("go");
    await run.accepted;
    agent.send(...oneTurn("Hello."));
    assert.equal((await run).text, "Hello.");
    const refused = client.prompt("more");
    const events = refused[Symbol.asyncIterator]();
    agent.send({ type: "error", error: "No model selected." });
    await assert.rejects(async () => {
        for await (const _ of events);
    }, /No model selected/);
    await assert.rejects(Promise.resolve(refused), CommandError);
    await run.abort();
    await assert.rejects(client.getState(), /sends no responses, so get_state cannot be used/);
});

test("a run that failed at first and then succeeded is a success", async () => {
    const { agent, run } = await started();
    await run.accepted;
    agent.send(...oneTurn("", { stopReason: "error", errorMessage: "529" }, { willRetry: true }), {
        type: "auto_retry_start",
        attempt: 1,
    });
    agent.send(...oneTurn("Better.", {}, { willRetry: false }), { type: "agent_settled" });
    assert.equal((await run).text, "Better.");
});

test("an aborted run resolves", async () => {
    const { agent, run } = await started();
    await run.accepted;
    // pi 1.5 marks the message as an error, and the end as aborted.
    agent.send(...oneTurn("Hal", { stopReason: "error" }), { type: "agent_settled", aborted: true });
    assert.equal((await run).status, "aborted");
});

test("without agent_settled, the state of the session decides (pi 0.73)", async () => {
    let looks = 0;
    const { agent, client, run } = await started({ get_state: () => ({ data: { sessionId: "s", isStreaming: looks++ === 1 } }) });
    await run.accepted;
    agent.send(...oneTurn("", { stopReason: "error", errorMessage: "529" }), {
        type: "auto_retry_start",
        attempt: 1,
        delayMs: 10,
    });
    assert.equal(await isSettled(client, run), false);
    agent.send(...oneTurn("Later."), { type: "compaction_start", reason: "threshold" });
    assert.equal(await isSettled(client, run), false);
    agent.send({ type: "compaction_end", reason: "threshold", aborted: false, willRetry: false });
    assert.equal((await run).text, "Later.");
});

test("retries that are used up end a run (pi 0.73)", async () => {
    const { agent, run } = await started();
    await run.accepted;
    agent.send({ type: "auto_retry_start", attempt: 1 }, ...oneTurn("", { stopReason: "error", errorMessage: "529" }));
    agent.send({ type: "auto_retry_end", success: false, attempt: 1, finalError: "529" });
    await assert.rejects(Promise.resolve(run), RunError);
});

test("prompt_result ends the prompt that it names (omp)", async () => {
    const { agent, client, run } = await started();
    const queued = client.prompt("more", { streamingBehavior: "followUp" });
    await queued.accepted;
    agent.send(...oneTurn("Done."));
    agent.send({ type: "prompt_result", id: queued.id, agentInvoked: true, status: "aborted", sessionSettled: true });
    const error = { message: "out of credit", retryable: false };
    agent.send({ type: "prompt_result", id: run.id, agentInvoked: true, status: "error", sessionSettled: true, error });
    assert.equal((await queued).status, "aborted");
    await assert.rejects(
        Promise.resolve(run),
        (failure: RunError) => failure.message === "out of credit" && failure.retryable === false,
    );
});

for (const [name, data] of [
    ["disposition", { disposition: "handled" }],
    ["agentInvoked", { agentInvoked: false }],
] as const) {
    test(`a prompt that an extension handled resolves at once (${name})`, async () => {
        const { run } = await started({ prompt: () => ({ data }) });
        assert.equal((await run).status, "handled");
    });
}

test("a slash command that starts no run resolves, even if the agent does not say so", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    assert.equal((await client.prompt("/hello")).status, "handled");
});

test("a prompt may be refused at once, or after it was accepted", async () => {
    const refused = await started({ prompt: () => ({ success: false, error: "busy" }) });
    await assert.rejects(refused.run.accepted, /busy/);
    await assert.rejects(Promise.resolve(refused.run), CommandError);
    const late = await started();
    await late.run.accepted;
    late.agent.send({ type: "response", id: late.run.id, command: "prompt", success: false, error: "no key" });
    await assert.rejects(Promise.resolve(late.run), /no key/);
});

test("agent_settled of the run before does not end a prompt that has not started", async () => {
    let isStreaming = true;
    const { agent, client, run } = await started({ get_state: () => ({ data: { sessionId: "s", isStreaming } }) });
    await run.accepted;
    agent.send({ type: "agent_settled" });
    assert.equal(await isSettled(client, run), false);
    agent.send(...oneTurn("Mine."), { type: "agent_settled" });
    isStreaming = false;
    assert.equal((await run).text, "Mine.");
});

test("a signal aborts a run", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const stop = new AbortController();
    const run = client.prompt("go", { signal: stop.signal });
    await run.accepted;
    stop.abort();
    await agent.line("abort");
    assert.equal("signal" in (await agent.line("prompt")), false);
    agent.send(...oneTurn("", { stopReason: "aborted" }), { type: "agent_settled" });
    assert.equal((await run).status, "aborted");
});

test("an abort waits until the prompt is accepted", async () => {
    const { agent, client, run } = await started({ prompt: () => undefined });
    const aborting = run.abort();
    await client.getState();
    assert.equal(
        agent.received.some((line) => line["type"] === "abort"),
        false,
    );
    agent.send({ type: "response", id: run.id, command: "prompt", success: true });
    await agent.line("abort");
    agent.send(...oneTurn("", { stopReason: "aborted" }), { type: "agent_settled" });
    await aborting;
    assert.equal((await run).status, "aborted");
});

test("a host that stops need not look after its runs", async () => {
    const { client } = await started();
    await client.stop();
    await new Promise((resolve) => setImmediate(resolve)); // an unhandled rejection would fail the test
});

test("the text of a run arrives in pieces", async () => {
    const { agent, run } = await started();
    const pieces: string[] = [];
    const reading = (async () => {
        for await (const piece of run.text()) pieces.push(piece);
    })();
    await run.accepted;
    const thinking = delta("", { assistantMessageEvent: { type: "thinking_delta", contentIndex: 0, delta: "Hmm" } });
    agent.send({ type: "agent_start" }, thinking, delta("One, "), delta("two."), ...oneTurn("One, two.").slice(2), {
        type: "agent_settled",
    });
    await reading;
    assert.deepEqual(pieces, ["One, ", "two."]);
});

test("no event is dropped, and what is not read stays with the agent", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect({ eventBuffer: 10_000 });
    const events = client.events();
    const count = 5000;
    const before = agent.chunksRead;
    agent.send(...Array.from({ length: count }, (_, index): Line => delta(String(index))));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const read = agent.chunksRead - before;
    assert.ok(read > 10 && read < 200, `${read} of ${count} chunks were read ahead`);
    assert.ok(events.size < 11_000);
    // A request goes ahead even so: its response is behind all the events.
    assert.equal((await client.getState()).sessionId, "s");
    for (let index = 0; index < count; index++) {
        const event = (await events.next()).value as Line;
        assert.equal(event["assistantMessageEvent"].delta, String(index));
    }
    assert.equal(events.size, 0);
});

test("a stream that is closed holds nothing up", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect({ eventBuffer: 1000 });
    const forgotten = client.events();
    const events = client.events();
    agent.send(...Array.from({ length: 100 }, () => ({ type: "message_start", message: says("x".repeat(200)) })), {
        type: "turn_end",
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    await forgotten.return();
    for await (const event of events) if (event.type === "turn_end") break;
    assert.equal(forgotten.size, 0);
});
