// Clients of a real server, also over TLS, through a proxy that cuts connections, and while the server restarts.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect as connectSocket, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import {
    ClientError,
    connectOpalServer,
    connectServer,
    CommandError,
    ConnectionClosedError,
    ServerClient,
    type Followed,
} from "fairlead-client";

import { given, LIMIT, startProvider, surroundings, type Turn } from "./stage.js";

const certificates = JSON.parse(process.env["CERTIFICATES"] ?? "{}") as Record<"trusted" | "stranger", string>;
const WORDS = Array.from({ length: 600 }, (_, number) => `word${number}`).join(" ");
const SLOW = { text: WORDS, chunk: 20, delayMs: 2 };

/** A server on a port that stays the same. */
class Server {
    port = 0;
    url = "";
    #process: ChildProcess | undefined;

    constructor(
        private readonly environment: Record<string, string>,
        private readonly folder: string,
        private readonly flags: string[],
    ) {}

    get token(): string {
        return readFileSync(join(this.environment["FAIRLEAD_HOME"]!, "serve.token"), "utf8").trim();
    }

    async start(): Promise<void> {
        const [program, ...first] = given["fairlead"]!;
        const args = [...first, "serve", "--port", String(this.port), "--model", "scripted/one", ...this.flags];
        const child = spawn(program!, args, { cwd: this.folder, env: this.environment, stdio: ["ignore", "pipe", "inherit"] });
        this.#process = child;
        let text = "";
        for await (const chunk of child.stdout!.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
            text += chunk as string;
            if (text.includes("Ctrl-C")) break;
        }
        child.stdout!.resume();
        const [, url, port] = /listens on (\S+:(\d+))/.exec(text) ?? [];
        this.url = url!;
        this.port = Number(port);
    }

    async end(signal: NodeJS.Signals): Promise<void> {
        const child = this.#process!;
        if (child.exitCode !== null || child.signalCode !== null) return;
        const ended = new Promise((resolve) => child.once("exit", resolve));
        child.kill(signal);
        await ended;
    }
}

async function withServer(turns: Turn[], run: (server: Server) => Promise<void>, flags: string[] = []): Promise<void> {
    const root = mkdtempSync(join(tmpdir(), "fairlead-server-"));
    const provider = await startProvider(turns);
    const server = new Server(surroundings(root, provider.port), join(root, "work"), flags);
    try {
        await server.start();
        await run(server);
    } finally {
        await server.end("SIGKILL");
        provider.process.kill();
        rmSync(root, { recursive: true, force: true, maxRetries: 3 });
    }
}

/** A proxy that cuts each connection after as many bytes as `budget` says. */
async function withProxy(
    port: number,
    budget: () => number,
    run: (port: number, cuts: () => number) => Promise<void>,
): Promise<void> {
    let cuts = 0;
    const sockets = new Set<Socket>();
    const proxy = createServer((down) => {
        const up = connectSocket(port, "127.0.0.1");
        let left = budget();
        for (const each of [down, up]) {
            sockets.add(each);
            each.on("error", () => {});
            each.on("close", () => (down.destroy(), up.destroy()));
        }
        down.on("data", (data) => up.write(data));
        up.on("data", (data: Buffer) => {
            down.write(data.subarray(0, left));
            left -= data.length;
            if (left > 0) return;
            cuts += 1;
            up.destroy();
            if (cuts % 2) down.end();
            else down.resetAndDestroy();
        });
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    try {
        await run((proxy.address() as AddressInfo).port, () => cuts);
    } finally {
        for (const each of sockets) each.destroy();
        proxy.close();
    }
}

/** What a client knows of a session. It fails if an event is missing or comes twice. */
class Mirror {
    texts: string[] = [];
    open: string | undefined;
    snapshots = 0;
    #number = 0;

    apply({ snapshot, ...rest }: Followed): void {
        if (snapshot) {
            this.snapshots += 1;
            this.#number = snapshot.lastEvent;
            this.texts = snapshot.messages.map(textOf);
            this.open = snapshot.openMessage ? textOf(snapshot.openMessage) : undefined;
            return;
        }
        const { number, event } = rest as Extract<Followed, { number: number }>;
        assert.equal(number, this.#number + 1, "a gap or a repetition");
        this.#number = number;
        if (event.type === "message_start" && event.message.role === "assistant") this.open = "";
        if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta")
            this.open += event.assistantMessageEvent.delta;
        if (event.type === "message_end") {
            if (event.message.role === "assistant") {
                assert.equal(this.open, textOf(event.message));
                this.open = undefined;
            }
            this.texts.push(textOf(event.message));
        }
    }

    async follow(client: ServerClient, id: string, texts: number): Promise<void> {
        for await (const each of client.follow(id)) {
            this.apply(each);
            if (this.texts.length >= texts && this.open === undefined) return;
        }
    }
}

function textOf(message: unknown): string {
    const { content } = message as { content: string | { text?: string }[] };
    return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("");
}

async function untilIdle(client: ServerClient, id: string): Promise<void> {
    while ((await client.getSession(id, { messages: 0 })).session.status !== "idle")
        await new Promise((resolve) => setTimeout(resolve, 50));
}

test("the typed clients work over a WebSocket", LIMIT, async () => {
    await withServer([{ text: "Hello" }], async ({ url, token }) => {
        for (const dialect of ["pi", "omp", "xcsh"] as const) {
            const client = await connectServer(url, { token, dialect });
            assert.equal((await client.prompt("x".repeat(70_000))).text, "Hello");
            await client.stop();
        }
        const opal = await connectOpalServer(url, { token });
        const { session_id } = await opal.sessionStart();
        assert.equal((await opal.prompt(session_id, "hi")).text, "Hello");
        await opal.stop();
    });
});

test("a lost connection fails what waits for it, and restart connects again", LIMIT, async () => {
    await withServer([SLOW], async (server) => {
        const client = await connectServer(server.url, { token: server.token });
        const run = client.prompt("hi");
        const failing = assert.rejects(Promise.resolve(run), ConnectionClosedError);
        await run.accepted;
        await server.end("SIGKILL");
        await failing;
        await server.start();
        await client.restart();
        assert.equal((await client.prompt("again")).text, WORDS);
        await client.stop();
    });
});

/** Numbers from 0 up to 1 that are the same for the same seed. */
function seeded(seed: number): () => number {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

async function survivesCuts(seed: number): Promise<void> {
    const chance = seeded(seed);
    await withServer([SLOW], async (server) => {
        await withProxy(
            server.port,
            () => 1 + Math.floor(chance() * 12_000),
            async (port, cuts) => {
                const { token } = server;
                const calm = new ServerClient(server.url, { token });
                const cut = new ServerClient(`http://127.0.0.1:${port}`, { token });
                const { id } = await calm.createSession({});
                const mirror = new Mirror();
                const following = mirror.follow(cut, id, 4);
                for (const text of ["one", "two"]) {
                    await cut.prompt(id, { text });
                    await untilIdle(calm, id);
                }
                await following;
                assert.deepEqual(mirror.texts, ["one", WORDS, "two", WORDS]);
                assert.ok(cuts() > 5, `${cuts()} cuts`);
                assert.equal(mirror.snapshots, 1);
            },
        );
    });
}

for (const seed of [1, 2, 3])
    test(`connections that are cut anywhere lose and repeat nothing (${seed})`, LIMIT, () => survivesCuts(seed));

test("a move within the tree brings a snapshot, and what waits is taken back", LIMIT, async () => {
    const turns = [{ text: "first" }, { text: "second" }, { text: WORDS, holdAfter: 3 }];
    await withServer(turns, async ({ url, token }) => {
        const client = new ServerClient(url, { token });
        const { id } = await client.createSession();
        const mirror = new Mirror();
        const following = client.follow(id);
        const until = async (found: () => boolean): Promise<void> => {
            while (!found()) mirror.apply((await following.next()).value as Followed);
        };
        for (const [count, text] of [[2, "one"], [4, "two"]] as const) {
            await client.prompt(id, { text });
            await until(() => mirror.texts.length === count && mirror.open === undefined);
            await untilIdle(client, id);
        }
        const { entries } = await client.getTree(id);
        const moved = await client.move(id, { entryId: entries[2]!.id });
        assert.equal(moved.text, "two");
        await until(() => mirror.snapshots === 2);
        assert.deepEqual(mirror.texts, ["one", "first"]);
        await client.prompt(id, { text: "three" });
        await until(() => Boolean(mirror.open));
        await client.steer(id, { text: "left" });
        assert.deepEqual(await client.clearQueue(id), { steering: ["left"], followUp: [] });
        await client.abort(id);
        await until(() => mirror.texts.length === 4);
        assert.deepEqual(mirror.texts.slice(0, 3), ["one", "first", "three"]);
    });
});

test("a restart of the server resynchronises", LIMIT, async () => {
    await withServer([SLOW], async (server) => {
        const client = new ServerClient(server.url, { token: server.token });
        const { id } = await client.createSession();
        await client.prompt(id, { text: "one" });
        await untilIdle(client, id);
        const mirror = new Mirror();
        const following = mirror.follow(client, id, 4);
        await new Promise((resolve) => setTimeout(resolve, 300));
        await server.end("SIGKILL");
        await server.start();
        await client.prompt(id, { text: "two" });
        await following;
        assert.deepEqual(mirror.texts, ["one", WORDS, "two", WORDS]);
        assert.equal(mirror.snapshots, 2);
    });
});

test("a slow reader gets a snapshot instead of what it missed", LIMIT, async () => {
    const text = "x".repeat(9_000_000);
    await withServer([{ text: "short" }, { text, chunk: 30_000 }, { text: "after" }], async ({ url, token }) => {
        const client = new ServerClient(url, { token });
        const { id } = await client.createSession();
        const mirror = new Mirror();
        const following = client.follow(id);
        for (const prompt of ["one", "two", "three"]) {
            mirror.apply((await following.next()).value as Followed);
            await client.prompt(id, { text: prompt });
            await untilIdle(client, id); // while this reader does not read
        }
        for await (const each of following) {
            mirror.apply(each);
            if (mirror.texts.length === 6) break;
        }
        assert.deepEqual(mirror.texts, ["one", "short", "two", text, "three", "after"]);
        assert.ok(mirror.snapshots > 1);
    });
});

test("jobs of a fleet are submitted, followed from any number on, and cancelled", LIMIT, async () => {
    await withServer([], usesJobs, ["--db", "sqlite:///jobs.db"]);
});

async function usesJobs(server: Server): Promise<void> {
    const client = new ServerClient(server.url, { token: server.token });
    const task = { prompt: "Say hello.", workdir: "." };
    const jobs = await client.submitJobs([{ id: "a", ...task }, { id: "b", ...task }]);
    assert.deepEqual(jobs.map((job) => [job.id, job.status]), [["a", "queued"], ["b", "queued"]]);
    const prompted = await client.promptSession("chat", { ...task, id: "p-1" });
    assert.equal((await client.promptSession("chat", { ...task, id: "p-1" })).id, prompted.id);
    assert.deepEqual((await client.sessionJobs("chat")).map((job) => job.labels), [{ prompt: "p-1" }]);
    const following = client.followJob("a");
    const first = await following.next();
    assert.deepEqual([first.value?.number, first.value?.type], [1, "queued"]);
    assert.equal((await client.cancelJob("a")).status, "cancelled");
    const seen = [];
    for await (const event of following) seen.push(event);
    assert.deepEqual(seen.map((event) => [event.number, event.type]), [[2, "cancelled"]]);
    for await (const event of client.followJob("a", { after: 2 })) assert.fail(event.type);
    assert.equal((await client.waitForJob("a")).status, "cancelled");
    assert.equal((await client.retryJob("a")).status, "queued");
    assert.equal((await client.getJob("a")).status, "queued");
    assert.equal(await client.jobPatch("b"), "");
    assert.deepEqual((await client.listJobs()).length, 3);
    await assert.rejects(client.sessionTranscript("none"), /There is no session/);
}

test("a signal ends the iteration", LIMIT, async () => {
    await withServer([SLOW], async ({ url, token }) => {
        const client = new ServerClient(url, { token });
        const { id } = await client.createSession();
        const seen: Followed[] = [];
        for await (const each of client.follow(id, { signal: AbortSignal.timeout(300) })) seen.push(each);
        assert.equal(seen.length, 1);
    });
});

test("errors say what is wrong", LIMIT, async () => {
    const other = createHttpServer((_, response) => response.writeHead(404).end("<h1>Not here</h1>"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    await withServer([{ text: "Hello" }], async (server) => {
        const { url, token } = server;
        const ways = [
            (to: string, token: string) => new ServerClient(to, { token }).listSessions(),
            (to: string, token: string) => connectServer(to, { token }),
        ];
        for (const way of ways) {
            await assert.rejects(way(url, "wrong-token"), (error: CommandError) => {
                assert.ok(error instanceof CommandError);
                assert.equal(error.code, "wrong_token");
                return !error.message.includes("wrong-token");
            });
            await assert.rejects(way(url.replace("http:", "https:"), token), /does not speak TLS/);
            await assert.rejects(way(elsewhere, token), /not the address of a fairlead server/);
        }
        await assert.rejects(connectServer(url, { token, cwd: "/missing" }), /Is `cwd` a directory/);
        await server.end("SIGTERM");
        for (const way of ways) await assert.rejects(way(url, token), /cannot be reached/);
    });
    other.close();
    for (const url of ["http://example.com", "https://user:secret@example.com", "https://example.com/?token=secret", "ftp://x"])
        assert.throws(() => new ServerClient(url, { token: "a-token" }), (error: Error) => {
            return error instanceof ClientError && !error.message.includes("secret");
        });
    assert.throws(() => new ServerClient("https://example.com", { token: "two\r\nlines" }), ClientError);
});

test("certificates are verified", LIMIT, async () => {
    const flags = (name: keyof typeof certificates): string[] => ["--tls-cert", certificates[name], "--tls-key", certificates[name]];
    await withServer(
        [{ text: "Hello" }],
        async ({ url, token }) => {
            assert.match(url, /^https:/);
            const client = await connectServer(url, { token });
            assert.equal((await client.prompt("hi")).text, "Hello");
            await client.stop();
            const sessions = new ServerClient(url, { token });
            const { id } = await sessions.createSession();
            const mirror = new Mirror();
            const following = mirror.follow(sessions, id, 2);
            await sessions.prompt(id, { text: "hi" });
            await following;
            assert.deepEqual(mirror.texts, ["hi", "Hello"]);
        },
        flags("trusted"),
    );
    await withServer(
        [{ text: "Hello" }],
        async ({ url, token }) => {
            await assert.rejects(new ServerClient(url, { token }).listSessions(), /certificate .* cannot be trusted/);
            await assert.rejects(connectServer(url, { token }), /certificate .* cannot be trusted/);
        },
        flags("stranger"),
    );
});
