// The Opal dialect of fairlead.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import {
    CommandError,
    ConnectionClosedError,
    OpalClient,
    startProcess,
    type OpalHandlers,
    type ProcessTransport,
} from "fairlead-client";

import { given, LIMIT, startProvider, surroundings, type Turn } from "./stage.js";

interface Stage {
    client: OpalClient;
    folder: string;
    server: ProcessTransport;
}

async function withServer(
    turns: Turn[],
    act: (stage: Stage) => Promise<void>,
    handlers: OpalHandlers = {},
    ...flags: string[]
): Promise<void> {
    const root = mkdtempSync(join(tmpdir(), "fairlead-client-"));
    const provider = await startProvider(turns);
    const folder = join(root, "work");
    const stage = { folder } as Stage;
    try {
        const env = surroundings(root, provider.port);
        const command = [...given["fairlead opal"]!, "--mode", "opal", "--model", "scripted/one", ...flags];
        stage.client = await OpalClient.connect(
            async () => (stage.server = await startProcess([], { command, cwd: folder, env })),
            { handlers },
        );
        await act(stage);
        await stage.client.stop();
    } finally {
        provider.process.kill();
        rmSync(root, { recursive: true, force: true, maxRetries: 3 });
    }
}

test("a prompt, its events and its result", LIMIT, () =>
    withServer([{ text: "Hello there." }], async ({ client }) => {
        const { session_id } = await client.sessionStart({});
        const run = client.prompt(session_id, "Hi.");
        const kinds: string[] = [];
        for await (const event of run) kinds.push(event.type);
        assert.equal(kinds.at(-1), "agent_end");
        const result = await run;
        assert.deepEqual([result.status, result.text], ["completed", "Hello there."]);
        assert.ok(result.usage!.total_tokens > 0);
        assert.equal((await client.sessionHistory({ session_id })).messages.length, 2);
    }),
);

test("errors of requests and of runs reject", LIMIT, () =>
    withServer([{ status: 400, error: "out of credit" }], async ({ client }) => {
        await assert.rejects(client.agentState({ session_id: "nope" }), (error: CommandError) => error.code === -32602);
        await assert.rejects(Promise.resolve(client.prompt("nope", "Hi.")), CommandError);
        const { session_id } = await client.sessionStart({});
        await assert.rejects(Promise.resolve(client.prompt(session_id, "Hi.")), /out of credit/);
    }),
);

test("an abort resolves the run, and a queued prompt settles with its run", LIMIT, () =>
    withServer([{ text: "One two three.", hangAfter: 1 }, { text: "Back." }], async ({ client }) => {
        const { session_id } = await client.sessionStart({});
        const run = client.prompt(session_id, "Count.");
        for await (const event of run) if (event.type === "message_delta") break;
        await run.abort();
        assert.equal((await run).status, "aborted");
        assert.equal((await client.prompt(session_id, "Again.")).text, "Back.");
    }),
);

const MAKE = [{ toolCalls: [{ name: "shell", arguments: { command: "touch made" } }] }, { text: "Over." }];

for (const action of ["allow", "deny", undefined]) {
    test(`an approval with the answer ${action ?? "of a headless host"}`, LIMIT, () => {
        const handlers: OpalHandlers = action ? { "client/confirm": () => ({ action }) } : {};
        return withServer(
            MAKE,
            async ({ client, folder }) => {
                const { session_id } = await client.sessionStart({ working_dir: folder });
                assert.equal((await client.prompt(session_id, "Make it.")).text, "Over.");
                assert.equal(existsSync(join(folder, "made")), action === "allow");
            },
            handlers,
            "--approval",
            "ask",
        );
    });
}

test("after a crash, a restart resumes the sessions", LIMIT, () =>
    withServer([{ text: "Noted." }, { text: "Yes." }], async (stage) => {
        const { client } = stage;
        const { session_id } = await client.sessionStart({ session: true });
        await client.prompt(session_id, "Remember me.");
        process.kill(stage.server.pid, "SIGKILL");
        await client.exited;
        await assert.rejects(client.opalPing(), ConnectionClosedError);
        await client.restart();
        assert.equal((await client.sessionHistory({ session_id })).messages.length, 2);
        assert.equal((await client.prompt(session_id, "Still there?")).text, "Yes.");
    }),
);
