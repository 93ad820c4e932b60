// Events for any number of readers. None is dropped; instead the client stops reading from the agent.

/** The events from the moment it was opened. Close it by leaving the loop, or with `return()`. */
export class EventStream<E> implements AsyncIterableIterator<E> {
    #items: { event: E; size: number }[] = [];
    #first = 0;
    #size = 0;
    #ended = false;
    #error: Error | undefined;
    #waiting: { resolve: (result: IteratorResult<E>) => void; reject: (error: Error) => void }[] = [];
    #changed: () => void;
    #left: () => void;

    /** @internal */
    constructor(changed: () => void, left: () => void) {
        this.#changed = changed;
        this.#left = left;
    }

    /** What is buffered, in characters of JSON. */
    get size(): number {
        return this.#size;
    }

    /** @internal */
    push(event: E, size: number): void {
        if (this.#ended) return;
        const reader = this.#waiting.shift();
        if (reader) return reader.resolve({ done: false, value: event });
        this.#items.push({ event, size });
        this.#size += size;
    }

    /** Ends the stream after the events that are buffered. @internal */
    end(error?: Error): void {
        if (this.#ended) return;
        this.#ended = true;
        this.#error = error;
        for (const reader of this.#waiting.splice(0)) this.#finish(reader.resolve, reader.reject);
        this.#left();
    }

    next(): Promise<IteratorResult<E>> {
        const item = this.#items[this.#first];
        if (item) {
            this.#first += 1;
            if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
                this.#items.splice(0, this.#first);
                this.#first = 0;
            } else {
                this.#items[this.#first - 1] = undefined!; // so that it can be freed
            }
            this.#size -= item.size;
            this.#changed();
            return Promise.resolve({ done: false, value: item.event });
        }
        return new Promise((resolve, reject) => {
            if (this.#ended) this.#finish(resolve, reject);
            else this.#waiting.push({ resolve, reject });
        });
    }

    /** Closes the stream and forgets what is buffered. */
    return(): Promise<IteratorResult<E>> {
        this.#items = [];
        this.#first = 0;
        this.#size = 0;
        this.#error = undefined;
        this.end();
        return Promise.resolve({ done: true, value: undefined });
    }

    [Symbol.asyncIterator](): this {
        return this;
    }

    /** An error is thrown once; after that the stream has just ended. */
    #finish(resolve: (result: IteratorResult<E>) => void, reject: (error: Error) => void): void {
        const error = this.#error;
        this.#error = undefined;
        if (error) reject(error);
        else resolve({ done: true, value: undefined });
    }
}

/** Gives each event to all open streams. */
export class Broadcast<E> {
    #streams = new Set<EventStream<E>>();
    #room: (() => void)[] = [];

    constructor(readonly limit: number) {}

    open(): EventStream<E> {
        const stream: EventStream<E> = new EventStream<E>(
            () => this.#check(),
            () => {
                this.#streams.delete(stream);
                this.#check();
            },
        );
        this.#streams.add(stream);
        return stream;
    }

    push(event: E, size: number): void {
        for (const stream of this.#streams) stream.push(event, size);
    }

    end(error?: Error): void {
        for (const stream of [...this.#streams]) stream.end(error);
    }

    get isFull(): boolean {
        for (const stream of this.#streams) if (stream.size >= this.limit) return true;
        return false;
    }

    /** Resolves when the slowest reader has caught up, or at `wake`. */
    room(): Promise<void> {
        return new Promise((resolve) => this.#room.push(resolve));
    }

    wake(): void {
        for (const resolve of this.#room.splice(0)) resolve();
    }

    #check(): void {
        if (this.#room.length && !this.isFull) this.wake();
    }
}
