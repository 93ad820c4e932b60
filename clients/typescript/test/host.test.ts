import assert from "node:assert/strict";
import { test } from "node:test";

import { hostTool, type ApprovalDecision, type UiHandlers } from "fairlead-client";

import { FakeAgent, type Line } from "./fake-agent.js";

const parameters = { type: "object" };

test("tools are registered, called, and report progress and errors", async () => {
    const agent = new FakeAgent();
    const add = hostTool<{ a: number; b: number }>({
        name: "add",
        description: "Add",
        parameters,
        run: ({ a, b }, { progress }) => {
            progress("adding");
            return a + b;
        },
    });
    const fail = hostTool({ name: "fail", description: "Fail", parameters, run: () => Promise.reject(new Error("no luck")) });
    await agent.connect({ tools: [add, fail] });
    assert.deepEqual((await agent.line("set_host_tools"))["tools"], [
        { name: "add", description: "Add", parameters },
        { name: "fail", description: "Fail", parameters },
    ]);
    agent.send({ type: "host_tool_call", id: "1", toolCallId: "t1", toolName: "add", arguments: { a: 1, b: 2 } });
    const text = (value: string): Line => ({ content: [{ type: "text", text: value }] });
    assert.deepEqual(await agent.line("host_tool_update"), { type: "host_tool_update", id: "1", partialResult: text("adding") });
    assert.deepEqual(await agent.line("host_tool_result"), { type: "host_tool_result", id: "1", result: text("3") });
    agent.received.length = 0;
    agent.send({ type: "host_tool_call", id: "2", toolCallId: "t2", toolName: "fail", arguments: {} });
    assert.deepEqual(await agent.line("host_tool_result"), {
        type: "host_tool_result",
        id: "2",
        result: text("no luck"),
        isError: true,
    });
});

test("a cancelled tool gets a signal, and its result is not sent", async () => {
    const agent = new FakeAgent();
    let cancelled = (): void => {};
    const wasCancelled = new Promise<void>((resolve) => (cancelled = resolve));
    const wait = hostTool({
        name: "wait",
        description: "Wait",
        parameters,
        run: (_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", () => (cancelled(), resolve("late")))),
    });
    const client = await agent.connect({ tools: [wait] });
    agent.send({ type: "host_tool_call", id: "1", toolCallId: "t", toolName: "wait", arguments: {} });
    agent.send({ type: "host_tool_cancel", id: "2", targetId: "1" });
    await wasCancelled;
    await client.getState();
    assert.equal(
        agent.received.some((line) => line["type"] === "host_tool_result"),
        false,
    );
});

test("URIs are read and written", async () => {
    const agent = new FakeAgent();
    const notes = new Map([["notes://a", "text"]]);
    const client = await agent.connect({
        uriSchemes: {
            notes: {
                description: "Notes",
                read: (url) => notes.get(url)!,
                write: (url, content) => void notes.set(url, content),
            },
            docs: { read: () => Promise.reject(new Error("offline")) },
        },
    });
    assert.deepEqual((await agent.line("set_host_uri_schemes"))["schemes"], [
        { scheme: "notes", description: "Notes", writable: true },
        { scheme: "docs", writable: false },
    ]);
    const answers: Line[] = [];
    for (const request of [
        { operation: "read", url: "notes://a" },
        { operation: "write", url: "NOTES://b", content: "new" },
        { operation: "read", url: "docs://a" },
        { operation: "write", url: "docs://a", content: "new" },
    ]) {
        agent.received.length = 0;
        agent.send({ type: "host_uri_request", id: "1", ...request });
        const { type: _, id: __, ...answer } = await agent.line("host_uri_result");
        answers.push(answer);
    }
    assert.deepEqual(answers, [
        { content: "text" },
        {},
        { isError: true, error: "offline" },
        { isError: true, error: "docs://a is read-only." },
    ]);
    assert.equal(notes.get("NOTES://b"), "new");
    await client.stop();
});

const approval = { method: "select", title: "Run rm?", options: ["Approve", "Approve for session", "Deny"] };

async function answerTo(request: Line, ui?: UiHandlers): Promise<Line> {
    const agent = new FakeAgent();
    const client = await agent.connect({ ...(ui && { ui }), onDiagnostic: () => {} });
    agent.send({ type: "extension_ui_request", id: "q", ...request });
    const { type: _, id, ...answer } = await agent.line("extension_ui_response");
    assert.equal(id, "q");
    await client.stop();
    return answer;
}

test("without handlers, questions are dismissed and approvals denied", async () => {
    assert.deepEqual(await answerTo({ method: "confirm", title: "Sure?", message: "" }), { cancelled: true });
    assert.deepEqual(await answerTo({ method: "input", title: "Name?" }), { cancelled: true });
    assert.deepEqual(await answerTo(approval), { value: "Deny" });
    assert.deepEqual(await answerTo(approval, { select: (request) => request.options[0] }), { value: "Deny" });
});

test("handlers answer", async () => {
    assert.deepEqual(
        await answerTo({ method: "select", title: "?", options: ["a", "b"] }, { select: async ({ options }) => options[1] }),
        { value: "b" },
    );
    assert.deepEqual(await answerTo({ method: "confirm", title: "?", message: "" }, { confirm: () => false }), {
        confirmed: false,
    });
    assert.deepEqual(await answerTo({ method: "editor", title: "?", prefill: "x" }, { editor: ({ prefill }) => `${prefill}y` }), {
        value: "xy",
    });
    const broken = (): never => {
        throw new Error("no screen");
    };
    assert.deepEqual(await answerTo({ method: "input", title: "?" }, { input: broken }), { cancelled: true });
    assert.deepEqual(await answerTo(approval, { approve: broken }), { cancelled: true });
});

test("an approval has what the agent says about the call", async () => {
    const request = { ...approval, toolName: "bash", toolCallId: "t", arguments: { command: "rm x" }, diff: "-x" };
    const ui: UiHandlers = {
        approve(asked) {
            assert.deepEqual(
                [asked.title, asked.toolName, asked.toolCallId, asked.arguments, asked.diff],
                ["Run rm?", "bash", "t", { command: "rm x" }, "-x"],
            );
            return "allow_for_session";
        },
    };
    assert.deepEqual(await answerTo(request, ui), { value: "Approve for session" });
});

test("a decision can give a reason or other arguments", async () => {
    const asked = { ...approval, approval: true, toolName: "bash", toolCallId: "t", arguments: { command: "rm x" } };
    const answer = (decision: ApprovalDecision, request: Line = asked): Promise<Line> =>
        answerTo(request, { approve: () => decision });
    assert.deepEqual(await answer({ allow: false, reason: "too risky", forSession: true }), {
        value: "Deny",
        reason: "too risky",
        forSession: true,
    });
    assert.deepEqual(await answer({ allow: true, arguments: { command: "ls" } }), {
        value: "Approve",
        arguments: { command: "ls" },
    });
    assert.deepEqual(await answer({ allow: true, forSession: true }), { value: "Approve for session" });
    assert.deepEqual(await answer({ allow: false }), { value: "Deny" });
    assert.deepEqual(await answer("yes" as "allow"), { value: "Deny" });
    // An agent that does not say that it is an approval cannot take other arguments or a reason.
    assert.deepEqual(await answer({ allow: true, arguments: { command: "ls" } }, approval), { value: "Deny" });
    assert.deepEqual(await answer({ allow: false, reason: "no" }, approval), { value: "Deny" });
});

test("a question that was withdrawn is not answered", async () => {
    const agent = new FakeAgent();
    let asked = (): void => {};
    const wasAsked = new Promise<void>((resolve) => (asked = resolve));
    const ui: UiHandlers = {
        input: (_, { signal }) => new Promise((resolve) => (signal.addEventListener("abort", () => resolve("late")), asked())),
    };
    const client = await agent.connect({ ui });
    agent.send({ type: "extension_ui_request", id: "q", method: "input", title: "?" });
    await wasAsked;
    agent.send({ type: "extension_ui_request", id: "c", method: "cancel", targetId: "q" });
    agent.send({ type: "extension_ui_request", id: "e", method: "input", title: "?", timeout: 1 });
    await new Promise((resolve) => setTimeout(resolve, 20));
    await client.getState();
    assert.equal(
        agent.received.some((line) => line["type"] === "extension_ui_response"),
        false,
    );
});

test("what needs no answer is shown, and a manual host answers by itself", async () => {
    const agent = new FakeAgent();
    const shown: string[] = [];
    const client = await agent.connect({
        ui: { show: (request) => void shown.push(request.method === "notify" ? request.message : request.method) },
    });
    agent.send(
        { type: "extension_ui_request", id: "1", method: "notify", message: "hi" },
        { type: "extension_ui_request", id: "2", method: "setTitle", title: "T" },
    );
    await client.getState();
    assert.deepEqual(shown, ["hi", "setTitle"]);
    const other = new FakeAgent();
    const manual = await other.connect({ ui: "manual" });
    other.send({ type: "extension_ui_request", id: "q", method: "confirm", title: "?", message: "" });
    await manual.getState();
    manual.reply({ type: "extension_ui_response", id: "q", confirmed: true });
    const answers = [await other.line("extension_ui_response")];
    assert.deepEqual(answers, [{ type: "extension_ui_response", id: "q", confirmed: true }]);
});
