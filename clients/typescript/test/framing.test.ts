import assert from "node:assert/strict";
import { test } from "node:test";

import { delta, FakeAgent, oneTurn, says, type Line } from "./fake-agent.js";

/** The `text` of each `notify` that arrives when an agent sends these chunks. */
async function texts(count: number, ...chunks: (Uint8Array | string)[]): Promise<string[]> {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const events = client.events();
    agent.sendRaw(...chunks);
    const found: string[] = [];
    while (found.length < count) found.push(((await events.next()).value as Line)["message"]);
    await client.stop();
    return found;
}

const notify = (message: string): string =>
    `${JSON.stringify({ type: "extension_ui_request", id: "1", method: "notify", message })}\n`;

test("only LF separates lines", async () => {
    const odd = "a\u2028b\u2029c\rd\u0085e";
    assert.deepEqual(await texts(2, notify(odd) + notify("next")), [odd, "next"]);
});

test("CRLF, blank lines and lines that are not JSON do no harm", async () => {
    assert.deepEqual(await texts(2, notify("one").replace("\n", "\r\n"), "\n \n", notify("two")), ["one", "two"]);
});

test("a character may be split across chunks", async () => {
    const bytes = new TextEncoder().encode(notify("für 🦦"));
    assert.deepEqual(await texts(1, ...Array.from(bytes, (byte) => Uint8Array.of(byte))), ["für 🦦"]);
});

test("a line may be long", async () => {
    const long = "é".repeat(3_000_000);
    const bytes = new TextEncoder().encode(notify(long) + notify("short"));
    const chunks = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, index) =>
        bytes.slice(index * 65_536, (index + 1) * 65_536),
    );
    assert.deepEqual(await texts(2, ...chunks), [long, "short"]);
});

test("chunks of a frame are joined", async () => {
    const frame = Buffer.from(notify("für 🦦"));
    const parts = [frame.subarray(0, 80), frame.subarray(80, 82), frame.subarray(82)];
    const chunks = parts.map((part, index) => {
        const chunk = {
            type: "rpc_chunk",
            chunkId: "c",
            index,
            count: 3,
            byteLength: frame.length,
            data: part.toString("base64"),
        };
        return `${JSON.stringify(chunk)}\n`;
    });
    assert.deepEqual(await texts(1, ...chunks), ["für 🦦"]);
});

test("a line that is not JSON is reported and skipped", async () => {
    const agent = new FakeAgent();
    const remarks: string[] = [];
    const client = await agent.connect({ onDiagnostic: (text) => remarks.push(text) });
    agent.sendRaw("Warning: something\n", "[1]\n");
    await client.getState();
    assert.equal(remarks.length, 2);
    assert.match(remarks[0]!, /Warning: something/);
});

test("a message is assembled from deltas", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const run = client.prompt("go");
    const seen: string[] = [];
    await run.accepted;
    const events = run[Symbol.asyncIterator]();
    const call = { type: "toolCall", id: "t1", name: "bash", arguments: { command: "ls" } };
    const part = (value: Line): Line => delta("", { assistantMessageEvent: value });
    agent.send(
        { type: "agent_start" },
        { type: "message_start", message: says("") },
        part({ type: "thinking_start", contentIndex: 0 }),
        part({ type: "thinking_delta", contentIndex: 0, delta: "Hmm" }),
        part({ type: "thinking_end", contentIndex: 0, content: "Hmm." }),
        part({ type: "text_start", contentIndex: 1 }),
        part({ type: "text_delta", contentIndex: 1, delta: "He" }),
        part({ type: "text_delta", contentIndex: 1, delta: "llo" }),
        part({ type: "text_end", contentIndex: 1, content: "Hello" }),
        part({ type: "toolcall_start", contentIndex: 2, id: "t1", toolName: "bash" }),
        part({ type: "toolcall_delta", contentIndex: 2, delta: '{"command":' }),
        part({ type: "toolcall_end", contentIndex: 2, toolCall: call }),
        ...oneTurn("Hello").slice(2),
        { type: "agent_settled" },
    );
    for await (const event of events) if (event.type === "message_update") seen.push(JSON.stringify(event.message.content));
    assert.deepEqual(JSON.parse(seen.at(-1)!), [{ type: "thinking", thinking: "Hmm." }, { type: "text", text: "Hello" }, call]);
    assert.equal(seen.length, 10);
    assert.equal((await run).text, "Hello");
});

test("a full update keeps its message", async () => {
    const agent = new FakeAgent();
    const client = await agent.connect();
    const events = client.events();
    agent.send(delta("lo", { message: says("Hello") }));
    const event = (await events.next()).value as Line;
    assert.deepEqual(event["message"], says("Hello"));
});
