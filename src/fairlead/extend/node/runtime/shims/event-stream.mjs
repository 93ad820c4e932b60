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

	/** Report a finished message as if it arrived now. */
	replay(message) {
		const partial = { ...message, content: [] };
		this.push({ type: "start", partial });
		message.content.forEach((block, contentIndex) => {
			partial.content.push(block);
			const at = { contentIndex, partial };
			if (block.type === "text") {
				this.push({ type: "text_start", ...at });
				this.push({ type: "text_delta", delta: block.text, ...at });
				this.push({ type: "text_end", content: block.text, ...at });
			} else if (block.type === "thinking") {
				this.push({ type: "thinking_start", ...at });
				this.push({ type: "thinking_delta", delta: block.thinking, ...at });
				this.push({ type: "thinking_end", content: block.thinking, ...at });
			} else {
				this.push({ type: "toolcall_start", ...at });
				this.push({ type: "toolcall_end", toolCall: block, ...at });
			}
		});
		if (message.stopReason === "error" || message.stopReason === "aborted") {
			this.push({ type: "error", reason: message.stopReason, error: message });
		} else {
			this.push({ type: "done", reason: message.stopReason, message });
		}
		this.end();
	}

	/** Report that a call of a model failed. */
	fail(error, model) {
		this.replay({
			role: "assistant",
			content: [],
			api: model?.api ?? "unknown",
			provider: model?.provider ?? "unknown",
			model: model?.id ?? "unknown",
			usage: emptyUsage(),
			stopReason: "error",
			errorMessage: error.message,
			timestamp: Date.now(),
		});
	}
}
