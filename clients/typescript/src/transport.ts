// What carries the lines between the client and an agent.

import type { Exit } from "./errors.js";

/** A connection to an agent. Write your own for a WebSocket, a worker or a test. */
export interface Transport {
    /** What the agent sends, in chunks of any size. It ends when the agent does. */
    readonly input: AsyncIterable<Uint8Array | string>;
    /** Sends text, which is one or more whole lines. Resolves when there is room for more. */
    send(text: string): Promise<void>;
    /** Closes the connection, and resolves when the agent has ended. */
    close(): Promise<void>;
    /** Resolves when the agent has ended, if the transport can tell how. */
    readonly exited?: Promise<Exit>;
}

/** The part of Node's writable streams that a transport uses. */
export interface NodeWritable {
    write(text: string, done: (error?: Error | null) => void): unknown;
    end(): unknown;
    on(event: "error", listener: (error: Error) => void): unknown;
}

/** Makes a transport from a pair of streams: those of Node (a socket is both), or those of the web. */
export function fromStreams(
    readable: AsyncIterable<Uint8Array | string> | ReadableStream<Uint8Array | string>,
    writable: NodeWritable | WritableStream<Uint8Array>,
): Transport {
    const input = "getReader" in readable ? chunksOf(readable) : readable;
    if ("getWriter" in writable) {
        const writer = writable.getWriter();
        const encoder = new TextEncoder();
        return { input, send: (text) => writer.write(encoder.encode(text)), close: () => writer.close() };
    }
    writable.on("error", () => {}); // `send` reports it
    return {
        input,
        send: (text) => written(writable, text),
        close: async () => {
            writable.end();
        },
    };
}

/** Writes text to a stream of Node. Resolves when the stream has taken it. */
export function written(stream: NodeWritable, text: string): Promise<void> {
    return new Promise((resolve, reject) => {
        stream.write(text, (error) => (error ? reject(error) : resolve()));
    });
}

/** The chunks of a web stream. Not all browsers can iterate over one. */
async function* chunksOf<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
    const reader = stream.getReader();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            yield value;
        }
    } finally {
        reader.releaseLock();
    }
}
