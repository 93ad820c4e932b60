// The stream in which pi's packages report how a model's answer arrives: an async iterator of events with a final result.

const NO_COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };

export const emptyUsage = () => ({ input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { ...NO_COST } });

export class EventStream {
	constructor(isComplete, extractResult) {
		this.queue = [];
		this.waiting = [];
		this.done = false;
		this.isComplete = isComplete;
		this.extractResult = extractResult;
		this.finalResult = new Promise((resolve) => {
			this.resolveFinal = resolve;
		});
	}

	push(event) {
		if (this.done) return;
		if (this.isComplete(event)) {
			this.done = true;
			this.resolveFinal(this.extractResult(event));
		}
		const next = this.waiting.shift();
		if (next) next({ value: event, done: false });
		else this.queue.push(event);
	}

	end(result) {
		this.done = true;
		if (result !== undefined) this.resolveFinal(result);
		for (const next of this.waiting.splice(0)) next({ value: undefined, done: true });
	}

	async *[Symbol.asyncIterator]() {
		for (;;) {
			if (this.queue.length) {
				yield this.queue.shift();
			} else if (this.done) {
				return;
			} else {
				const { value, done } = await new Promise((resolve) => this.waiting.push(resolve));
				if (done) return;
				yield value;
			}
		}
	}

	result() {
		return this.finalResult;
	}
}

export class AssistantMessageEventStream extends EventStream {
	constructor() {
		super(
			(event) => event.type === "done" || event.type === "error",
			(event) => (event.type === "done" ? event.message : event.error),
		);
	}

	/** Report the end of an answer. */
	finish(message) {
		if (message.stopReason === "error" || message.stopReason === "aborted") {
			this.push({ type: "error", reason: message.stopReason, error: message });
		} else {
			this.push({ type: "done", reason: message.stopReason, message });
		}
		this.end();
	}

	/** Report that a call of a model failed before there was an answer. */
	fail(error, model, aborted = false) {
		this.finish({
			role: "assistant",
			content: [],
			api: model?.api ?? "unknown",
			provider: model?.provider ?? "unknown",
			model: model?.id ?? "unknown",
			usage: emptyUsage(),
			stopReason: aborted ? "aborted" : "error",
			errorMessage: aborted ? "Request was aborted" : error.message,
			timestamp: Date.now(),
		});
	}
}
