/// <reference lib="esnext.disposable" preserve="true" />
// The client for servers that speak Opal's JSON-RPC.

import { Connection, type ConnectionOptions, type Frame, type Receiver } from "./connection.js";
import { ClientError, CommandError, ConnectionClosedError, type Exit } from "./errors.js";
import type { EventStream } from "./events.js";
import { OpalMethods, type OpalMethod, type OpalParams, type OpalResult } from "./generated/opal-methods.js";
import type { AgentEndEvent, Event, ServerRequests, SessionStartParams } from "./generated/opal.js";
import { messageOf } from "./host-tools.js";
import type { RequestOptions } from "./pending.js";
import { PromptRun } from "./prompt-run.js";
import type { Connect } from "./client.js";
import type { Transport } from "./transport.js";

export type OpalEvent = Event;

/** How a host answers the requests of the server. Without a handler, an approval is denied and a question is an error. */
export type OpalHandlers = {
    [N in keyof ServerRequests]?: (
        params: ServerRequests[N]["params"],
    ) => ServerRequests[N]["result"] | Promise<ServerRequests[N]["result"]>;
};

export interface OpalClientOptions extends ConnectionOptions {
    handlers?: OpalHandlers;
    /** Milliseconds to wait for a response (30,000). Logins and compactions have no limit. */
    timeoutMs?: number;
    /** Milliseconds to wait for the first response of a new server (30,000). */
    startTimeoutMs?: number;
}

export interface OpalRunResult {
    status: "completed" | "aborted";
    /** The text of the answers. */
    text: string;
    /** The tokens of the run, if it was completed. */
    usage?: AgentEndEvent["usage"];
    durationMs: number;
}

/** A prompt. Await it for its result, or iterate over the events of its session first. */
export class OpalRun extends PromptRun<OpalRunResult, OpalEvent> {
    #text = "";

    /** @internal */
    constructor(
        readonly sessionId: string,
        open: () => EventStream<OpalEvent>,
        abort: () => Promise<unknown>,
    ) {
        super(open, abort);
    }

    /** @internal */
    observe(event: OpalEvent): void {
        if (event.type === "message_delta") this.#text += event.delta;
        if (event.type === "agent_end") this.#settle("completed", event.usage);
        if (event.type === "agent_abort") this.#settle("aborted");
        if (event.type === "error") this.fail(new CommandError("agent/prompt", event.reason));
    }

    #settle(status: OpalRunResult["status"], usage?: AgentEndEvent["usage"]): void {
        this.succeed({ status, text: this.#text, ...(usage && { usage }), durationMs: this.durationMs });
    }
}

/** Requests that are answered when they are done. */
const LONG: ReadonlySet<string> = new Set(["auth/login", "auth/poll", "session/compact"]);

/** A client of one server, which holds any number of sessions. */
export class OpalClient extends OpalMethods implements Receiver {
    #options: OpalClientOptions;
    #connect: Connect | undefined;
    #connection!: Connection<OpalEvent>;
    #runs = new Map<string, OpalRun>();
    /** The saved sessions that this client started, with the params that start them again. */
    #sessions = new Map<string, SessionStartParams>();
    #lastId = 0;

    private constructor(options: OpalClientOptions, connect: Connect | undefined) {
        super();
        this.#options = options;
        this.#connect = connect;
    }

    /** Connects to a server and waits until it responds. Give a function if `restart` should be possible. */
    static async connect(server: Transport | Connect, options: OpalClientOptions = {}): Promise<OpalClient> {
        const client = new OpalClient(options, typeof server === "function" ? server : undefined);
        await client.#start(typeof server === "function" ? await server() : server);
        return client;
    }

    /** Sends a prompt to a session. The result settles when the run that takes it has ended. */
    prompt(sessionId: string, text: string, { signal }: { signal?: AbortSignal } = {}): OpalRun {
        const connection = this.#connection;
        const id = this.#nextId();
        const stop = (): Promise<unknown> => this.agentAbort({ session_id: sessionId });
        const run = new OpalRun(sessionId, () => connection.events.open(), stop);
        this.#runs.set(id, run);
        const frame = { jsonrpc: "2.0", id, method: "agent/prompt", params: { session_id: sessionId, text } };
        connection.request(frame, "agent/prompt", Infinity).catch((error: Error) => {
            this.#runs.delete(id);
            run.fail(error);
        });
        if (signal) run.abortOn(signal);
        return run;
    }

    /** All events of all sessions from now on. */
    events(): EventStream<OpalEvent> {
        return this.#connection.events.open();
    }

    override async request<N extends OpalMethod>(
        name: N,
        params: OpalParams<N>,
        { timeoutMs, signal }: RequestOptions = {},
    ): Promise<OpalResult<N>> {
        const limit = timeoutMs ?? (LONG.has(name) ? Infinity : (this.#options.timeoutMs ?? 30_000));
        const frame = { jsonrpc: "2.0", id: this.#nextId(), method: name, params };
        const result = (await this.#connection.request(frame, name, limit, signal)) as OpalResult<N>;
        if (name === "session/start") this.#remember(params as SessionStartParams, (result as { session_id: string }).session_id);
        if (name === "session/delete") this.#sessions.delete((params as { session_id: string }).session_id);
        return result;
    }

    get isOpen(): boolean {
        return this.#connection.isOpen;
    }

    /** Resolves when the server has ended, however that happened. Never rejects. */
    get exited(): Promise<Exit | undefined> {
        return this.#connection.ended;
    }

    /** Ends the server and all its processes. */
    async stop(): Promise<Exit | undefined> {
        this.#failRuns(new ConnectionClosedError("The client was stopped.", undefined, true));
        return this.#connection.close();
    }

    [Symbol.asyncDispose](): Promise<void> {
        return this.stop().then(() => {});
    }

    /** Starts the server again, and resumes the saved sessions that this client had started. */
    async restart(): Promise<void> {
        if (!this.#connect)
            throw new ClientError("This client cannot start a server: it was given a connection, not a function.");
        if (this.isOpen) await this.stop();
        else await this.exited;
        await this.#start(await this.#connect());
        for (const params of [...this.#sessions.values()]) await this.sessionStart(params);
    }

    /** @internal */
    receive(frame: Frame, size: number): void {
        if (frame["method"] === "agent/event") return this.#event(frame["params"] as OpalEvent, size);
        if (typeof frame["method"] === "string") return void this.#answer(frame);
        const { pending } = this.#connection;
        const id = typeof frame["id"] === "string" ? frame["id"] : (pending.oldest(undefined, LONG) ?? "");
        const error = frame["error"] as { code: number; message: string } | undefined;
        if (error) {
            pending.reject(id, new CommandError("request", error.message, error.code));
        } else {
            this.#runs.get(id)?.accept(); // at once: the events of the run may be right behind
            pending.resolve(id, frame["result"]);
        }
    }

    /** @internal */
    closed(error: ConnectionClosedError | undefined): void {
        this.#failRuns(error ?? new ConnectionClosedError("The client was stopped.", undefined, true));
    }

    async #start(transport: Transport): Promise<void> {
        this.#connection = new Connection(transport, this, this.#options);
        try {
            await this.opalPing({}, { timeoutMs: this.#options.startTimeoutMs ?? 30_000 });
        } catch (error) {
            await this.#connection.close().catch(() => {});
            throw error;
        }
    }

    #nextId(): string {
        this.#lastId += 1;
        return `req_${this.#lastId}`;
    }

    #remember(params: SessionStartParams, id: string): void {
        if (params.session || params.session_id) this.#sessions.set(id, { ...params, session_id: id });
    }

    #event(event: OpalEvent, size: number): void {
        this.#connection.events.push(event, size);
        for (const [id, run] of this.#runs) {
            if (run.isAccepted && run.sessionId === event.session_id) run.observe(event);
            if (run.isSettled) this.#runs.delete(id);
        }
    }

    /** Answers a request of the server. */
    async #answer({ id, method, params }: Frame): Promise<void> {
        const handler = this.#options.handlers?.[method as keyof ServerRequests] as ((params: unknown) => unknown) | undefined;
        let answer: object;
        try {
            if (handler) answer = { result: await handler(params) };
            else if (method === "client/confirm") answer = { result: { action: "deny" } };
            else answer = { error: { code: -32601, message: `The client does not answer ${method}.` } };
        } catch (error) {
            answer = { error: { code: -32603, message: messageOf(error) } };
        }
        this.#connection.post({ jsonrpc: "2.0", id, ...answer });
    }

    #failRuns(error: Error): void {
        for (const run of this.#runs.values()) run.fail(error);
        this.#runs.clear();
    }
}
