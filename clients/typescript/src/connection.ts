// Reads frames from a transport and writes frames to it. It knows nothing of agents.

import { ConnectionClosedError, ProtocolError, type Exit } from "./errors.js";
import { Broadcast } from "./events.js";
import { LineDecoder } from "./framing.js";
import { PendingRequests } from "./pending.js";
import type { Transport } from "./transport.js";

export type Frame = Record<string, unknown>;

/** After this time with a full buffer, the client says why nothing happens. */
const SILENCE_MS = 10_000;

export interface ConnectionOptions {
    /** How much each event stream may buffer, in characters of JSON, before the client stops reading from the agent. */
    eventBuffer?: number;
    /** Gets remarks that help to find a mistake. By default they go to `console.warn`. */
    onDiagnostic?: (text: string) => void;
}

export interface Receiver {
    /** Handles a frame; `size` is its length in characters. */
    receive(frame: Frame, size: number): void;
    /** Handles the end of the connection. There is no error if this side closed it. */
    closed(error: ConnectionClosedError | undefined): void;
}

/** One connection to one agent, from its start to its end. */
export class Connection<E> {
    readonly events: Broadcast<E>;
    readonly pending = new PendingRequests();
    /** Resolves when the connection has ended and everything that arrived was handled. Never rejects. */
    readonly ended: Promise<Exit | undefined>;
    #transport: Transport;
    #receiver: Receiver;
    #diagnose: (text: string) => void;
    #closing = false;
    #over: ConnectionClosedError | undefined;

    constructor(transport: Transport, receiver: Receiver, options: ConnectionOptions) {
        this.#transport = transport;
        this.#receiver = receiver;
        this.#diagnose = options.onDiagnostic ?? ((text) => console.warn(`fairlead-client: ${text}`));
        this.events = new Broadcast(options.eventBuffer ?? 8 * 1024 * 1024);
        this.ended = this.#read();
    }

    get isOpen(): boolean {
        return this.#over === undefined && !this.#closing;
    }

    /** Sends a frame. If the agent is gone, the end of the connection says so, too. */
    async send(frame: object): Promise<void> {
        if (this.#over) throw this.#over;
        await this.#transport.send(`${JSON.stringify(frame)}\n`);
    }

    /** Sends a request and returns its response. */
    async request(frame: object & { id: string }, name: string, timeoutMs: number, signal?: AbortSignal): Promise<unknown> {
        if (!this.isOpen) throw this.#over ?? new ConnectionClosedError("The connection is closed.");
        const response = this.pending.add(frame.id, name, timeoutMs, signal);
        this.events.wake(); // the response may be behind events that a stream has no room for
        this.send(frame).catch((error: Error) => this.#unsent(frame.id, error));
        return response;
    }

    /** Sends a frame that expects no response. An agent that is gone does not need it. */
    post(frame: object): void {
        this.send(frame).catch(() => {});
    }

    diagnose(text: string): void {
        this.#diagnose(text);
    }

    /** Ends the connection and the agent. */
    async close(): Promise<Exit | undefined> {
        this.#closing = true;
        this.events.wake(); // read to the end
        await this.#transport.close();
        return this.ended;
    }

    /** A request that could not be written fails with the end of the connection, which says more. */
    #unsent(id: string, error: Error): void {
        setTimeout(() => this.pending.reject(id, new ConnectionClosedError(`The agent does not read: ${error.message}`)), 1000);
    }

    async #read(): Promise<Exit | undefined> {
        let cause: unknown;
        try {
            const lines = new LineDecoder();
            for await (const chunk of this.#transport.input) {
                for (const line of lines.push(chunk)) {
                    this.#receive(line);
                    if (this.events.isFull) await this.#room();
                }
            }
            const rest = lines.end();
            if (rest !== undefined) this.#receive(rest);
        } catch (error) {
            cause = error;
        }
        if (cause && !this.#closing) await this.#transport.close().catch(() => {}); // what follows cannot be understood
        const exit = await this.#transport.exited;
        this.#over = closedError(exit, cause);
        const error = this.#closing ? undefined : this.#over;
        this.pending.rejectAll(this.#closing ? new ConnectionClosedError("The client was stopped.", exit, true) : this.#over);
        this.#receiver.closed(error);
        this.events.end(error);
        return exit;
    }

    #receive(line: string): void {
        let frame: unknown;
        try {
            frame = JSON.parse(line);
        } catch {
            return this.#diagnose(`ignored a line that is not JSON: ${line.slice(0, 200)}`);
        }
        if (typeof frame !== "object" || frame === null || Array.isArray(frame)) {
            return this.#diagnose(`ignored a line that is not an object: ${line.slice(0, 200)}`);
        }
        this.#receiver.receive(frame as Frame, line.length);
    }

    /** Waits until all event streams have room. A request that waits for its response goes first. */
    async #room(): Promise<void> {
        while (this.events.isFull && !this.pending.size && !this.#closing) {
            const timer = setTimeout(
                () =>
                    this.#diagnose(
                        "an event stream is full and is not being read, so the client has stopped reading from the agent. " +
                            "Read the stream, or close it with return().",
                    ),
                SILENCE_MS,
            );
            await this.events.room();
            clearTimeout(timer);
        }
    }
}

function closedError(exit: Exit | undefined, cause: unknown): ConnectionClosedError {
    if (cause instanceof ProtocolError) return new ConnectionClosedError(cause.message, exit);
    if (!exit) {
        return new ConnectionClosedError(
            cause instanceof Error ? `The connection failed: ${cause.message}` : "The agent closed the connection.",
        );
    }
    const how = exit.signal ? `was ended by ${exit.signal}` : `exited with code ${exit.code}`;
    const words = exit.stderr.trim();
    return new ConnectionClosedError(`The agent ${how}${words ? `:\n${words}` : "."}`, exit);
}
