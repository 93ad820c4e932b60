// The run of a prompt, in the pi family.

import { readableError, RunError } from "./errors.js";
import type { EventStream } from "./events.js";
import type { AssistantMessage, ImageContent, Message } from "./generated/family.js";
import { textOf, type ClientEvent } from "./messages.js";
import { PromptRun } from "./prompt-run.js";

export interface PromptOptions {
    images?: ImageContent[];
    /** How to queue the message if a run is in progress: after the current turn, or after the run. */
    streamingBehavior?: "steer" | "followUp";
    /** Aborts the run. */
    signal?: AbortSignal;
}

export interface RunUsage {
    input: number;
    output: number;
    cacheRead: number;
    cacheWrite: number;
    totalTokens: number;
    /** US dollars. */
    cost: number;
}

export interface RunResult {
    /** `handled`: an extension handled the prompt, and the model did not see it. */
    status: "completed" | "aborted" | "failed" | "handled";
    /** The text of the last answer. */
    text: string;
    /** All messages that the run added. */
    messages: Message[];
    /** Tokens and cost of all model calls. */
    usage: RunUsage;
    /** Why the last answer ended. */
    stopReason?: AssistantMessage["stopReason"];
    durationMs: number;
}

/** What the agent said about the end of a prompt. */
export interface Outcome {
    status?: RunResult["status"];
    error?: string;
    retryable?: boolean;
}

/**
 * A prompt. Await it for its result, or iterate over its events first:
 *
 *     const run = client.prompt("Fix the tests");
 *     for await (const event of run) show(event);
 *     const result = await run;
 *
 * It settles when nothing more will happen: after retries, compactions and queued messages. A run that failed rejects with a
 * `RunError`, and its events end with the same error. An aborted one resolves. Start to iterate at once: the events begin
 * when you do.
 */
export class Run extends PromptRun<RunResult, ClientEvent> {
    /** Whether the agent has started to work since it accepted the prompt. @internal */
    isStarted = false;
    /** Whether the prompt may join a run that is in progress. @internal */
    readonly mayJoin: boolean;
    #messages: Message[] = [];

    /** @internal */
    constructor(
        readonly id: string,
        /** @internal */ readonly message: string,
        options: PromptOptions,
        open: () => EventStream<ClientEvent>,
        abort: () => Promise<unknown>,
    ) {
        super(open, abort);
        this.mayJoin = options.streamingBehavior !== undefined;
    }

    /** The text of the answers as it arrives, without thinking and tool calls. */
    async *text(): AsyncGenerator<string> {
        for await (const event of this) {
            if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
                yield event.assistantMessageEvent.delta;
            }
        }
    }

    /** @internal */
    collect(message: Message): void {
        this.#messages.push(message);
    }

    /** Settles the run with what the agent said, or else with what the last answer says. @internal */
    settle(outcome: Outcome = {}): void {
        const last = this.#messages.findLast((message): message is AssistantMessage => message.role === "assistant");
        const status = outcome.status ?? statusOf(last, this.isStarted);
        const result: RunResult = {
            status,
            text: last ? textOf(last) : "",
            messages: this.#messages,
            usage: totalUsage(this.#messages),
            ...(last && { stopReason: last.stopReason }),
            durationMs: this.durationMs,
        };
        if (status === "failed") {
            const error = readableError(outcome.error ?? last?.errorMessage ?? "The run failed.");
            this.fail(new RunError(error, result, outcome.retryable));
        } else {
            this.succeed(result);
        }
    }
}

function statusOf(last: AssistantMessage | undefined, isStarted: boolean): RunResult["status"] {
    if (!last) return isStarted ? "aborted" : "handled";
    if (last.stopReason === "error") return "failed";
    return last.stopReason === "aborted" ? "aborted" : "completed";
}

function totalUsage(messages: readonly Message[]): RunUsage {
    const total: RunUsage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: 0 };
    for (const message of messages) {
        if (message.role !== "assistant" || !message.usage) continue;
        const { input, output, cacheRead, cacheWrite, cost } = message.usage;
        total.input += input;
        total.output += output;
        total.cacheRead += cacheRead;
        total.cacheWrite += cacheWrite;
        total.totalTokens += message.usage.totalTokens ?? input + output + cacheRead + cacheWrite;
        total.cost += cost?.total ?? 0;
    }
    return total;
}
