// `AgentSession`: a session of pi's SDK. An agent in another process does the work. This object sends it commands, follows its
// events, and keeps a copy of its state, because most of pi's getters are synchronous.

import { VERSION } from "../shims/agent-facts.mjs";
import { clampThinkingLevel, getSupportedThinkingLevels } from "../shims/ai.mjs";
import { calculateContextTokens, estimateTokens } from "../shims/transcript.mjs";
import { AgentFacade, ignore, imagesOf, showToUser, textOf, withMessage } from "./agent-facade.mjs";
import { startChild } from "./child.mjs";
import { launchOptions } from "./launching.mjs";

const OPENING = ["get_state", "get_messages", "get_entries", "get_tools"];
/** Events before which the entries of the session are fetched, so that listeners find them. */
const WITH_ENTRIES = new Set(["message_end", "compaction_end", "entry_appended", "session_info_changed", "thinking_level_changed", "agent_settled"]);
const QUESTIONS = new Set(["select", "confirm", "input", "editor"]);


/** Agents that are ending, by the file of their session, which another agent may use then. */
const ending = new Map();

export class AgentSession {
	#listeners = new Set();
	#options;
	#child;
	#lost;
	#isDisposed = false;
	/** Whether the agent has to be started again before the next command, because it reads what has changed only at its start. */
	#isStale = false;
	#restarting;
	#frames = [];
	#isEmitting = false;
	#waiting = [];
	#calls = new Map();
	#dialogs = new Map();
	#bindings = {};
	#tools = [];
	#steering = [];
	#followUp = [];
	#lastEntry = null;
	#run = new AbortController();
	/** How many commands of the user are running. */
	#commands = 0;

	/** Use `createAgentSession`, which also starts the agent. */
	constructor(options) {
		this.#options = options;
		const { sessionManager, settingsManager, resourceLoader, modelRuntime, modelRegistry, scopedModels = [] } = options;
		Object.assign(this, { sessionManager, settingsManager, resourceLoader, modelRuntime, modelRegistry, scopedModels });
		Object.assign(this, { model: options.model, thinkingLevel: options.thinkingLevel ?? "off", isCompacting: false, retryAttempt: 0 });
		Object.assign(this, { steeringMode: "one-at-a-time", followUpMode: "one-at-a-time", autoCompactionEnabled: true, autoRetryEnabled: true });
		this.systemPrompt = resourceLoader.getSystemPrompt?.() ?? "";
		this.agent = new AgentFacade(this);
		this.hooks = options.hooks;
		this.extensionRunner = options.hooks.runner;
		options.hooks.session = this;
	}

	// The agent

	async start() {
		const manager = this.sessionManager;
		if (manager.sessionFile) await ending.get(manager.sessionFile);
		await this.hooks.listen();
		const { args, env, forget } = launchOptions({ ...this.#options, model: this.model, systemPrompt: this.systemPrompt });
		const tools = this.hooks.hostTools();
		try {
			const answers = await startChild({
				...{ args, env, cwd: this.#options.cwd },
				opening: [...(tools.length ? [{ type: "set_host_tools", tools }] : []), ...OPENING.map((type) => ({ type }))],
				onChild: (child) => (this.#child = child),
				onFrame: (frame, child) => this.#receive(frame, child),
				onEnd: (error, child) => child === this.#child && this.#end(error),
			});
			const [state, { messages }, entries, listed] = answers.slice(-OPENING.length);
			this.#follow(state);
			this.#listTools(listed);
			this.agent.state.follow(messages);
			manager.writer = this;
			if (state.sessionFile) Object.assign(manager, { sessionFile: state.sessionFile, isSaved: true });
			manager.load([{ ...manager.header, ...(manager.persist ? { id: state.sessionId } : {}) }, ...entries.entries], entries.leafId);
			this.#lastEntry = entries.entries.at(-1)?.id ?? null;
		} finally {
			forget();
		}
	}

	#follow(state) {
		const { model, thinkingLevel, steeringMode, followUpMode, autoCompactionEnabled, isCompacting } = state;
		Object.assign(this, { model: model ?? undefined, thinkingLevel, steeringMode, followUpMode, autoCompactionEnabled, isCompacting });
	}

	#command(command, onAnswer = undefined) {
		if (this.#isDisposed) return Promise.reject(new Error("The session has been disposed."));
		if (this.#lost) return Promise.reject(this.#lost);
		if (this.#isStale && !this.isStreaming && !this.#restarting) {
			this.#restarting = this.#restart().finally(() => (this.#restarting = undefined));
		}
		if (this.#restarting) return this.#restarting.then(() => this.#command(command, onAnswer));
		return this.#child.request(command, onAnswer);
	}

	async #restart() {
		this.#isStale = false;
		const before = this.#child;
		const { thinkingLevel, autoCompactionEnabled, autoRetryEnabled, steeringMode, followUpMode } = this;
		const tools = this.#tools;
		this.#child = undefined;
		await before.end();
		this.sessionManager.flush();
		try {
			this.#options.thinkingLevel = thinkingLevel;
			await this.start();
			await this.#restore({ autoCompactionEnabled, autoRetryEnabled, steeringMode, followUpMode, tools });
		} catch (error) {
			this.#lost ??= error;
			throw error;
		}
	}

	/** Tell an agent that was started again what was set before. The program may have set it for this session alone. */
	async #restore({ autoCompactionEnabled, autoRetryEnabled, steeringMode, followUpMode, tools }) {
		const active = new Map(tools.map((tool) => [tool.name, tool.active]));
		const before = this.#tools;
		this.#tools = before.map((tool) => ({ ...tool, active: active.get(tool.name) ?? tool.active }));
		// Tools that come later, such as those of MCP servers, are active unless the program has chosen among all.
		const hasChosen = this.#tools.some((tool, index) => tool.active !== before[index].active);
		Object.assign(this, { autoCompactionEnabled, steeringMode, followUpMode });
		const commands = [
			{ type: "set_auto_compaction", enabled: autoCompactionEnabled },
			...(autoRetryEnabled ? [] : [{ type: "set_auto_retry", enabled: false }]),
			{ type: "set_steering_mode", mode: steeringMode },
			{ type: "set_follow_up_mode", mode: followUpMode },
			...(hasChosen ? [{ type: "set_active_tools", tools: this.getActiveToolNames() }] : []),
		];
		await Promise.all(commands.map((command) => this.#child.request(command)));
	}

	/** Something was appended to the session here. The agent gets it before the next command. */
	onAppended() {
		this.#isStale = true;
	}

	#end(error) {
		this.#lost = error;
		this.isCompacting = false;
		this.#stopCalls();
		if (!this.isStreaming) return this.#finish();
		// After the events that have arrived before.
		this.#frames.push({ type: "agent_end", messages: this.messages, willRetry: false }, { type: "agent_settled", aborted: true });
		return this.#emitFrames();
	}

	/** End what waits for the end of the run. */
	#finish() {
		for (const { resolve, reject } of this.#waiting.splice(0)) this.#lost ? reject(this.#lost) : resolve();
	}

	#stopCalls() {
		this.#run.abort();
		for (const call of [...this.#calls.values(), ...this.#dialogs.values()]) call.abort();
	}

	dispose() {
		if (this.#isDisposed) return;
		this.#isDisposed = true;
		this.#listeners.clear();
		const manager = this.sessionManager;
		if (manager.writer === this) manager.writer = undefined;
		this.#stopCalls();
		this.hooks.close();
		const error = new Error("The session has been disposed.");
		for (const { reject } of this.#waiting.splice(0)) reject(error);
		const child = this.#child;
		this.#child = undefined;
		const ended = child?.end() ?? Promise.resolve();
		const { sessionFile } = manager;
		if (!sessionFile) return;
		ending.set(sessionFile, ended);
		ended.then(() => ending.get(sessionFile) === ended && ending.delete(sessionFile));
	}

	// Events

	subscribe(listener) {
		const mine = (event) => listener(event);
		this.#listeners.add(mine);
		return () => this.#listeners.delete(mine);
	}

	#emit(event) {
		for (const listener of [...this.#listeners]) {
			try {
				listener(event);
			} catch (error) {
				console.error(`A listener of ${event.type} failed:`, error);
			}
		}
	}

	#receive(frame, child) {
		if (child !== this.#child) return;
		switch (frame.type) {
			case "extension_ui_request":
				this.#ask(frame, child).catch(ignore);
				return;
			case "host_tool_call":
				this.#runTool(frame, child).catch(ignore);
				return;
			case "host_tool_cancel":
				this.#calls.get(frame.targetId)?.abort();
				return;
			case "extension_error":
				this.#bindings.onError?.({ extensionPath: frame.extensionPath, event: frame.event, error: frame.error });
				return;
			default:
				this.#frames.push(frame);
				this.#emitFrames();
		}
	}

	async #emitFrames() {
		if (this.#isEmitting) return;
		this.#isEmitting = true;
		while (this.#frames.length) {
			const frame = this.#frames.shift();
			if (WITH_ENTRIES.has(frame.type)) await this.#fetch(frame).catch(ignore); // without the agent, what is known stays
			this.#apply(frame);
		}
		this.#isEmitting = false;
	}

	async #fetch({ type }) {
		const child = this.#child;
		const news = child.request({ type: "get_entries", ...(this.#lastEntry ? { since: this.#lastEntry } : {}) });
		const messages = type === "compaction_end" ? child.request({ type: "get_messages" }) : undefined;
		this.#take(await news);
		if (messages) this.agent.state.follow((await messages).messages);
	}

	#take({ entries, leafId }) {
		this.sessionManager.follow(entries, leafId);
		this.#lastEntry = entries.at(-1)?.id ?? this.#lastEntry;
	}

	#apply(frame) {
		const { state } = this.agent;
		switch (frame.type) {
			case "agent_start":
				this.#setStreaming(true);
				break;
			case "message_start":
				if (frame.message.role === "assistant") state.streamingMessage = frame.message;
				break;
			case "message_update":
				this.#emit(withMessage(frame, state));
				return;
			case "message_end":
				state.streamingMessage = undefined;
				state.messages.push(frame.message);
				if (frame.message.role === "assistant") state.errorMessage = frame.message.errorMessage;
				break;
			case "tool_execution_start":
				state.pendingToolCalls.add(frame.toolCallId);
				break;
			case "tool_execution_end":
				state.pendingToolCalls.delete(frame.toolCallId);
				break;
			case "auto_retry_start":
				this.retryAttempt = frame.attempt;
				break;
			case "auto_retry_end":
				this.retryAttempt = 0;
				break;
			case "queue_update":
				[this.#steering, this.#followUp] = [frame.steering, frame.followUp];
				break;
			case "thinking_level_changed":
				this.thinkingLevel = frame.level;
				break;
			case "compaction_start":
				this.isCompacting = true;
				break;
			case "compaction_end":
				this.isCompacting = false;
				break;
			case "agent_settled":
				this.#setStreaming(false);
				break;
		}
		this.#emit(frame);
		if (frame.type === "agent_settled") this.#finish();
	}

	#setStreaming(isStreaming) {
		this.agent.state.isStreaming = isStreaming;
		if (isStreaming && this.#run.signal.aborted) this.#run = new AbortController();
		this.#child?.setBusy(isStreaming);
	}

	get runSignal() {
		return this.isStreaming ? this.#run.signal : undefined;
	}

	#settled() {
		const done = new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
		done.catch(ignore);
		return done;
	}

	// The user

	async #ask(frame, child) {
		const { id, method, title, options, message, placeholder, prefill } = frame;
		if (method === "cancel") return this.#dialogs.get(frame.targetId)?.abort();
		const ui = this.#bindings.uiContext;
		if (!QUESTIONS.has(method)) return showToUser(ui, frame);
		// Without a user of its own, what the session asks goes to the user of this agent, if there is one.
		const asked = ui ?? this.hooks.parentUi();
		const control = new AbortController();
		this.#dialogs.set(id, control);
		const opts = { signal: control.signal, timeout: frame.timeout };
		let value;
		try {
			if (method === "select") value = await asked?.select(title, options, opts);
			else if (method === "confirm") value = await asked?.confirm(title, message, opts);
			else if (method === "input") value = await asked?.input(title, placeholder, opts);
			else value = await asked?.editor(title, prefill);
		} finally {
			this.#dialogs.delete(id);
			const answer = value === undefined || value === null ? { cancelled: true } : method === "confirm" ? { confirmed: value === true } : { value: String(value) };
			child.send({ type: "extension_ui_response", id, ...answer });
		}
	}

	async bindExtensions(bindings = {}) {
		this.#bindings = { ...this.#bindings, ...bindings };
	}

	get uiContext() {
		return this.#bindings.uiContext;
	}

	// Tools

	async #runTool({ id, toolCallId, toolName, arguments: args }, child) {
		const control = new AbortController();
		this.#calls.set(id, control);
		const onUpdate = (partialResult) => this.#calls.has(id) && child.send({ type: "host_tool_update", id, partialResult });
		let answer;
		try {
			answer = await this.hooks.runTool(toolName, toolCallId, args, control.signal, onUpdate);
			JSON.stringify(answer);
		} catch (error) {
			answer = { result: { content: [{ type: "text", text: String(error?.message ?? error) }], details: {} }, isError: true };
		} finally {
			this.#calls.delete(id);
		}
		child.send({ type: "host_tool_result", id, ...answer });
	}

	#listTools({ tools }) {
		this.#tools = tools.filter(({ name }) => this.hooks.isAllowed(name));
	}

	/** Tell the agent that there are other tools in this process. */
	async offerTools() {
		await this.#command({ type: "set_host_tools", tools: this.hooks.hostTools() });
		this.#listTools(await this.#command({ type: "get_tools" }));
	}

	getAllTools = () => this.#tools.map(({ active, label, ...tool }) => ({ sourceInfo: { path: `<builtin:${tool.name}>`, source: "builtin", scope: "temporary", origin: "top-level" }, ...tool }));
	getActiveToolNames = () => this.#tools.filter((tool) => tool.active).map((tool) => tool.name);
	getCallableToolNames = () => this.getActiveToolNames();
	getToolDefinition = (name) => this.hooks.tools.get(name) ?? this.#tools.find((tool) => tool.name === name);

	setActiveToolsByName(names) {
		const known = names.filter((name) => this.#tools.some((tool) => tool.name === name));
		this.#tools = this.#tools.map((tool) => ({ ...tool, active: known.includes(tool.name) }));
		this.#tell({ type: "set_active_tools", tools: known });
	}

	// Prompts

	async prompt(text, options = {}) {
		const { images, streamingBehavior, preflightResult } = options;
		let settled;
		const command = { type: "prompt", message: text, ...(images?.length ? { images } : {}), ...(streamingBehavior ? { streamingBehavior } : {}) };
		// Until 1.0, pi told whether the prompt was accepted. Since then it tells what became of it.
		const isOld = VERSION.startsWith("0.");
		let failure;
		const onAnswer = ({ disposition }) => {
			if (disposition === "started") {
				settled = this.#settled();
				this.#setStreaming(true);
			}
			// Before the events of the run.
			try {
				preflightResult?.(isOld || disposition);
			} catch (error) {
				failure = error;
			}
		};
		try {
			await this.#command(command, onAnswer);
		} catch (error) {
			if (isOld) preflightResult?.(false);
			throw error;
		}
		if (failure) throw failure;
		await settled;
	}

	async steer(text, images) {
		await this.#command({ type: "steer", message: text, ...(images?.length ? { images } : {}) });
		return "queued";
	}

	async followUp(text, images) {
		await this.#command({ type: "follow_up", message: text, ...(images?.length ? { images } : {}) });
		return "queued";
	}

	async sendUserMessage(content, { deliverAs } = {}) {
		await this.prompt(textOf(content), { images: imagesOf(content), streamingBehavior: this.isStreaming ? (deliverAs ?? "steer") : undefined });
	}

	async sendCustomMessage(message, options = {}) {
		if (this.hooks.isConnected) return this.hooks.callApi("sendMessage", [message, options]);
		if (options.triggerTurn) throw new Error("sendCustomMessage() with triggerTurn needs a resource loader with extensionFactories in fairlead.");
		const { customType, content, display, details } = message;
		this.sessionManager.appendCustomMessageEntry(customType, content, display, details);
		return undefined;
	}

	clearQueue() {
		const cleared = { steering: this.#steering, followUp: this.#followUp };
		[this.#steering, this.#followUp] = [[], []];
		if (cleared.steering.length || cleared.followUp.length) this.#tell({ type: "clear_queue" });
		return cleared;
	}

	get pendingMessageCount() {
		return this.#steering.length + this.#followUp.length;
	}
	getSteeringMessages = () => this.#steering;
	getFollowUpMessages = () => this.#followUp;

	async abort() {
		if (!this.#child || this.#child.ended) return;
		this.#run.abort();
		await this.#child.request({ type: "abort" }).catch(ignore);
		await this.waitForIdle();
	}

	async waitForIdle() {
		if (this.isStreaming) await this.#settled().catch(ignore);
	}

	async executeBash(command, onChunk, options = {}) {
		this.#commands += 1;
		const stop = onChunk ? this.subscribe((event) => event.type === "bash_execution_update" && onChunk(event.delta)) : ignore;
		try {
			return await this.#command({ type: "bash", command, ...(options.excludeFromContext ? { excludeFromContext: true } : {}) });
		} finally {
			stop();
			this.#commands -= 1;
		}
	}
	get isBashRunning() {
		return this.#commands > 0;
	}
	/** The agent adds the output of commands to the conversation by itself, after the run. */
	get hasPendingBashMessages() {
		return false;
	}
	abortBash = () => this.#tell({ type: "abort_bash" });

	// State

	get state() {
		return this.agent.state;
	}
	get messages() {
		return this.agent.state.messages;
	}
	get isStreaming() {
		return this.agent.state.isStreaming;
	}
	get isIdle() {
		return !this.isStreaming && !this.isCompacting;
	}
	get isRetrying() {
		return this.retryAttempt > 0;
	}
	get sessionId() {
		return this.sessionManager.getSessionId();
	}
	get sessionFile() {
		return this.sessionManager.getSessionFile();
	}
	get sessionName() {
		return this.sessionManager.getSessionName();
	}
	get promptTemplates() {
		return this.resourceLoader.getPrompts?.().prompts ?? [];
	}

	/** Send a command of a synchronous method. If it fails, listeners of errors get the reason. */
	#tell(command) {
		this.#command(command).catch((error) => this.#bindings.onError?.({ extensionPath: "<session>", event: command.type, error: error.message }));
	}

	async setModel(model, { persist } = {}) {
		await this.#command({ type: "set_model", provider: model.provider, modelId: model.id, ...(persist ? { persist } : {}) });
		this.#follow(await this.#command({ type: "get_state" }));
	}

	async cycleModel(direction, { persist } = {}) {
		const data = await this.#command({ type: "cycle_model", ...(direction ? { direction } : {}), ...(persist ? { persist } : {}) });
		if (data) [this.model, this.thinkingLevel] = [data.model, data.thinkingLevel];
		return data ?? undefined;
	}

	setThinkingLevel(level, { persist } = {}) {
		this.thinkingLevel = this.model ? clampThinkingLevel(this.model, level) : level;
		this.#tell({ type: "set_thinking_level", level: this.thinkingLevel, ...(persist ? { persist } : {}) });
	}

	cycleThinkingLevel(options) {
		const levels = this.getAvailableThinkingLevels();
		if (levels.length < 2) return undefined;
		this.setThinkingLevel(levels[(levels.indexOf(this.thinkingLevel) + 1) % levels.length], options);
		return this.thinkingLevel;
	}

	getAvailableThinkingLevels = () => (this.model ? getSupportedThinkingLevels(this.model) : ["off"]);
	supportsThinking = () => Boolean(this.model?.reasoning);
	setScopedModels = (models) => (this.scopedModels = models);

	setSteeringMode(mode) {
		this.steeringMode = mode;
		this.#tell({ type: "set_steering_mode", mode });
	}
	setFollowUpMode(mode) {
		this.followUpMode = mode;
		this.#tell({ type: "set_follow_up_mode", mode });
	}
	setAutoCompactionEnabled(enabled) {
		this.autoCompactionEnabled = enabled;
		this.#tell({ type: "set_auto_compaction", enabled });
	}
	setAutoRetryEnabled(enabled) {
		this.autoRetryEnabled = enabled;
		this.#tell({ type: "set_auto_retry", enabled });
	}
	setSessionName = (name) => this.#tell({ type: "set_session_name", name });
	abortRetry = () => this.#tell({ type: "abort_retry" });
	abortCompaction = () => this.#tell({ type: "abort" });
	abortBranchSummary = () => this.#tell({ type: "abort" });

	setSystemPrompt(text) {
		this.systemPrompt = text;
		this.#isStale = true;
	}

	/** Have other messages in the context. They are the entries of the session from now on. */
	replaceMessages(messages) {
		if (this.sessionManager.persist) throw new Error("session.agent.state.messages can only be set in fairlead if the session is in memory.");
		const { header } = this.sessionManager;
		this.sessionManager.writer = undefined;
		this.sessionManager.load([header]);
		for (const message of messages) {
			if (message.role === "custom") this.sessionManager.appendCustomMessageEntry(message.customType, message.content, message.display, message.details);
			else if (message.role === "branchSummary") this.sessionManager.append({ type: "branch_summary", fromId: message.fromId, summary: message.summary });
			else if (message.role !== "system") this.sessionManager.appendMessage(message.role === "compactionSummary" ? { ...message, role: "user", content: message.summary } : message);
		}
		this.#isStale = true;
	}

	refreshContext = ignore;
	hasExtensionHandlers = (event) => this.extensionRunner.hasHandlers(event);

	// The conversation

	async compact(customInstructions) {
		return this.#command({ type: "compact", ...(customInstructions ? { customInstructions } : {}) });
	}

	async navigateTree(targetId, { summarize, customInstructions, label } = {}) {
		const moved = await this.#command({ type: "navigate_tree", targetId, summarize: Boolean(summarize), ...(customInstructions ? { customInstructions } : {}) });
		if (label && !moved.cancelled) await this.#command({ type: "set_label", targetId, label });
		await this.#fetch({ type: "compaction_end" });
		const summaryEntry = this.sessionManager.getLeafEntry();
		return { ...moved, ...(summaryEntry?.type === "branch_summary" ? { summaryEntry } : {}) };
	}

	/** Read settings, extensions, skills and prompts again. The inline extensions are created again, too, as in pi. */
	async reload() {
		if (this.isStreaming) throw new Error("Wait for the current response to finish before reloading.");
		await this.settingsManager.reload?.();
		await this.resourceLoader.reload?.();
		this.hooks.inline = this.resourceLoader.inline ?? [];
		// What the agent passes to this process is agreed at its start.
		this.#isStale = true;
		await this.#command({ type: "get_state" });
	}

	async exportToHtml(outputPath) {
		return (await this.#command({ type: "export_html", ...(outputPath ? { outputPath } : {}) })).path;
	}

	getLastAssistantText() {
		const last = this.messages.findLast((message) => message.role === "assistant" && (message.stopReason !== "aborted" || message.content.length));
		return last ? textOf(last.content.filter((part) => part.type === "text")).trim() || undefined : undefined;
	}

	getUserMessagesForForking = () =>
		this.sessionManager.getEntries().filter((entry) => entry.message?.role === "user" && textOf(entry.message.content)).map((entry) => ({ entryId: entry.id, text: textOf(entry.message.content) }));

	getContextUsage() {
		const contextWindow = this.model?.contextWindow ?? 0;
		if (contextWindow <= 0) return undefined;
		const at = this.messages.findLastIndex((message) => message.usage && !["aborted", "error"].includes(message.stopReason));
		const known = at < 0 ? 0 : calculateContextTokens(this.messages[at].usage);
		const tokens = this.messages.slice(at + 1).reduce((sum, message) => sum + estimateTokens(message), known);
		return { tokens, contextWindow, percent: (tokens / contextWindow) * 100 };
	}

	getSessionStats() {
		const tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
		const ofRole = (role) => this.messages.filter((message) => message.role === role);
		const answers = this.sessionManager.getEntries().map((entry) => entry.message).filter((message) => message?.role === "assistant");
		for (const { usage } of answers) for (const kind of ["input", "output", "cacheRead", "cacheWrite"]) tokens[kind] += usage?.[kind] ?? 0;
		tokens.total = tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite;
		return {
			...{ sessionFile: this.sessionFile, sessionId: this.sessionId, tokens },
			...{ userMessages: ofRole("user").length, assistantMessages: ofRole("assistant").length, toolResults: ofRole("toolResult").length },
			toolCalls: ofRole("assistant").reduce((sum, message) => sum + message.content.filter((part) => part.type === "toolCall").length, 0),
			totalMessages: this.messages.length,
			cost: answers.reduce((sum, message) => sum + (message.usage?.cost?.total ?? 0), 0),
			contextUsage: this.getContextUsage(),
		};
	}
}
