// `ctx`: the agent as handlers, tools and commands see it. A context belongs to one call, so that the agent knows on whose
// behalf a question is asked; it works after the call, too.

import { canDraw, closeAll, custom, footerData, getEditor, listen, pasteIntoEditor, place, setEditor, statuses } from "./canvas.mjs";
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

/** `signal` ends the call: what it draws for an answer is closed then. */
function createUi(call, signal) {
	const question = async (kind, params, options) =>
		options?.signal?.aborted ? undefined : ask("ui", { call, kind, ...params, timeout: options?.timeout }, options?.signal);
	const show = (kind, params) => void askNow("show", { kind, ...params });
	return {
		select: (title, options, opts) => question("select", { title, options }, opts),
		confirm: async (title, message, opts) => (await question("confirm", { title, message }, opts)) === true,
		input: (title, placeholder, opts) => question("input", { title, placeholder }, opts),
		editor: (title, prefill) => question("editor", { title, prefill }),
		notify: (message, type) => show("notify", { message: String(message), type }),
		setStatus: (key, text) => {
			if (text === undefined) statuses.delete(key);
			else statuses.set(key, text);
			show("setStatus", { key, text });
		},
		setWidget: (key, content, options) => {
			const where = options?.placement === "belowEditor" ? "belowEditor" : "aboveEditor";
			for (const each of ["aboveEditor", "belowEditor"]) place(each, key, undefined);
			const isText = content === undefined || Array.isArray(content);
			if (isText || canDraw()) show("setWidget", { key, lines: isText ? content : undefined, placement: options?.placement });
			if (!isText) place(where, key, content);
		},
		setTitle: (title) => show("setTitle", { title }),
		setEditorText: (text) => show("setEditorText", { text }),
		pasteToEditor: (text) => (canDraw() ? pasteIntoEditor(text) : show("setEditorText", { text })),
		getEditorText: () => askNow("editorText").text,
		// Where nothing is drawn, these answer as in pi's RPC mode.
		custom: async (factory, options) => (canDraw() ? custom(call, signal, factory, options) : undefined),
		onTerminalInput: (handler) => (canDraw() ? listen(handler) : () => {}),
		setWorkingMessage: (message) => show("setWorking", { message: message ?? null }),
		setWorkingVisible: (visible) => show("setWorking", { visible: Boolean(visible) }),
		setWorkingIndicator: (options) => show("setWorking", { frames: options?.frames ?? null, interval: options?.intervalMs ?? null }),
		setHiddenThinkingLabel: () => {},
		setFooter: (factory) => void place("footer", "", factory, footerData),
		setHeader: (factory) => void place("header", "", factory),
		addAutocompleteProvider: () => {},
		setEditorComponent: (factory) => setEditor(factory),
		getEditorComponent: () => getEditor(),
		theme,
		getAllThemes: () => [],
		getTheme: () => undefined,
		setTheme: () => ({ success: false, error: "Theme switching not supported in RPC mode" }),
		getToolsExpanded: () => false,
		setToolsExpanded: () => {},
	};
}

const STALE =
	"This extension ctx is stale after session replacement or reload. Do not use a captured pi or command ctx after ctx.newSession(), ctx.fork(), ctx.switchSession(), or ctx.reload(). For newSession, fork, and switchSession, move post-replacement work into withSession and use the ctx passed to withSession. For reload, do not use the old ctx after await ctx.reload().";

/** Counts the sessions, because what belongs to an earlier one must not act on the present one. */
let session = 0;

/** Make all contexts that exist throw when they are used. */
export function endSession() {
	session += 1;
	closeAll();
}

/** Throw the error of pi for something that belongs to an earlier session. */
export function refuseStale() {
	throw new Error(STALE);
}

/** A context with more fields. All that it has throws once its session has been replaced. */
function guarded(context, more = {}) {
	const mine = session;
	const check = () => mine === session || refuseStale();
	const all = { ...Object.getOwnPropertyDescriptors(context), ...Object.getOwnPropertyDescriptors(more) };
	for (const [name, { get, value }] of Object.entries(all)) {
		const called = (...given) => (check(), value(...given));
		const read = () => (check(), get ? get() : value);
		Object.defineProperty(context, name, { enumerable: true, ...(typeof value === "function" ? { value: called } : { get: read }) });
	}
	return context;
}

const state = () => askNow("state");

/** The context of an event handler. `given` has what the agent already said about the call. */
export function createContext(call, given = {}) {
	return guarded(contextOf(call, given));
}

/** A context that belongs to no call. */
export const currentContext = () => createContext();

function contextOf(call, given = {}) {
	const ui = createUi(call, given.signal);
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
	return guarded(contextOf(call, { signal }), {
		get tools() {
			return askNow("tools").filter((tool) => tool.callable).map(({ active, callable, ...tool }) => tool);
		},
		executeTool: (name, args, options = {}) =>
			ask("executeTool", { call, name, args }, options.signal ?? signal, options.onUpdate).catch((error) => ({
				toolCall: { type: "toolCall", id: `${toolCallId}/0`, name, arguments: args ?? {} },
				result: { content: [{ type: "text", text: error.message }], details: {} },
				isError: true,
			})),
	});
}

/** The functions that fill a new session, while these are started. */
const setups = new Map();
let nextSetup = 1;

/** Have an extension fill the session that it has asked for. Returns whether it could. */
export async function setUp({ number }) {
	const { fill, failed } = setups.get(number);
	try {
		await fill(writableSession);
		return true;
	} catch (error) {
		failed(error);
		return false;
	}
}

async function newSession(move, options = {}) {
	const { parentSession: parent, setup, withSession } = options;
	if (!setup) return move("newSession", { parent }, withSession);
	const number = nextSetup++;
	const errors = [];
	setups.set(number, { fill: setup, failed: (error) => errors.push(error) });
	try {
		return await move("newSession", { parent, setup: number }, (ctx) => {
			if (errors.length) throw errors[0];
			return withSession?.(ctx);
		});
	} finally {
		setups.delete(number);
	}
}

/** The context of a command: it can also go to other sessions. */
export function createCommandContext(call, extension, more = {}) {
	const move = async (method, params, withSession) => {
		const result = await ask(method, { call, ...params });
		if (!result.cancelled && withSession) await withSession(replaced(call, extension));
		return result;
	};
	return guarded(contextOf(call), {
		getSystemPromptOptions: () => askNow("systemPromptOptions"),
		waitForIdle: () => ask("waitForIdle"),
		newSession: (options) => newSession(move, options),
		fork: (entry, options = {}) => move("fork", { entry, position: options.position ?? "before" }, options.withSession),
		navigateTree: (target, options = {}) => {
			const { summarize, customInstructions: instructions, replaceInstructions, label } = options;
			return move("navigateTree", { target, summarize, instructions, replaceInstructions, label });
		},
		switchSession: (path, options = {}) => move("switchSession", { path }, options.withSession),
		reload: () => ask("reload", { call }),
		...more,
	});
}

/** The context of a session that has replaced another. What it sends, it waits for. */
function replaced(call, extension) {
	return createCommandContext(call, extension, {
		sendMessage: (message, options) => ask("sendAndWait", { extension, replaced: true, message, options }),
		sendUserMessage: (content, options) => ask("sendAndWait", { extension, replaced: true, content, options }),
	});
}

/** Say once that something only has a meaning in pi's terminal. */
const said = new Set();

export function onlyInTerminal(what) {
	if (said.has(what)) return;
	said.add(what);
	notify("log", { text: `${what} has no effect here: it draws in pi's own terminal.` });
}
