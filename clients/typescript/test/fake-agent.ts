// An agent in memory: a test says what it sends, and sees what it receives.

import { Client, type ClientOptions, type Transport } from "fairlead-client";

export type Line = Record<string, any>;

export class FakeAgent {
    readonly received: Line[] = [];
    /** How many chunks the client has read. */
    chunksRead = 0;
    /** Answers that the agent gives by itself, by the type of the command; `undefined` gives none. */
    answers: Record<string, ((command: Line) => Line | undefined) | undefined> = {
        get_state: () => ({ data: { sessionId: "s", isStreaming: false, isCompacting: false } }),
        set_updates: () => ({}),
        set_host_tools: () => ({ data: { toolNames: [] } }),
        set_host_uri_schemes: () => ({ data: { schemes: [] } }),
        prompt: () => ({}),
        abort: () => ({}),
    };
    #chunks: (Uint8Array | string)[] = [];
    #isOver = false;
    #wake = (): void => {};
    #arrived: (() => void)[] = [];

    get transport(): Transport {
        const agent = this;
        async function* input(): AsyncGenerator<Uint8Array | string> {
            for (;;) {
                while (agent.#chunks.length) {
                    agent.chunksRead += 1;
                    yield agent.#chunks.shift()!;
                }
                if (agent.#isOver) return;
                await new Promise<void>((resolve) => (agent.#wake = resolve));
            }
        }
        return { input: input(), send: async (text) => this.#take(text), close: async () => this.end() };
    }

    connect(options: ClientOptions = {}): Promise<Client> {
        return Client.connect(this.transport, options);
    }

    /** Sends frames, one chunk each. */
    send(...frames: Line[]): void {
        this.sendRaw(...frames.map((frame) => `${JSON.stringify(frame)}\n`));
    }

    sendRaw(...chunks: (Uint8Array | string)[]): void {
        this.#chunks.push(...chunks);
        this.#wake();
    }

    end(): void {
        this.#isOver = true;
        this.#wake();
    }

    /** Resolves with the first line of a type, once it has arrived. */
    async line(type: string): Promise<Line> {
        for (;;) {
            const found = this.received.find((line) => line["type"] === type);
            if (found) return found;
            await new Promise<void>((resolve) => this.#arrived.push(resolve));
        }
    }

    #take(text: string): void {
        for (const each of text.trim().split("\n")) {
            const line = JSON.parse(each) as Line;
            this.received.push(line);
            const answer = this.answers[line["type"]]?.(line);
            if (answer) this.send({ id: line["id"], type: "response", command: line["type"], success: true, ...answer });
        }
        for (const resolve of this.#arrived.splice(0)) resolve();
    }
}

const usage = {
    input: 1,
    output: 2,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 3,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.5 },
};

/** An assistant message. */
export function says(text: string, more: Line = {}): Line {
    const content = text ? [{ type: "text", text }] : [];
    return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason: "stop", timestamp: 1, ...more };
}

/** The frames of a run with one answer, up to its `agent_end`. */
export function oneTurn(text: string, more: Line = {}, end: Line = {}): Line[] {
    const message = says(text, more);
    return [
        { type: "agent_start" },
        { type: "message_start", message: says("") },
        { type: "message_end", message },
        { type: "agent_end", messages: [message], ...end },
    ];
}

export function delta(text: string, more: Line = {}): Line {
    return {
        type: "message_update",
        assistantMessageEvent: { type: "text_delta", contentIndex: 0, delta: text },
        usage,
        ...more,
    };
}
