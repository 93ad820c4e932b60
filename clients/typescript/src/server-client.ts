// The sessions and the jobs of a server: requests over HTTP, and events without gaps.

import { ClientError, CommandTimeoutError } from "./errors.js";
import type { Event } from "./generated/family.js";
import { HttpMethods, OPERATIONS, type OperationName } from "./generated/http-methods.js";
import type { JobResult, Operations, ServeEvent, Snapshot } from "./generated/http.js";
import { ConnectionBrokeError, refusalOf, ServerAddress, ServerRefusedError, type ServerOptions } from "./network.js";
import type { RequestOptions } from "./pending.js";

export interface ServerClientOptions extends ServerOptions {
    /** Milliseconds to wait for a response (30,000). `abort` and `compact` have no limit. */
    timeoutMs?: number;
    /** Milliseconds for which `follow` tries to reach a server that is away (300,000). */
    patienceMs?: number;
}

/** An event of a session in a server. */
export type SessionEvent = ServeEvent | Exclude<Event, { type: ServeEvent["type"] }>;

/** What `follow` yields: a snapshot, or an event whose number is one more than that of the event before. */
export type Followed = { snapshot: Snapshot; event?: never } | { number: number; event: SessionEvent; snapshot?: never };

export interface FollowOptions {
    /** How many of the newest messages snapshots have. By default all. */
    messages?: number;
    /** Ends the iteration. */
    signal?: AbortSignal;
}

/** An event of a job of a fleet. The numbers of a job start at 1 and have no gaps. */
export interface JobEvent {
    number: number;
    type: string;
    [field: string]: unknown;
}

export interface FollowJobOptions {
    /** The number of the last event that is known. By default 0: all events come. */
    after?: number;
    /** Ends the iteration. */
    signal?: AbortSignal;
}

/** Operations that take long by nature. */
const LONG: ReadonlySet<string> = new Set(["abort", "compact", "move"]);
/** Operations that get an id, so that they can be repeated if the connection breaks. The server accepts each id once. */
const WITH_ID: ReadonlySet<string> = new Set(["prompt", "steer", "follow_up", "prompt_session"]);
/** Operations that are repeated: jobs have ids of their own. */
const REPEATABLE: ReadonlySet<string> = new Set([...WITH_ID, "submit_jobs", "cancel_job"]);
/** Operations whose result is a text. */
const TEXTS: ReadonlySet<string> = new Set(["job_patch", "session_transcript"]);
/** The last events of jobs. */
const ENDED: ReadonlySet<string> = new Set(["done", "failed", "cancelled", "parked"]);
/** How often a request is sent at most. */
const MOST_ATTEMPTS = 6;
/** Milliseconds without a sign of life after which a connection is dead. The server sends one every 15 seconds. */
const SILENCE_MS = 45_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;
/** Statuses that mean: try again later. */
const TRANSIENT: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** The sessions of a server, which continue when clients leave, and which several clients share. */
export class ServerClient extends HttpMethods {
    #address: ServerAddress;
    #options: ServerClientOptions;

    constructor(url: string, options: ServerClientOptions = {}) {
        super();
        this.#address = new ServerAddress(url, options);
        this.#options = options;
    }

    override async request<N extends OperationName>(
        name: N,
        ids: readonly string[],
        params: Operations[N]["params"],
        { timeoutMs, signal }: RequestOptions = {},
    ): Promise<Operations[N]["result"]> {
        const { method, path } = OPERATIONS[name];
        const left = [...ids];
        let target = path.replace(/\{\w+\}/g, () => encodeURIComponent(left.shift() ?? ""));
        let body: string | undefined;
        if (method === "GET") {
            const given = Object.entries(params).filter(([, value]) => value !== undefined);
            if (given.length) target += `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
        } else {
            body = JSON.stringify(WITH_ID.has(name) ? { id: newId(), ...params } : params);
        }
        const limit = timeoutMs ?? (LONG.has(name) ? Infinity : (this.#options.timeoutMs ?? 30_000));
        const abort = new AbortController();
        const timer = limit === Infinity ? undefined : setTimeout(() => abort.abort(), limit);
        const stop = (): void => abort.abort(signal?.reason);
        signal?.addEventListener("abort", stop);
        if (signal?.aborted) stop();
        try {
            const exchange = (): Promise<unknown> => this.#exchange(name, target, body, abort.signal);
            const mayRepeat = method === "GET" || REPEATABLE.has(name);
            return (await (mayRepeat ? this.#repeated(exchange, abort.signal) : exchange())) as Operations[N]["result"];
        } catch (error) {
            if (!abort.signal.aborted) throw error;
            signal?.throwIfAborted();
            throw new CommandTimeoutError(name, limit);
        } finally {
            clearTimeout(timer);
            signal?.removeEventListener("abort", stop);
        }
    }

    /**
     * Yields a snapshot of a session, and then its events for as long as it exists. The events continue the snapshot: none is
     * missing and none comes twice, even if the connection breaks. If the server no longer has what was missed, because the
     * reader was slow or the server restarted, another snapshot comes, and the events continue that one.
     */
    async *follow(sessionId: string, { messages, signal }: FollowOptions = {}): AsyncGenerator<Followed, void, undefined> {
        const away = new Away(this.#options.patienceMs ?? 300_000);
        const query = messages === undefined ? {} : { messages };
        const fetched = (): Promise<Snapshot> => this.getSession(sessionId, query, signal ? { signal } : {});
        try {
            let snapshot = await fetched();
            yield { snapshot };
            let last = snapshot.lastEvent;
            for (;;) {
                let problem: ClientError | undefined;
                try {
                    for await (const { number, event } of this.#listen("listen", sessionId, last, away, signal)) {
                        let isLost = event.type === "resync";
                        if (number === last + 1 && !isLost) {
                            last = number;
                            yield { number, event };
                            if (event.type === "session_replaced") sessionId = event.sessionId;
                            isLost = event.type === "session_replaced" || event.type === "branch_changed";
                            if (isLost) last = 0; // a new connection asks for the snapshot again
                        }
                        if (isLost) {
                            snapshot = await fetched();
                            last = snapshot.lastEvent;
                            yield { snapshot };
                        } else if (number > last) break; // something was lost on the way: ask for it again
                    }
                } catch (error) {
                    problem = transient(error);
                }
                await away.wait(problem, signal);
            }
        } catch (error) {
            if (!signal?.aborted) throw error;
        }
    }

    /**
     * Yields the events of a job of a fleet after a number, and new ones as they come, until the job has ended. None is missing
     * and none comes twice, even if the connection breaks.
     */
    async *followJob(jobId: string, { after = 0, signal }: FollowJobOptions = {}): AsyncGenerator<JobEvent, void, undefined> {
        const away = new Away(this.#options.patienceMs ?? 300_000);
        const hasEnded = async (): Promise<boolean> =>
            ENDED.has((await this.getJob(jobId, {}, signal ? { signal } : {})).status);
        // How many streams in a row have ended without an event: a server that stops ends them too.
        let empty = 0;
        try {
            for (;;) {
                let problem: ClientError | undefined;
                empty++;
                try {
                    for await (const { number, event } of this.#listen("job_events", jobId, after, away, signal)) {
                        if (number !== after + 1) break; // something was lost on the way: ask for it again
                        [after, empty] = [number, 0];
                        yield { number, ...event };
                        if (ENDED.has(event.type) && (await hasEnded())) return;
                    }
                    if (empty > 1 && (await hasEnded())) return;
                } catch (error) {
                    [problem, empty] = [transient(error), 0];
                }
                await away.wait(problem, signal);
            }
        } catch (error) {
            if (!signal?.aborted) throw error;
        }
    }

    /** Waits until a job of a fleet has ended, and returns its result. */
    async waitForJob(jobId: string, { signal }: { signal?: AbortSignal } = {}): Promise<JobResult> {
        for await (const _ of this.followJob(jobId, signal ? { signal } : {}));
        signal?.throwIfAborted();
        return this.getJob(jobId);
    }

    /** The events after a number, until the connection ends. */
    async *#listen(
        name: "listen" | "job_events",
        id: string,
        last: number,
        away: Away,
        signal: AbortSignal | undefined,
    ): AsyncGenerator<{ number: number; event: SessionEvent }> {
        const abort = new AbortController();
        const stop = (): void => abort.abort();
        signal?.addEventListener("abort", stop);
        signal?.throwIfAborted();
        let timer = setTimeout(stop, SILENCE_MS);
        try {
            const headers = { Accept: "text/event-stream", "Last-Event-ID": String(last) };
            const path = OPERATIONS[name].path.replace("{id}", encodeURIComponent(id));
            const response = await this.#address.send(path, { method: "GET", headers, signal: abort.signal });
            if (response.status !== 200) throw await refusalOf(this.#address, name, response);
            if (!response.headers.get("content-type")?.startsWith("text/event-stream") || !response.body)
                throw this.#address.notFairlead("it sends no events");
            away.ends();
            const reader = response.body.getReader();
            const parser = new EventParser();
            for (;;) {
                const { done, value } = await reader.read();
                if (done) return;
                clearTimeout(timer);
                for (const each of parser.push(value)) {
                    away.resets();
                    yield each;
                }
                timer = setTimeout(stop, SILENCE_MS);
            }
        } catch (error) {
            signal?.throwIfAborted();
            throw error instanceof ClientError ? error : this.#address.broke();
        } finally {
            clearTimeout(timer);
            signal?.removeEventListener("abort", stop);
            abort.abort();
        }
    }

    async #repeated(exchange: () => Promise<unknown>, signal: AbortSignal): Promise<unknown> {
        const away = new Away(Infinity);
        for (let attempt = 1; ; attempt++) {
            try {
                return await exchange();
            } catch (error) {
                const mayRepeat = error instanceof ConnectionBrokeError && error.wasSent && attempt < MOST_ATTEMPTS;
                if (!mayRepeat) throw error;
                await away.wait(error, signal);
            }
        }
    }

    async #exchange(name: OperationName, path: string, body: string | undefined, signal: AbortSignal): Promise<unknown> {
        const { method, status } = OPERATIONS[name];
        const headers: Record<string, string> = body === undefined ? {} : { "Content-Type": "application/json" };
        const response = await this.#address.send(path, { method, headers, signal, ...(body !== undefined && { body }) });
        if (response.status !== status) throw await refusalOf(this.#address, name, response);
        let text: string;
        try {
            text = await response.text();
        } catch (error) {
            if (signal.aborted) throw error;
            throw this.#address.broke();
        }
        if (TEXTS.has(name)) return text;
        if (!text) return undefined;
        try {
            return JSON.parse(text);
        } catch {
            throw this.#address.notFairlead(`it answers ${name} with something that is not JSON`);
        }
    }
}

/** Returns an error after which another attempt may succeed, and throws every other one. */
function transient(error: unknown): ClientError {
    const isTransient =
        error instanceof ConnectionBrokeError ||
        error instanceof CommandTimeoutError ||
        (error instanceof ServerRefusedError && TRANSIENT.has(error.status));
    if (!isTransient) throw error;
    return error as ClientError;
}

/** Waits before each new attempt, longer each time, and gives up when the server was away for too long. */
class Away {
    #since: number | undefined;
    #wait = FIRST_WAIT_MS;

    constructor(private readonly patienceMs: number) {}

    /** Notes that the server answers. */
    ends(): void {
        this.#since = undefined;
    }

    /** Notes that the server works, so that the next wait is short. */
    resets(): void {
        this.#wait = FIRST_WAIT_MS;
    }

    async wait(error: ClientError | undefined, signal: AbortSignal | undefined): Promise<void> {
        this.#since ??= Date.now();
        if (error && Date.now() - this.#since > this.patienceMs) throw error;
        const asked = error instanceof ServerRefusedError ? (error.retryAfter ?? 0) * 1000 : 0;
        // Many clients of a server that comes back must not come at the same moment.
        const ms = Math.max(Math.min(asked, LONGEST_WAIT_MS), this.#wait * (0.5 + Math.random() / 2));
        this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS);
        await new Promise<void>((resolve) => {
            const done = (): void => (clearTimeout(timer), signal?.removeEventListener("abort", done), resolve());
            const timer = setTimeout(done, ms);
            signal?.addEventListener("abort", done);
        });
        signal?.throwIfAborted();
    }
}

/** Reads server-sent events. What is incomplete at the end is dropped, as the format prescribes. */
class EventParser {
    #decoder = new TextDecoder("utf-8");
    #rest = "";
    #number: number | undefined;
    #data: string[] = [];

    *push(chunk: Uint8Array): Generator<{ number: number; event: SessionEvent }> {
        const text = this.#decoder.decode(chunk, { stream: true });
        if (!text.includes("\n")) {
            this.#rest += text;
            return;
        }
        const lines = (this.#rest + text).split("\n");
        this.#rest = lines.pop() ?? "";
        for (const line of lines) {
            const [, name, value] = /^([^:]*):? ?(.*?)\r?$/.exec(line) ?? [];
            if (name === "id") this.#number = Number(value);
            else if (name === "data") this.#data.push(value ?? "");
            else if (line.trim() === "" && this.#data.length) {
                const data = this.#data.join("\n");
                this.#data = [];
                if (this.#number !== undefined) yield { number: this.#number, event: JSON.parse(data) as SessionEvent };
            }
        }
    }
}

function newId(): string {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
