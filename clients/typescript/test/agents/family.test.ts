// The same flows with every agent: fairlead in its dialects, and the real pi.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { CommandError, ConnectionClosedError, RunError, textOf } from "fairlead-client";

import { AGENTS, LIMIT, withAgent, type Turn } from "./stage.js";

const bash = (command: string): Turn => ({ toolCalls: [{ name: "bash", arguments: { command } }] });
const WAIT = bash("until [ -e go ]; do sleep 0.02; done");

for (const agent of AGENTS) {
    test(`${agent}: a prompt, its events and its result`, LIMIT, () =>
        withAgent(agent, [bash("echo hello"), { text: "It says hello. ".repeat(10).trim() }], async ({ client }) => {
            const run = client.prompt("Greet.");
            const kinds = new Set<string>();
            let streamed = "";
            let output = "";
            for await (const event of run) {
                kinds.add(event.type);
                if (event.type === "message_update") streamed = textOf(event.message);
                if (event.type === "tool_execution_end") output = textOf(event.result);
            }
            const result = await run;
            assert.equal(result.status, "completed");
            assert.equal(result.text, "It says hello. ".repeat(10).trim());
            assert.equal(streamed, result.text);
            assert.match(output, /^hello/);
            const roles = result.messages
                .map((message) => message.role)
                .filter((role) => ["user", "assistant", "toolResult"].includes(role));
            assert.deepEqual(roles, ["user", "assistant", "toolResult", "assistant"]);
            assert.ok(result.usage.totalTokens > 0 && result.usage.cost > 0);
            for (const kind of ["agent_start", "turn_start", "message_update", "tool_execution_start", "agent_end"])
                assert.ok(kinds.has(kind), kind);
            assert.equal((await client.getLastAssistantText()).text, result.text);
            assert.equal((await client.getState()).isStreaming, false);
        }),
    );

    test(`${agent}: a run that fails rejects, and the next one works`, LIMIT, () =>
        withAgent(agent, [{ status: 400, error: "no such thing" }, { text: "Fine." }], async ({ client }) => {
            await assert.rejects(
                Promise.resolve(client.prompt("Fail.")),
                (error: RunError) => /no such thing/.test(error.message) && error.result.status === "failed",
            );
            assert.equal((await client.prompt("Again.")).text, "Fine.");
        }),
    );

    test(`${agent}: a run that is retried settles once, with the last answer`, LIMIT, () =>
        withAgent(agent, [{ text: "Half of the ans", dropAfter: 1 }, { text: "At last." }], async ({ client }) => {
            const run = client.prompt("Try.");
            const kinds: string[] = [];
            for await (const event of run) kinds.push(event.type);
            assert.ok(kinds.includes("auto_retry_start"));
            assert.equal((await run).text, "At last.");
        }),
    );

    test(`${agent}: an abort resolves the run`, LIMIT, () =>
        withAgent(agent, [{ text: "One two three four five.", hangAfter: 2 }, { text: "Back." }], async ({ client }) => {
            const run = client.prompt("Count.");
            for await (const piece of run.text()) if (piece) break;
            await run.abort();
            assert.equal((await run).status, "aborted");
            assert.equal((await client.prompt("Again.")).text, "Back.");
        }),
    );

    test(`${agent}: queued prompts settle with the run that takes them`, LIMIT, () =>
        withAgent(agent, [WAIT, { text: "First." }, { text: "Second." }, { text: "Third." }], async ({ client }) => {
            const events = client.events();
            const first = client.prompt("Wait.");
            for await (const event of events) if (event.type === "tool_execution_start") break;
            const second = client.prompt("And then?", { streamingBehavior: "followUp" });
            await second.accepted;
            assert.equal(second.isSettled, false);
            await client.bash({ command: "touch go" });
            assert.equal((await first).status, "completed");
            assert.equal((await second).text, "Second.");
            assert.equal((await client.prompt("One more.")).text, "Third.");
        }),
    );

    test(`${agent}: a prompt without streamingBehavior is refused while a run is in progress`, LIMIT, () =>
        withAgent(agent, [WAIT, { text: "Done." }], async ({ client }) => {
            const events = client.events();
            const first = client.prompt("Wait.");
            for await (const event of events) if (event.type === "tool_execution_start") break;
            await assert.rejects(Promise.resolve(client.prompt("Me too.")), (error: CommandError) =>
                /already processing/.test(error.message),
            );
            await client.bash({ command: "touch go" });
            assert.equal((await first).text, "Done.");
        }),
    );

    test(`${agent}: long lines with separators of JavaScript arrive whole`, LIMIT, () =>
        withAgent(agent, [{ text: "é\u2028\u2029 ", repeat: 50_000, chunk: 5000 }], async ({ client }) => {
            const { text } = await client.prompt("Write.");
            assert.equal(text, "é\u2028\u2029 ".repeat(50_000));
        }),
    );

    test(`${agent}: after a crash, a restart resumes the session`, LIMIT, () =>
        withAgent(agent, [{ text: "Noted." }, { text: "Yes." }], async (stage) => {
            const { client } = stage;
            await client.prompt("Remember me.");
            const { sessionFile } = await client.getState();
            const waiting = client.bash({ command: "sleep 100" });
            process.kill(stage.agent.pid, "SIGKILL");
            await assert.rejects(waiting, (error: ConnectionClosedError) => error.exit?.signal === "SIGKILL");
            assert.equal((await client.exited)?.signal, "SIGKILL");
            await client.restart();
            assert.equal((await client.getState()).sessionFile, sessionFile);
            const { messages } = await client.getMessages();
            assert.ok(messages.some((message) => message.role === "user" && textOf(message) === "Remember me."));
            assert.equal((await client.prompt("Still there?")).text, "Yes.");
        }),
    );

    test(`${agent}: stop ends the agent and the commands that it runs`, LIMIT, () =>
        withAgent(agent, [bash('echo $$ > pid; sh -c "echo \\$\\$ > child; sleep 1000"')], async ({ client, folder }) => {
            const run = client.prompt("Hang.");
            run.catch(() => {});
            while (!existsSync(join(folder, "child"))) await new Promise((resolve) => setTimeout(resolve, 20));
            const { output } = await client.bash({ command: "cat pid child" });
            const pids = output.split("\n").filter(Boolean).map(Number);
            assert.equal(pids.length, 2);
            const exit = await client.stop();
            assert.notEqual(exit, undefined);
            await assert.rejects(Promise.resolve(run), /stopped/);
            for (const pid of pids) await gone(pid);
        }),
    );
}

/** Resolves when a process has ended. */
async function gone(pid: number): Promise<void> {
    for (;;) {
        try {
            process.kill(pid, 0);
        } catch {
            return;
        }
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
