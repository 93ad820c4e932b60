// Lines of JSON, separated by LF and nothing else: U+2028, U+2029 and a lone CR may occur inside a line.

import { ProtocolError } from "./errors.js";

/** The longest line that the client accepts, in UTF-16 units. */
const LONGEST_LINE = 256 * 1024 * 1024;

/** Splits chunks of bytes or text into lines. A character may be split across chunks, and a line may have any number of them. */
export class LineDecoder {
    #decoder = new TextDecoder("utf-8");
    #pieces: string[] = [];
    #length = 0;

    /** Returns the lines that this chunk completes. */
    *push(chunk: Uint8Array | string): Generator<string> {
        const text = typeof chunk === "string" ? chunk : this.#decoder.decode(chunk, { stream: true });
        let start = 0;
        for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
            const line = this.#pieces.length ? this.#take() + text.slice(start, end) : text.slice(start, end);
            start = end + 1;
            if (line.trim()) yield line;
        }
        if (start < text.length) this.#keep(start ? text.slice(start) : text);
    }

    /** Returns the last line, if the input ended without a LF after it. */
    end(): string | undefined {
        const line = this.#take() + this.#decoder.decode();
        return line.trim() ? line : undefined;
    }

    #keep(piece: string): void {
        this.#length += piece.length;
        if (this.#length > LONGEST_LINE) throw new ProtocolError("The agent sent a line that is longer than 256 Mi characters.");
        this.#pieces.push(piece);
    }

    #take(): string {
        const text = this.#pieces.join("");
        this.#pieces = [];
        this.#length = 0;
        return text;
    }
}

/** One part of a frame that the agent split because of its length. */
interface Chunk {
    chunkId: string;
    index: number;
    count: number;
    data: string;
}

/** Joins `rpc_chunk` frames. */
export class ChunkJoiner {
    #open = new Map<string, string[]>();

    /** Returns the text of the whole frame with its last chunk, and undefined before. */
    push(chunk: Chunk): string | undefined {
        const parts = this.#open.get(chunk.chunkId) ?? [];
        parts[chunk.index] = chunk.data;
        this.#open.set(chunk.chunkId, parts);
        if (parts.filter((part) => part !== undefined).length < chunk.count) return undefined;
        this.#open.delete(chunk.chunkId);
        const decoder = new TextDecoder("utf-8");
        const texts = parts.map((part) => decoder.decode(fromBase64(part), { stream: true }));
        return texts.join("") + decoder.decode();
    }
}

function fromBase64(text: string): Uint8Array {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
    return bytes;
}
