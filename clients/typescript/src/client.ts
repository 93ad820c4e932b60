/// <reference lib="esnext.disposable" preserve="true" />
// The client for agents of the pi family: fairlead, pi, omp and xcsh.

import { Connection, type ConnectionOptions, type Frame, type Receiver } from "./connection.js";
import { ClientError, CommandError, ConnectionClosedError, type Exit } from "./errors.js";
import type { EventStream } from "./events.js";
import { ChunkJoiner } from "./framing.js";
import { CommandMethods, type CommandData, type CommandName, type CommandParams } from "./generated/commands.js";
import type { Answer, Event, RpcChunkEvent, RpcSessionState } from "./generated/family.js";
import { HostTools, type HostTool, type UriHandler } from "./host-tools.js";
import { MessageAssembler, type ClientEvent } from "./messages.js";
import type { RequestOptions } from "./pending.js";
import { Run, type PromptOptions } from "./run.js";
import { RunTracker } from "./runs.js";
import type { Transport } from "./transport.js";
import { UserInterface, type UiHandlers } from "./ui.js";

export interface ClientOptions extends ConnectionOptions {
    /** Tools that the model may call, as functions of this program. */
    tools?: readonly HostTool[];
    /** URIs that this program serves, by scheme. */
    uriSchemes?: Readonly<Record<string, UriHandler>>;
    /**
     * How to ask the user. Without a handler, questions are dismissed and approvals denied, so that the agent never waits in
     * vain. With `"manual"` the client answers nothing: use `events()` and `reply()`.
     */
    ui?: UiHandlers | "manual";
    /**
     * The form of `message_update` to ask for. `delta`, the default, is cheaper; events have the message so far either way.
     * An agent that cannot choose keeps its own form.
     */
    updates?: "delta" | "full";
    /** False for an agent that sends no responses: pi of 2025, and `fairlead --dialect pi-2025`. Only prompts and aborts work then. */
    responses?: boolean;
    /** Milliseconds to wait for the response to a command (30,000). Long commands such as `bash` and `compact` have no limit. */
    timeoutMs?: number;
    /** Milliseconds to wait for the first response of a new agent (30,000). */
    startTimeoutMs?: number;
}

/** Commands whose response comes when their work is done. */
const LONG: ReadonlySet<string> = new Set(
    "prompt abort_and_prompt abort bash compact handoff login export_html reload navigate_tree".split(" "),
);
/** Commands after which the agent may have another session. */
const SWITCHING: ReadonlySet<string> = new Set("new_session switch_session fork branch clone open_session handoff".split(" "));

/** Starts or reaches an agent. A client that can restart its agent calls it again. */
export type Connect = () => Promise<Transport>;

/** A client of one agent. */
export class Client extends CommandMethods {
    /** The session of the agent, as far as its responses said. `restart` resumes it. */
    session: Pick<RpcSessionState, "sessionId" | "sessionFile"> | undefined;
    #options: ClientOptions;
    #connect: Connect | undefined;
    #connection!: Connection<ClientEvent>;
    #runs!: RunTracker;
    #tools = new HostTools();
    #ui: UserInterface | undefined;
    #lastId = 0;

    private constructor(options: ClientOptions, connect: Connect | undefined) {
        super();
        this.#options = options;
        this.#connect = connect;
        this.#tools.setTools(options.tools ?? []);
        this.#tools.setSchemes(options.uriSchemes ?? {});
        if (options.ui !== "manual") this.#ui = new UserInterface(options.ui ?? {}, (text) => this.#connection.diagnose(text));
    }

    /** Connects to an agent and waits until it responds. Give a function if `restart` should be possible. */
    static async connect(agent: Transport | Connect, options: ClientOptions = {}): Promise<Client> {
        const client = new Client(options, typeof agent === "function" ? agent : undefined);
        await client.#start(typeof agent === "function" ? await agent() : agent);
        return client;
    }

    /** Sends a prompt. The result settles when nothing more will happen. */
    prompt(message: string, options: PromptOptions = {}): Run {
        const { signal: _, ...rest } = options;
        return this.#run("prompt", message, rest, options);
    }

    /** Stops the current run, if any, and sends a prompt. */
    abortAndPrompt(message: string, options: Omit<PromptOptions, "streamingBehavior"> = {}): Run {
        return this.#run("abort_and_prompt", message, options.images ? { images: options.images } : {}, options);
    }

    /** All events from now on. The stream ends with the connection, and with an error if the agent crashed. */
    events(): EventStream<ClientEvent> {
        return this.#connection.events.open();
    }

    override async request<N extends CommandName>(
        name: N,
        params: CommandParams<N>,
        { timeoutMs, signal }: RequestOptions = {},
    ): Promise<CommandData<N>> {
        const limit = timeoutMs ?? (LONG.has(name) ? Infinity : (this.#options.timeoutMs ?? 30_000));
        const frame = { ...params, id: this.#nextId(), type: name };
        if (this.#options.responses === false) {
            if (name !== "abort") throw new ClientError(`This agent sends no responses, so ${name} cannot be used.`);
            await this.#connection.send(frame);
            return undefined as CommandData<N>;
        }
        const data = (await this.#connection.request(frame, name, limit, signal)) as CommandData<N>;
        if (name === "get_state") this.#remember(data as RpcSessionState);
        if (SWITCHING.has(name)) await this.request("get_state", {});
        return data;
    }

    /** Sends an answer to a request of the agent, for hosts with `ui: "manual"`. */
    reply(answer: Answer): void {
        this.#connection.post(answer);
    }

    /** Replaces the host tools, from the next model call on. */
    async setTools(tools: readonly HostTool[]): Promise<void> {
        await this.request("set_host_tools", { tools: this.#tools.setTools(tools) });
    }

    /** Replaces the URI schemes that this program serves. */
    async setUriSchemes(schemes: Readonly<Record<string, UriHandler>>): Promise<void> {
        await this.request("set_host_uri_schemes", { schemes: this.#tools.setSchemes(schemes) });
    }

    /** Whether the agent can be reached. */
    get isOpen(): boolean {
        return this.#connection.isOpen;
    }

    /** Resolves when the agent has ended, however that happened. Never rejects. */
    get exited(): Promise<Exit | undefined> {
        return this.#connection.ended;
    }

    /** Ends the agent and all its processes. Open prompts and requests are rejected, and event streams end. */
    async stop(): Promise<Exit | undefined> {
        this.#runs.fail(new ConnectionClosedError("The client was stopped.", undefined, true));
        return this.#connection.close();
    }

    [Symbol.asyncDispose](): Promise<void> {
        return this.stop().then(() => {});
    }

    /**
     * Starts the agent again, after a crash or instead of the current one, and resumes its session. Tools and URI schemes are
     * registered again. Event streams end: open new ones.
     */
    async restart(): Promise<void> {
        if (!this.#connect)
            throw new ClientError("This client cannot start an agent: it was given a connection, not a function.");
        if (this.isOpen) await this.stop();
        else await this.exited;
        const file = this.session?.sessionFile;
        await this.#start(await this.#connect());
        if (file && file !== this.session?.sessionFile) await this.request("switch_session", { sessionPath: file });
    }

    #nextId(): string {
        this.#lastId += 1;
        return `req_${this.#lastId}`;
    }

    #run(name: "prompt" | "abort_and_prompt", message: string, params: object, { signal, ...options }: PromptOptions): Run {
        const connection = this.#connection;
        const id = this.#nextId();
        const run = new Run(
            id,
            message,
            options,
            () => connection.events.open(),
            () => this.abort(),
        );
        const runs = this.#runs;
        runs.add(run);
        const frame = { ...params, id, type: name, message };
        const refuse = (error: Error): void => void runs.respond(id, false, undefined, error);
        if (this.#options.responses === false) {
            connection.send(frame).catch(refuse);
            runs.respond(id, true, { disposition: "started" }, undefined);
        } else connection.request(frame, name, Infinity).catch(refuse);
        if (signal) run.abortOn(signal);
        return run;
    }

    async #start(transport: Transport): Promise<void> {
        const responds = this.#options.responses !== false;
        const runs = new RunTracker(responds ? () => this.request("get_state", {}) : undefined);
        const receiver = new FamilyReceiver(() => connection, runs, this.#tools, this.#ui);
        const connection: Connection<ClientEvent> = new Connection(transport, receiver, this.#options);
        this.#connection = connection;
        this.#runs = runs;
        if (!responds) return;
        const timeoutMs = this.#options.startTimeoutMs ?? 30_000;
        try {
            await Promise.all([this.getState({}, { timeoutMs }), this.#chooseUpdates(timeoutMs), this.#register(timeoutMs)]);
        } catch (error) {
            await connection.close().catch(() => {});
            throw error;
        }
    }

    #remember({ sessionId, sessionFile }: RpcSessionState): void {
        this.session = sessionFile === undefined ? { sessionId } : { sessionId, sessionFile };
    }

    async #chooseUpdates(timeoutMs: number): Promise<void> {
        try {
            await this.request("set_updates", { updates: this.#options.updates ?? "delta" }, { timeoutMs });
        } catch (error) {
            if (!(error instanceof CommandError)) throw error; // only fairlead can choose
        }
    }

    async #register(timeoutMs: number): Promise<void> {
        const { definitions, schemes } = this.#tools;
        if (definitions.length) await this.request("set_host_tools", { tools: definitions }, { timeoutMs });
        if (schemes.length) await this.request("set_host_uri_schemes", { schemes }, { timeoutMs });
    }
}

/** Handles what arrives from an agent of the family. */
class FamilyReceiver implements Receiver {
    #assembler = new MessageAssembler();
    #chunks = new ChunkJoiner();

    constructor(
        private readonly connection: () => Connection<ClientEvent>,
        private readonly runs: RunTracker,
        private readonly tools: HostTools,
        private readonly ui: UserInterface | undefined,
    ) {}

    receive(frame: Frame, size: number): void {
        if (frame["type"] === "response") return this.#respond(frame);
        if (frame["type"] === "rpc_chunk") return this.#join(frame as unknown as RpcChunkEvent);
        const event = this.#assembler.assemble(frame as unknown as Event);
        if (!event) return;
        this.connection().events.push(event, size);
        this.#serve(event);
        this.runs.observe(event);
    }

    closed(error: ConnectionClosedError | undefined): void {
        this.tools.cancelAll();
        this.ui?.withdrawAll();
        this.runs.fail(error ?? new ConnectionClosedError("The client was stopped.", undefined, true));
    }

    #join(chunk: RpcChunkEvent): void {
        const text = this.#chunks.push(chunk);
        if (text !== undefined) this.receive(JSON.parse(text) as Frame, text.length);
    }

    #respond(frame: Frame): void {
        const { pending } = this.connection();
        const command = String(frame["command"]);
        const id = typeof frame["id"] === "string" ? frame["id"] : undefined;
        if (frame["success"]) {
            if (id === undefined) return;
            this.runs.respond(id, true, frame["data"], undefined); // at once: the events of the run may be right behind
            pending.resolve(id, frame["data"]);
            return;
        }
        const error = new CommandError(command, String(frame["error"] ?? "The agent gave no reason."), frame["code"] as string);
        if (id !== undefined) {
            this.runs.respond(id, false, undefined, error); // a prompt may be refused after it was accepted
            pending.reject(id, error);
            return;
        }
        // Some agents drop the id of a command that they do not know, or that failed in an unexpected way.
        const target = pending.oldest(command) ?? (command === "parse" ? pending.oldest(undefined, LONG) : undefined);
        if (target === undefined) this.connection().diagnose(`the agent reported an error: ${error.message}`);
        else pending.reject(target, error);
    }

    #serve(event: ClientEvent): void {
        const connection = this.connection() as unknown as Connection<never>;
        switch (event.type) {
            case "host_tool_call":
                void this.tools.call(event, connection);
                break;
            case "host_uri_request":
                void this.tools.serve(event, connection);
                break;
            case "host_tool_cancel":
            case "host_uri_cancel":
                this.tools.cancel(event.targetId);
                break;
            case "extension_ui_request":
                void this.ui?.receive(event, connection);
                break;
        }
    }
}
