// `session.agent` of pi's SDK, and what `AgentSession` makes of frames.

export const textOf = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));
export const imagesOf = (content) => (typeof content === "string" ? [] : content.filter((part) => part.type === "image"));
export const ignore = () => {};

/** What pi calls `session.agent.state`. Assigning to it changes the agent. */
class AgentState {
	#session;
	#messages = [];
	isStreaming = false;
	streamingMessage = undefined;
	pendingToolCalls = new Set();
	errorMessage = undefined;

	constructor(session) {
		this.#session = session;
	}

	get messages() {
		return this.#messages;
	}
	set messages(given) {
		this.#session.replaceMessages([...given]);
		this.#messages = [...given];
	}
	follow(messages) {
		this.#messages = messages;
	}
	get systemPrompt() {
		return this.#session.systemPrompt;
	}
	set systemPrompt(text) {
		this.#session.setSystemPrompt(text);
	}
	get model() {
		return this.#session.model;
	}
	set model(model) {
		this.#session.setModel(model).catch(ignore);
	}
	get thinkingLevel() {
		return this.#session.thinkingLevel;
	}
	set thinkingLevel(level) {
		this.#session.setThinkingLevel(level);
	}
	get tools() {
		const active = this.#session.getActiveToolNames();
		return this.#session.getAllTools().filter((tool) => active.includes(tool.name));
	}
	set tools(tools) {
		this.#session.setActiveToolsByName(tools.map((tool) => tool.name));
	}
}

const FOREIGN = ["streamFn", "convertToLlm", "transformContext", "beforeToolCall", "afterToolCall", "getApiKey", "onPayload"];

/** What pi calls `session.agent`. */
export class AgentFacade {
	#session;

	constructor(session) {
		this.#session = session;
		this.state = new AgentState(session);
		for (const name of FOREIGN) {
			const set = () => {
				throw new Error(`session.agent.${name} cannot be set in fairlead, whose agent runs in another process. Use an extension.`);
			};
			Object.defineProperty(this, name, { get: () => undefined, set });
		}
	}

	get sessionId() {
		return this.#session.sessionId;
	}
	get signal() {
		return this.#session.runSignal;
	}
	subscribe = (listener) => this.#session.subscribe(listener);
	prompt = (given, images) => this.#session.prompt(typeof given === "string" ? given : textOf([given].flat().at(-1).content), { images });
	steer = ({ content }) => void this.#session.steer(textOf(content), imagesOf(content)).catch(ignore);
	followUp = ({ content }) => void this.#session.followUp(textOf(content), imagesOf(content)).catch(ignore);
	abort = () => void this.#session.abort().catch(ignore);
	waitForIdle = () => this.#session.waitForIdle();
	hasQueuedMessages = () => this.#session.pendingMessageCount > 0;
	clearAllQueues = () => void this.#session.clearQueue();
	setSystemPrompt = (text) => this.#session.setSystemPrompt(text);
	setModel = (model) => void this.#session.setModel(model).catch(ignore);
	setThinkingLevel = (level) => this.#session.setThinkingLevel(level);
	replaceMessages = (messages) => (this.state.messages = messages);
}

const BLOCKS = { text: { type: "text", text: "" }, thinking: { type: "thinking", thinking: "" }, toolcall: { type: "toolCall", arguments: {} } };

/** A piece of an answer with the message so far, which grows in place, as in pi. */
export function withMessage(frame, state) {
	const { assistantMessageEvent: part, usage } = frame;
	const message = (state.streamingMessage ??= { role: "assistant", content: [] });
	if (usage) message.usage = usage;
	const [kind, step] = part.type.split("_");
	if (step && BLOCKS[kind]) {
		const { content } = message;
		const block = (content[part.contentIndex] ??= { ...BLOCKS[kind] });
		if (step === "delta" && kind !== "toolcall") block[kind] += part.delta;
		else if (step === "end" && kind === "toolcall") Object.assign(block, part.toolCall);
		else if (step === "end") block[kind] = part.content ?? block[kind];
		else if (kind === "toolcall") Object.assign(block, part.toolCall ?? {}, part.id ? { id: part.id } : {}, part.toolName ? { name: part.toolName } : {});
	}
	return { type: "message_update", message, assistantMessageEvent: { ...part, partial: message } };
}

/** Show the user of a session something. */
export function showToUser(ui, frame) {
	switch (frame.method) {
		case "notify":
			return ui?.notify?.(frame.message, frame.notifyType);
		case "setStatus":
			return ui?.setStatus?.(frame.statusKey, frame.statusText);
		case "setWidget":
			return ui?.setWidget?.(frame.widgetKey, frame.widgetLines, { placement: frame.widgetPlacement });
		case "setTitle":
			return ui?.setTitle?.(frame.title);
		case "set_editor_text":
			return ui?.setEditorText?.(frame.text);
	}
}
