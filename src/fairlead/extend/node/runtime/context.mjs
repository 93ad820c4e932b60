// `ctx`: the agent as handlers, tools and commands see it. A context belongs to one call, so that the agent knows on whose
// behalf a question is asked; it works after the call, too.

import { ask, askNow, notify } from "./channel.mjs";
import { modelRegistry } from "./models.mjs";
import { sessionManager, writableSession } from "./session-manager.mjs";
import { theme } from "./theme.mjs";

const signals = new Map();

/** The signal with a number, which the agent fires with `abortSignal`. */
export function signalOf(number) {
	if (number === undefined || number === null) return undefined;
	if (!signals.has(number)) signals.set(number, new AbortController());
	return signals.get(number).signal;
}

export function abortSignal(number) {
	signalOf(number);
	signals.get(number).abort();
}

/** Forget a signal that can no longer fire. */
export function dropSignal(number) {
	signals.delete(number);
}

function createUi(call) {
	const question = async (kind, params, options) =>
		options?.signal?.aborted ? undefined : ask("ui", { call, kind, ...params, timeout: options?.timeout }, options?.signal);
	const show = (kind, params) => void askNow("show", { kind, ...params });
	return {
		select: (title, options, opts) => question("select", { title, options }, opts),
		confirm: async (title, message, opts) => (await question("confirm", { title, message }, opts)) === true,
		input: (title, placeholder, opts) => question("input", { title, placeholder }, opts),
		editor: (title, prefill) => question("editor", { title, prefill }),
		notify: (message, type) => show("notify", { message: String(message), type }),
		setStatus: (key, text) => show("setStatus", { key, text }),
		setWidget: (key, content, options) => {
			if (content === undefined || Array.isArray(content)) show("setWidget", { key, lines: content, placement: options?.placement });
		},
		setTitle: (title) => show("setTitle", { title }),
		setEditorText: (text) => show("setEditorText", { text }),
		pasteToEditor: (text) => show("setEditorText", { text }),
		getEditorText: () => "",
		// What needs pi's own terminal answers as it does in pi's RPC mode.
		custom: async () => undefined,
		onTerminalInput: () => () => {},
		setWorkingMessage: () => {},
		setWorkingVisible: () => {},
		setWorkingIndicator: () => {},
		setHiddenThinkingLabel: () => {},
		setFooter: () => {},
		setHeader: () => {},
		addAutocompleteProvider: () => {},
		setEditorComponent: () => {},
		getEditorComponent: () => undefined,
		theme,
		getAllThemes: () => [],
		getTheme: () => undefined,
		setTheme: () => ({ success: false, error: "Theme switching not supported in RPC mode" }),
		getToolsExpanded: () => false,
		setToolsExpanded: () => {},
	};
}

const state = () => askNow("state");

/** The context of an event handler. `given` has what the agent already said about the call. */
export function createContext(call, given = {}) {
	const ui = createUi(call);
	return {
		ui,
		sessionManager,
		modelRegistry,
		get mode() {
			return state().mode;
		},
		get hasUI() {
			return state().hasUI;
		},
		get cwd() {
			return state().cwd;
		},
		get model() {
			return state().model;
		},
		get thinkingLevel() {
			return state().thinkingLevel;
		},
		get scopedModels() {
			return askNow("scopedModels");
		},
		get signal() {
			return given.signal ?? signalOf(askNow("runSignal"));
		},
		isIdle: () => state().isIdle,
		isProjectTrusted: () => state().isProjectTrusted,
		hasPendingMessages: () => state().hasPendingMessages,
		getContextUsage: () => askNow("contextUsage"),
		getSystemPrompt: () => given.systemPrompt?.() ?? askNow("systemPrompt"),
		abort: () => void askNow("abort"),
		shutdown: () => void askNow("shutdown"),
		compact: (options = {}) => {
			ask("compact", { instructions: options.customInstructions }).then(
				(result) => options.onComplete?.(result),
				(error) => options.onError?.(error),
			);
		},
	};
}

/** The context of a tool: it can also call other tools. */
export function createToolContext(call, toolCallId, signal) {
	return Object.defineProperties(createContext(call, { signal }), {
		tools: { get: () => askNow("tools").filter((tool) => tool.callable).map(({ active, callable, ...tool }) => tool) },
		executeTool: {
			value: (name, args, options = {}) =>
				ask("executeTool", { call, name, args }, options.signal ?? signal, options.onUpdate).catch((error) => ({
					toolCall: { type: "toolCall", id: `${toolCallId}/0`, name, arguments: args ?? {} },
					result: { content: [{ type: "text", text: error.message }], details: {} },
					isError: true,
				})),
		},
	});
}

/** The context of a command: it can also go to other sessions. */
export function createCommandContext(call, extension) {
	const move = async (method, params, options) => {
		const result = await ask(method, { call, ...params });
		if (!result.cancelled && options?.withSession) await options.withSession(replaced(call, extension));
		return result;
	};
	return Object.defineProperties(createContext(call), {
		getSystemPromptOptions: { value: () => askNow("systemPromptOptions") },
		waitForIdle: { value: () => ask("waitForIdle") },
		newSession: {
			value: async (options = {}) => {
				const withSession = async (ctx) => {
					await options.setup?.(writableSession);
					await options.withSession?.(ctx);
				};
				return move("newSession", { parent: options.parentSession }, { withSession });
			},
		},
		fork: { value: (entry, options = {}) => move("fork", { entry, position: options.position ?? "before" }, options) },
		navigateTree: {
			value: (target, options = {}) =>
				move("navigateTree", { target, summarize: options.summarize, instructions: options.customInstructions, label: options.label }),
		},
		switchSession: { value: (path, options = {}) => move("switchSession", { path }, options) },
		reload: { value: () => ask("reload", { call }) },
	});
}

function replaced(call, extension) {
	const ctx = createCommandContext(call, extension);
	return Object.defineProperties(ctx, {
		sendMessage: { value: async (message, options) => void askNow("sendMessage", { extension, replaced: true, message, options }) },
		sendUserMessage: { value: async (content, options) => void askNow("sendUserMessage", { extension, replaced: true, content, options }) },
	});
}

/** Say once that something only has a meaning in pi's terminal. */
const said = new Set();

export function onlyInTerminal(what) {
	if (said.has(what)) return;
	said.add(what);
	notify("log", { text: `${what} has no effect here: it draws in pi's own terminal.` });
}
