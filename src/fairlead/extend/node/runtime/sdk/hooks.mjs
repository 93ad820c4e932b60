// What a program adds to a session with functions of its own process: tools, and inline extensions (`extensionFactories`). The
// agent reaches tools as host tools. For the rest, a small extension in its Node process (relay.mjs) passes events to this one.

import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { plainSchema } from "../api.mjs";
import { currentContext } from "../context.mjs";
import { exec } from "../exec.mjs";
import { createEventBus } from "../shims/coding-agent.mjs";
import { isOwnTool } from "../shims/tools.mjs";
import { Lines } from "./relay.mjs";

const BUILT_IN = new Set(["read", "bash", "edit", "write", "grep", "find", "ls"]);
const RELAY = fileURLToPath(new URL("./relay.mjs", import.meta.url));
const RELAY_VARIABLE = "FAIRLEAD_SDK_RELAY";

/** Run the factory of an inline extension and note what it registers. `actions` are what its methods do later. */
export async function record(name, factory) {
	const extension = {
		...{ path: name, resolvedPath: name, sourceInfo: { path: name, source: "inline", scope: "temporary", origin: "top-level" } },
		...{ handlers: new Map(), tools: new Map(), commands: new Map(), flags: new Map(), shortcuts: new Map(), messageRenderers: new Map() },
		session: undefined,
	};
	await factory(apiOf(extension));
	return extension;
}

const nothing = () => {};

const plainTool = ({ name, label, description, parameters }) => ({
	...{ name, description: description || name, parameters: plainSchema(parameters ?? { type: "object", properties: {} }) },
	...(label ? { label } : {}),
});

/** The object `pi` of an inline extension. */
function apiOf(extension) {
	const live = () => {
		if (!extension.session) throw new Error("Extension runtime not initialized. Action methods cannot be called during extension loading.");
		return extension.session;
	};
	const call = (name, ...given) => live().hooks.callApi(name, given);
	return {
		on(event, handler) {
			extension.handlers.set(event, [...(extension.handlers.get(event) ?? []), handler]);
			extension.session?.hooks.onRegistered();
			return () => extension.handlers.set(event, extension.handlers.get(event).filter((each) => each !== handler));
		},
		registerTool(tool) {
			extension.tools.set(tool.name, { definition: tool, sourceInfo: extension.sourceInfo });
			extension.session?.hooks.onRegistered();
		},
		registerCommand(name, options) {
			extension.commands.set(name, { name, ...options });
			extension.session?.hooks.onRegistered();
		},
		registerFlag: (name, options) => extension.flags.set(name, { name, ...options }),
		getFlag: (name) => extension.flags.get(name)?.default,
		...Object.fromEntries(["registerShortcut", "registerMessageRenderer", "registerEntryRenderer", "registerToolRenderer", "registerMarkdownTransformer"].map((name) => [name, nothing])),
		registerProvider: (name, config) => void call("registerProvider", name, config),
		unregisterProvider: (name) => void call("unregisterProvider", name),
		sendMessage: (message, options) => void call("sendMessage", message, options),
		sendUserMessage: (content, options) => void call("sendUserMessage", content, options),
		appendEntry: (customType, data) => void call("appendEntry", customType, data),
		setLabel: (entry, label) => void call("setLabel", entry, label),
		setSessionName: (name) => live().setSessionName(name),
		getSessionName: () => live().sessionName,
		getActiveTools: () => live().getActiveToolNames(),
		getAllTools: () => live().getAllTools(),
		setActiveTools: (names) => live().setActiveToolsByName(names),
		getCommands: () => [],
		getSettings: () => live().settingsManager.getSettings(),
		setModel: (model) => live().setModel(model).then(() => true, () => false),
		getThinkingLevel: () => live().thinkingLevel,
		setThinkingLevel: (level) => live().setThinkingLevel(level),
		exec: (command, args, options) => exec(command, args, options),
		events: (extension.events ??= createEventBus()),
	};
}

/** The tools and inline extensions of one session. */
export class Hooks {
	#server;
	#lines;
	#folder;
	/** The calls of tools that came through the relay. */
	#relayed = new Map();

	constructor(inline, { customTools = [], tools: allowed, noTools, sessionStartEvent }) {
		Object.assign(this, { inline, customTools, allowed, noTools, sessionStartEvent, session: undefined });
		this.runner = {
			hasHandlers: (event) => this.#handlers(event).length > 0,
			emit: (event) => this.emit(event),
			getRegisteredCommands: () => this.inline.flatMap((extension) => [...extension.commands.values()]),
		};
	}

	get tools() {
		const found = new Map(this.customTools.map((tool) => [tool.name, tool]));
		for (const extension of this.inline) for (const [name, { definition }] of extension.tools) found.set(name, definition);
		return found;
	}

	#handlers = (event) => this.inline.flatMap((extension) => extension.handlers.get(event) ?? []);

	// Tools

	hostTools() {
		return this.#foreign().filter((tool) => !BUILT_IN.has(tool.name)).map(plainTool);
	}

	/** The tools that run in this process. Those that the agent has itself run there. */
	#foreign = () => [...this.tools.values()].filter((tool) => this.isAllowed(tool.name) && !isOwnTool(tool));

	/** Those that replace tools of the agent. Host tools cannot; tools of extensions can. */
	#replacing = () => this.#foreign().filter((tool) => BUILT_IN.has(tool.name));

	isAllowed(name) {
		if (this.noTools === "all") return false;
		if (!this.allowed || (this.allowed.length && this.allowed.every((entry) => /^[+-]/.test(entry)))) return true;
		return this.allowed.some((entry) => new RegExp(`^${entry.split("*").map(escaped).join(".*")}$`).test(name));
	}

	async runTool(name, toolCallId, args, signal, onUpdate) {
		const tool = this.tools.get(name);
		if (!tool) throw new Error(`Tool ${name} not found`);
		const { content = [], details, isError, terminate } = (await tool.execute(toolCallId, args, signal, onUpdate, this.context({ signal }))) ?? {};
		return { result: { content, ...(details === undefined ? {} : { details }), ...(terminate ? { terminate } : {}) }, ...(isError ? { isError: true } : {}) };
	}

	// The connection with the relay in the process of the agent

	get isConnected() {
		return this.#lines !== undefined;
	}

	/** Get ready for the relay, if there is something to pass to this process. */
	async listen() {
		for (const extension of this.inline) extension.session = this.session;
		this.#stop();
		if (!this.inline.length && !this.#replacing().length) return;
		this.#folder = fs.mkdtempSync(path.join(os.tmpdir(), "fairlead-sdk-"));
		this.#server = net.createServer((socket) => this.#accept(socket));
		this.#server.unref();
		await new Promise((resolve, reject) => this.#server.once("error", reject).listen(path.join(this.#folder, "relay"), resolve));
	}

	args = () => (this.#server ? ["--extension", RELAY] : []);
	env = () => (this.#server ? { [RELAY_VARIABLE]: path.join(this.#folder, "relay") } : { [RELAY_VARIABLE]: undefined });

	// The relay is the first that connects, before the agent runs anything. No other process can speak for it.
	#accept(socket) {
		this.#server.close();
		socket.unref();
		this.#lines = new Lines(socket, {
			event: ({ event }) => this.emit(event),
			tool: (call) => this.#runRelayed(call),
			abort: ({ toolCallId }) => this.#relayed.get(toolCallId)?.abort(),
			command: ({ name, args }) => this.#command(name)?.handler(args, this.context()),
		});
		this.onRegistered(false);
	}

	async #runRelayed({ name, toolCallId, args }) {
		const control = new AbortController();
		this.#relayed.set(toolCallId, control);
		try {
			const { result, isError } = await this.runTool(name, toolCallId, args, control.signal, (partial) => this.#lines?.notify("update", { toolCallId, partial }));
			return { ...result, ...(isError ? { isError } : {}) };
		} finally {
			this.#relayed.delete(toolCallId);
		}
	}

	#command = (name) => this.inline.map((extension) => extension.commands.get(name)).find(Boolean);

	/** Tell the relay what is registered. */
	onRegistered(andTools = true) {
		const events = [...new Set(this.inline.flatMap((extension) => [...extension.handlers.keys()]))];
		const commands = this.inline.flatMap((extension) => [...extension.commands.values()]).map(({ name, description }) => ({ name, description }));
		this.#lines?.notify("register", { events, commands, tools: this.#replacing().map(plainTool) });
		if (andTools) this.session?.offerTools().catch((error) => console.error("A tool could not be registered:", error));
	}

	callApi(name, args) {
		if (!this.#lines) return Promise.reject(new Error(`pi.${name}() is not available before the session has started.`));
		const called = this.#lines.call("api", { name, args });
		called.catch((error) => console.error(`pi.${name}() failed:`, error.message));
		return called;
	}

	/** Have the handlers of an event run. Returns what they returned, joined, and the event as they left it. */
	async emit(event) {
		let joined;
		for (const handler of this.#handlers(event.type)) {
			const result = await handler(joined ? { ...event, ...pick(event, joined) } : event, this.context());
			if (result === undefined || result === null) continue;
			joined = typeof result === "object" && !Array.isArray(result) ? { ...joined, ...result } : result;
			if (result.block || result.cancel) break;
		}
		return { result: joined, event };
	}

	#stop() {
		for (const call of this.#relayed.values()) call.abort();
		this.#lines?.close();
		this.#lines = undefined;
		this.#server?.close();
		this.#server = undefined;
		if (this.#folder) fs.rmSync(this.#folder, { recursive: true, force: true });
		this.#folder = undefined;
	}

	close() {
		this.#stop();
	}

	// Contexts

	/** The user of the agent whose extension has created the session; nothing if there is none. */
	parentUi() {
		const ctx = currentContext();
		return ctx?.hasUI ? ctx.ui : undefined;
	}

	/** `ctx` of handlers and tools. */
	context({ signal } = {}) {
		const session = this.session;
		return {
			...{ ui: session.uiContext, hasUI: session.uiContext !== undefined, mode: "print", cwd: session.sessionManager.getCwd() },
			...{ sessionManager: session.sessionManager, modelRegistry: session.modelRegistry, scopedModels: session.scopedModels, session },
			get model() {
				return session.model;
			},
			get thinkingLevel() {
				return session.thinkingLevel;
			},
			get signal() {
				return signal ?? session.runSignal;
			},
			isIdle: () => session.isIdle,
			isProjectTrusted: () => session.settingsManager.isProjectTrusted(),
			hasPendingMessages: () => session.pendingMessageCount > 0,
			getContextUsage: () => session.getContextUsage(),
			getSystemPrompt: () => session.systemPrompt,
			abort: () => void session.abort(),
			shutdown: () => session.dispose(),
			compact: ({ customInstructions, onComplete, onError } = {}) => void session.compact(customInstructions).then(onComplete, onError),
			waitForIdle: () => session.waitForIdle(),
			navigateTree: (target, options) => session.navigateTree(target, options),
			reload: () => session.reload(),
		};
	}
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const pick = (event, result) => Object.fromEntries(Object.entries(result).filter(([name]) => name in event && name !== "type"));
