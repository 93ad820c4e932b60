// Requests that wait for their response.

import { CommandTimeoutError } from "./errors.js";

export interface RequestOptions {
    /** Milliseconds to wait for the response. `Infinity` waits as long as it takes. */
    timeoutMs?: number;
    /** Stops waiting. The command itself may still take effect. */
    signal?: AbortSignal;
}

/** Timers with a longer delay fire at once. */
export const LONGEST_TIMER = 2 ** 31 - 1;

interface Request {
    name: string;
    resolve: (data: unknown) => void;
    reject: (error: Error) => void;
}

/** The requests by id. A response to a request that no longer waits is ignored. */
export class PendingRequests {
    #requests = new Map<string, Request>();

    get size(): number {
        return this.#requests.size;
    }

    /** Adds a request and returns the promise of its response. */
    add(id: string, name: string, timeoutMs: number, signal?: AbortSignal): Promise<unknown> {
        return new Promise((resolve, reject) => {
            if (signal?.aborted) return reject(signal.reason as Error);
            let timer: ReturnType<typeof setTimeout> | undefined;
            const abandon = (): void => void this.reject(id, signal!.reason as Error);
            const over = (): void => {
                clearTimeout(timer);
                signal?.removeEventListener("abort", abandon);
            };
            this.#requests.set(id, {
                name,
                resolve: (data) => (over(), resolve(data)),
                reject: (error) => (over(), reject(error)),
            });
            signal?.addEventListener("abort", abandon);
            if (timeoutMs <= LONGEST_TIMER) {
                timer = setTimeout(() => this.reject(id, new CommandTimeoutError(name, timeoutMs)), timeoutMs);
            }
        });
    }

    resolve(id: string, data: unknown): boolean {
        const request = this.#take(id);
        request?.resolve(data);
        return request !== undefined;
    }

    reject(id: string, error: Error): boolean {
        const request = this.#take(id);
        request?.reject(error);
        return request !== undefined;
    }

    /** The id of the oldest request with a name, or of the oldest at all. Agents respond in order, except to long commands. */
    oldest(name?: string, skip?: ReadonlySet<string>): string | undefined {
        for (const [id, request] of this.#requests) {
            if (name === undefined ? !skip?.has(request.name) : request.name === name) return id;
        }
        return undefined;
    }

    rejectAll(error: Error): void {
        for (const id of [...this.#requests.keys()]) this.reject(id, error);
    }

    #take(id: string): Request | undefined {
        const request = this.#requests.get(id);
        this.#requests.delete(id);
        return request;
    }
}
