// What only fairlead has: host tools, host URIs, approvals, frames in chunks.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { hostTool, textOf, type ApprovalDecision, type ApprovalRequest } from "fairlead-client";

import { FAIRLEAD, LIMIT, withAgent, type Turn } from "./stage.js";

const calls = (name: string, args: object): Turn => ({ toolCalls: [{ name, arguments: args }] });
const parameters = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };

for (const agent of FAIRLEAD) {
    test(`${agent}: host tools run here, report progress and fail`, LIMIT, async () => {
        const double = hostTool<{ n: number }>({
            name: "double",
            description: "Double a number",
            parameters,
            run({ n }, { progress }) {
                progress("thinking");
                if (n > 100) throw new Error("too much");
                return n * 2;
            },
        });
        await withAgent(
            agent,
            [calls("double", { n: 21 }), calls("double", { n: 101 }), { text: "So it is." }],
            async ({ client }) => {
                const run = client.prompt("Double.");
                const seen: string[] = [];
                for await (const event of run) {
                    if (event.type === "tool_execution_update") seen.push(textOf(event.partialResult));
                    if (event.type === "tool_execution_end") seen.push(`${event.isError} ${textOf(event.result)}`);
                }
                assert.deepEqual(seen, ["thinking", "false 42", "thinking", "true too much"]);
                await client.restart();
                const { tools } = await client.getTools();
                assert.ok(tools.some((tool) => tool.name === "double" && tool.active));
            },
            { tools: [double] },
        );
    });

    test(`${agent}: an abort cancels a host tool`, LIMIT, async () => {
        let wasCancelled = false;
        const wait = hostTool<{ n: number }>({
            name: "wait",
            description: "Wait",
            parameters,
            run: (_, { signal }) =>
                new Promise((resolve) => {
                    signal.addEventListener("abort", () => {
                        wasCancelled = true;
                        resolve("late");
                    });
                }),
        });
        await withAgent(
            agent,
            [calls("wait", { n: 1 })],
            async ({ client }) => {
                const run = client.prompt("Wait.");
                for await (const event of run) if (event.type === "host_tool_call") break;
                await run.abort();
                assert.equal((await run).status, "aborted");
                assert.equal(wasCancelled, true);
            },
            { tools: [wait] },
        );
    });

    test(`${agent}: host URIs are served`, LIMIT, async () => {
        const uriSchemes = { notes: { read: (url: string) => `The note ${url}.` } };
        await withAgent(
            agent,
            [calls("read", { path: "notes://one" }), { text: "Read." }],
            async ({ client }) => {
                const { messages } = await client.prompt("Read it.");
                const result = messages.find((message) => message.role === "toolResult");
                assert.match(textOf(result!), /The note notes:\/\/one\./);
            },
            { uriSchemes },
        );
    });

    for (const decision of ["allow", "allow_for_session", "deny", undefined] as const) {
        test(`${agent}: an approval with the answer ${decision ?? "of a headless host"}`, LIMIT, async () => {
            const asked: ApprovalRequest[] = [];
            const approve = (request: ApprovalRequest): ApprovalDecision => (asked.push(request), decision!);
            const turns = [calls("bash", { command: "touch made" }), calls("bash", { command: "touch made" }), { text: "Over." }];
            await withAgent(
                agent,
                turns,
                async ({ client, folder }) => {
                    assert.equal((await client.prompt("Make it.")).text, "Over.");
                    assert.equal(existsSync(join(folder, "made")), decision?.startsWith("allow") ?? false);
                },
                { args: ["--approval", "ask"], ...(decision && { ui: { approve } }) },
            );
            assert.equal(asked.length, { allow: 2, allow_for_session: 1, deny: 2, none: 0 }[decision ?? "none"]);
            if (decision) assert.match(asked[0]!.title, /touch made/);
        });
    }

    test(`${agent}: abortAndPrompt ends one run and starts another`, LIMIT, () =>
        withAgent(agent, [{ text: "One two three four.", hangAfter: 2 }, { text: "Something else." }], async ({ client }) => {
            const first = client.prompt("Count.");
            for await (const piece of first.text()) if (piece) break;
            const second = client.abortAndPrompt("Do something else.");
            assert.equal((await second).text, "Something else.");
            assert.equal((await first).status, "aborted");
        }),
    );

    test(`${agent}: many prompts leave nothing behind`, LIMIT, () =>
        withAgent(agent, [{ text: "Fine." }], async ({ client }) => {
            const kept: WeakRef<object>[] = [];
            for (let count = 0; count < 30; count++) {
                const run = client.prompt("Go.");
                kept.push(new WeakRef(run));
                assert.equal((await run).text, "Fine.");
            }
            await new Promise((resolve) => setTimeout(resolve, 10));
            globalThis.gc!();
            assert.ok(kept.filter((each) => each.deref()).length <= 2);
        }),
    );

    test(`${agent}: frames in chunks are joined`, LIMIT, () =>
        withAgent(
            agent,
            [{ text: "ü".repeat(5000) }],
            async ({ client }) => {
                assert.equal((await client.prompt("Write.")).text, "ü".repeat(5000));
            },
            { args: ["--max-frame-bytes", "1024"] },
        ),
    );
}
