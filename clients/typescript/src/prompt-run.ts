// What the run of a prompt is in every protocol: a promise of its result, and its events.

import { ConnectionClosedError } from "./errors.js";
import type { EventStream } from "./events.js";

/** A run with a result of type R and events of type E. */
export abstract class PromptRun<R, E> implements PromiseLike<R>, AsyncIterable<E> {
    /** Resolves when the agent has accepted the prompt. */
    readonly accepted: Promise<void>;
    /** @internal */
    isAccepted = false;
    #accept!: () => void;
    #refuse!: (error: Error) => void;
    #resolve!: (result: R) => void;
    #reject!: (error: Error) => void;
    #settled: Promise<R>;
    #isSettled = false;
    #error: Error | undefined;
    #streams = new Set<EventStream<E>>();
    #startedAt = Date.now();
    #open: () => EventStream<E>;
    #abort: () => Promise<unknown>;
    #onSettled = (): void => {};

    /** @internal */
    constructor(open: () => EventStream<E>, abort: () => Promise<unknown>) {
        this.#open = open;
        this.#abort = abort;
        this.accepted = new Promise((resolve, reject) => {
            this.#accept = resolve;
            this.#refuse = reject;
        });
        this.accepted.catch(() => {}); // the result rejects, too
        this.#settled = new Promise((resolve, reject) => {
            this.#resolve = resolve;
            this.#reject = reject;
        });
    }

    then<A = R, B = never>(
        fulfilled?: ((result: R) => A | PromiseLike<A>) | null,
        rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
    ): Promise<A | B> {
        return this.#settled.then(fulfilled, rejected);
    }

    catch<B = never>(rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<R | B> {
        return this.#settled.catch(rejected);
    }

    finally(callback?: (() => void) | null): Promise<R> {
        return this.#settled.finally(callback);
    }

    /** The events from now on, until the run has settled. */
    [Symbol.asyncIterator](): EventStream<E> {
        this.#settled.catch(() => {}); // the iterator throws the error
        const stream = this.#open();
        if (this.#isSettled) stream.end(this.#error);
        else this.#streams.add(stream);
        return stream;
    }

    /** Aborts the run. The result keeps what there was until then. */
    async abort(): Promise<void> {
        await this.accepted.catch(() => {}); // some agents lose an abort that comes right behind its prompt
        if (!this.#isSettled) await this.#abort();
    }

    /** Aborts the run when a signal fires. @internal */
    abortOn(signal: AbortSignal): void {
        const abort = (): void => void this.abort().catch(() => {});
        if (signal.aborted) abort();
        else signal.addEventListener("abort", abort);
        const over = (): void => signal.removeEventListener("abort", abort);
        this.#onSettled = over;
    }

    get isSettled(): boolean {
        return this.#isSettled;
    }

    /** Milliseconds since the prompt was sent. @internal */
    get durationMs(): number {
        return Date.now() - this.#startedAt;
    }

    /** @internal */
    accept(): void {
        this.isAccepted = true;
        this.#accept();
    }

    /** Settles the run with its result. @internal */
    succeed(result: R): void {
        if (this.#isSettled) return;
        this.#end();
        this.#resolve(result);
    }

    /** Settles the run with an error. @internal */
    fail(error: Error): void {
        if (this.#isSettled) return;
        if (error instanceof ConnectionClosedError && error.isOwn) this.#settled.catch(() => {}); // no surprise for the host
        this.#error = error;
        this.#refuse(error);
        this.#end(error);
        this.#reject(error);
    }

    #end(error?: Error): void {
        this.#isSettled = true;
        this.#accept();
        this.#onSettled();
        for (const stream of this.#streams) stream.end(error);
        this.#streams.clear();
    }
}
