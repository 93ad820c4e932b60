// Where components of extensions are drawn. They render lines here, the front end shows these and passes keys on.
//
// A sheet is one component in one place: a dialog, which has the keys while it is open, or a part of the screen that stays. A front
// end that draws nothing has no canvas; there, everything answers as in pi's RPC mode.

import fs from "node:fs";
import path from "node:path";
import { ask, askNow, described, notify } from "./channel.mjs";
import { CURSOR_MARKER } from "./shims/components.mjs";
import { Editor } from "./shims/editors.mjs";
import { getKeybindings, isKeyRelease } from "./shims/keys.mjs";
import { truncateToWidth, visibleWidth } from "./shims/text.mjs";
import { theme } from "./theme.mjs";

const { stringify } = JSON;
const now = Date.now;

/** The most lines of a component, the longest line that is looked at, and the shortest time between two frames. */
const MOST_LINES = 200;
const LONGEST_LINE = 8192;
const FRAME_MS = 33;
/** The width of an overlay that names none. */
const OVERLAY_WIDTH = 80;
const BRANCH_MS = 2000;

const sheets = new Map();
/** The sheets that stay, by place and key. */
const placed = new Map();
const listeners = new Set();
let nextSheet = 1;
let size = { columns: 80, rows: 24 };
let focused = null;

/** Whether the front end draws. Asks how large it is. */
export function canDraw() {
	const found = askNow("canvas");
	if (found) size = found;
	return Boolean(found);
}

// Drawing

let timer;
let drawnAt = 0;

export function requestRender() {
	timer ??= setTimeout(drawAll, Math.max(0, drawnAt + FRAME_MS - now()));
}

function drawAll() {
	timer = undefined;
	drawnAt = now();
	for (const sheet of [...sheets.values()]) sheet.draw();
}

/** A length that may be a share of another one, such as `50%`. */
function share(value, whole) {
	const percent = typeof value === "string" && /^(\d+(?:\.\d+)?)%$/.exec(value);
	return percent ? Math.floor((whole * Number(percent[1])) / 100) : typeof value === "number" ? value : undefined;
}

function marginOf(margin) {
	return typeof margin === "number" ? { left: margin, right: margin } : { left: margin?.left ?? 0, right: margin?.right ?? 0 };
}

/** How wide an overlay is, how many lines of it are shown, and how far from the left. */
function overlayPlace(given) {
	const options = given ?? {};
	const { left, right } = marginOf(options.margin);
	const room = Math.max(size.columns - left - right, 1);
	const wanted = share(options.width, size.columns) ?? Math.min(OVERLAY_WIDTH, room);
	const width = Math.max(1, Math.min(Math.max(wanted, options.minWidth ?? 1), room));
	const anchor = options.anchor ?? "center";
	const free = room - width;
	let column = anchor.endsWith("left") || anchor === "left-center" ? left : anchor.includes("right") ? left + free : left + Math.floor(free / 2);
	const own = typeof options.col === "string" ? share(options.col, free) : options.col;
	column = Math.max(0, Math.min((own ?? column) + (options.offsetX ?? 0), size.columns - width));
	return { width, column, height: share(options.maxHeight, size.rows) ?? size.rows };
}

class Sheet {
	number = nextSheet++;
	component = null;
	closed = false;
	#drawn = "";
	#isDrawing = false;
	#isStale = false;

	/** `layout` returns the options of an overlay. `failed` gets what the component throws when it renders. */
	constructor({ place, key = "", call, layout, failed }) {
		Object.assign(this, { place, key, call, layout, failed });
	}

	open(component) {
		this.component = component;
		sheets.set(this.number, this);
		this.enter();
		requestRender();
	}

	enter() {
		askNow("putSheet", { sheet: this.number, place: this.place, key: this.key });
	}

	leave() {
		notify("removeSheet", { sheet: this.number });
	}

	close() {
		if (this.closed) return;
		this.closed = true;
		if (sheets.delete(this.number)) this.leave();
		try {
			this.component?.dispose?.();
		} catch (error) {
			notify("failed", { extension: null, error: described(error) });
		}
	}

	#lines() {
		const options = this.layout?.();
		if (options?.visible && !options.visible(size.columns, size.rows)) return { lines: [] };
		const { width, column, height } = this.layout ? overlayPlace(options) : { width: size.columns, column: 0, height: MOST_LINES };
		const rendered = this.component.render(width);
		const all = Array.isArray(rendered) ? rendered : [];
		const most = Math.min(MOST_LINES, height);
		// Of a component that is too high, pi's terminal shows the end, and of an overlay the beginning.
		const kept = this.layout ? all.slice(0, most) : all.slice(-most);
		let cursor;
		const lines = kept.map((given, row) => {
			let line = String(given).slice(0, LONGEST_LINE).replace(/\t/g, "   ").replace(/[\r\n]+/g, " ");
			const marked = line.indexOf(CURSOR_MARKER);
			if (marked >= 0) {
				cursor = [row, column + visibleWidth(line.slice(0, marked))];
				line = line.replaceAll(CURSOR_MARKER, "");
			}
			return " ".repeat(column) + truncateToWidth(line, width, "");
		});
		return { lines, cursor };
	}

	async draw() {
		if (this.closed || !this.component) return;
		if (this.#isDrawing) {
			this.#isStale = true;
			return;
		}
		let frame;
		try {
			frame = this.#lines();
		} catch (error) {
			this.failed(error);
			return;
		}
		const drawn = stringify(frame);
		if (drawn === this.#drawn) return;
		this.#drawn = drawn;
		// The next frame waits until the front end has this one.
		this.#isDrawing = true;
		try {
			await ask("drawSheet", { sheet: this.number, ...frame });
		} catch {
			// The front end has gone.
		}
		this.#isDrawing = false;
		if (this.#isStale) requestRender();
		this.#isStale = false;
	}
}

/** A sheet that has the keys while it is open. `dismissed` is called if the user closes it by force. */
class DialogSheet extends Sheet {
	constructor(given) {
		super({ place: "dialog", ...given });
		this.before = focused;
	}

	enter() {
		focus(this.component);
		const visit = (this.visit = new AbortController());
		ask("openSheet", { sheet: this.number, call: this.call }, visit.signal).then(
			() => visit.signal.aborted || this.dismissed(),
			() => {},
		);
	}

	leave() {
		this.visit.abort();
		if (focused === this.component || focused === null) focus(this.before);
	}
}

// Keys

function focus(component) {
	if (focused && typeof focused === "object" && "focused" in focused) focused.focused = false;
	focused = component ?? null;
	if (focused && typeof focused === "object" && "focused" in focused) focused.focused = true;
}

/** Give a key that the user has pressed to those who listen, and to the component that it is for. */
export function pressKey({ sheet: number, data }) {
	// A listener may stop listening, which closes the sheet: its key still counts.
	const sheet = sheets.get(number);
	for (const listener of [...listeners]) {
		const answer = listener(data);
		if (answer?.consume) return;
		if (typeof answer?.data === "string") data = answer.data;
	}
	if (!sheet) return;
	const target = sheet.place === "dialog" ? (focused ?? sheet.component) : sheet.component;
	if (isKeyRelease(data) && !target.wantsKeyRelease) return;
	target.handleInput?.(data);
	requestRender();
}

export function resize(given) {
	size = given;
	for (const { component } of [...sheets.values()]) {
		try {
			component?.invalidate?.();
		} catch (error) {
			notify("failed", { extension: null, error: described(error) });
		}
	}
	requestRender();
}

/** Listen to keys before they have an effect. Returns a function that stops listening. */
export function listen(handler) {
	listeners.add(handler);
	// The keys of the front end's own editor come here first, and go back.
	const sheet = placed.get("keys") ? undefined : place("keys", "", () => ({ render: () => [], handleInput: (data) => notify("editorKey", { data }) }));
	return () => {
		listeners.delete(handler);
		if (!listeners.size && sheet !== null) place("keys", "", undefined);
	};
}

// The object that components get

function overlay(component, options, call) {
	const layout = () => (typeof options === "function" ? options() : options);
	const failed = (error) => {
		notify("failed", { extension: null, error: described(error) });
		handle.hide();
	};
	let sheet;
	const handle = overlayHandle(
		(capturing) => {
			sheet = capturing ? new DialogSheet({ call, layout, failed }) : new Sheet({ place: "aboveEditor", key: `overlay ${nextSheet}`, layout, failed });
			sheet.dismissed = () => sheet.close();
			sheet.open(component);
		},
		() => sheet?.close(),
		() => component,
		() => (sheet?.layout ? overlayPlace(layout()) : undefined),
	);
	handle.show(!layout()?.nonCapturing);
	return handle;
}

/** What an extension can do with an overlay: hide it, show it again, and give it the keys or take them away. */
function overlayHandle(show, hide, component, bounds) {
	let [hidden, capturing, gone] = [true, true, false];
	const change = (isHidden, isCapturing) => {
		if (gone || (isHidden === hidden && isCapturing === capturing)) return;
		if (!hidden) hide();
		[hidden, capturing] = [isHidden, isCapturing];
		if (!hidden) show(capturing);
	};
	return {
		show: (isCapturing) => change(false, isCapturing),
		hide() {
			change(true, capturing);
			gone = true;
		},
		setHidden: (isHidden) => change(Boolean(isHidden), capturing),
		isHidden: () => hidden,
		focus: () => change(false, true),
		unfocus: (options) => {
			change(hidden, false);
			if (options?.target) focus(options.target);
		},
		isFocused: () => !hidden && capturing && focused === component(),
		getBounds: () => {
			const place = hidden ? undefined : bounds();
			return place && { row: 0, col: place.column, width: place.width, height: place.height };
		},
	};
}

const overlays = [];

const tui = {
	mode: "regular",
	children: [],
	fullRedraws: 0,
	terminal: {
		get columns() {
			return size.columns;
		},
		get rows() {
			return size.rows;
		},
		kittyProtocolActive: false,
		write() {},
		setTitle: (title) => void askNow("show", { kind: "setTitle", title: String(title) }),
		hideCursor() {},
		showCursor() {},
	},
	requestRender,
	renderNow: requestRender,
	setFocus: focus,
	showOverlay(component, options) {
		const handle = overlay(component, options);
		overlays.push(handle);
		return handle;
	},
	hideOverlay: () => overlays.pop()?.hide(),
	hasOverlay: () => [...sheets.values()].some((each) => each.layout),
	addInputListener: listen,
	removeInputListener: (listener) => void listeners.delete(listener),
	onTerminalColorSchemeChange: () => () => {},
	queryTerminalBackgroundColor: async () => undefined,
	queryTerminalColorScheme: async () => undefined,
	getShowHardwareCursor: () => false,
	getClearOnShrink: () => false,
	setShowHardwareCursor() {},
	setClearOnShrink() {},
	setTerminalColorSchemeNotifications() {},
	addChild() {},
	removeChild() {},
	clear() {},
	invalidate() {},
	render: () => [],
	start() {},
	stop() {},
};

// Dialogs

/** Show a component until it is done, and return what it gives to `done`; nothing if the user or the end of the call closes it. */
export function custom(call, signal, factory, options = {}) {
	return new Promise((resolve, reject) => {
		let component;
		let sheet;
		let over = false;
		const end = (act, value) => {
			if (over) return;
			over = true;
			signal?.removeEventListener("abort", stop);
			open.delete(stop);
			handle.hide();
			act(value);
		};
		const stop = () => end(resolve, undefined);
		const failed = (error) => end(reject, error);
		const given = () => (typeof options?.overlayOptions === "function" ? options.overlayOptions() : options?.overlayOptions);
		const layout = options?.overlay ? given : undefined;
		const handle = overlayHandle(
			(capturing) => {
				sheet = capturing ? new DialogSheet({ call, layout, failed }) : new Sheet({ place: "aboveEditor", key: `custom ${nextSheet}`, layout, failed });
				sheet.dismissed = stop;
				sheet.open(component);
			},
			() => sheet && closeQuietly(sheet, over),
			() => component,
			() => (layout ? overlayPlace(layout()) : undefined),
		);
		open.add(stop);
		signal?.addEventListener("abort", stop, { once: true });
		if (signal?.aborted) return stop();
		const show = (made) => {
			component = made;
			if (over) return void component?.dispose?.();
			handle.show(!(layout && layout()?.nonCapturing));
			options?.onHandle?.(handle);
		};
		try {
			const made = factory(tui, theme, getKeybindings(), (value) => end(resolve, value));
			if (typeof made?.then === "function") made.then(show).catch(failed);
			else show(made);
		} catch (error) {
			failed(error);
		}
	});
}

/** Close a sheet whose component may be shown again: it is disposed of at its end alone. */
function closeQuietly(sheet, isEnd) {
	if (!isEnd) sheet.component = { render: () => [] };
	sheet.close();
}

/** Functions that close the dialogs that are open. */
const open = new Set();

// What stays on the screen

/** Put a component into a place, or with no factory take away what is there. */
export function place(where, key, factory, ...more) {
	const name = `${where} ${key}`.trim();
	placed.get(name)?.close();
	placed.delete(name);
	if (factory === undefined || !canDraw()) return null;
	const sheet = new Sheet({
		place: where,
		key,
		failed: (error) => {
			notify("failed", { extension: null, error: described(error) });
			place(where, key, undefined);
		},
	});
	placed.set(name, sheet);
	sheet.open(factory(tui, theme, ...more));
	return sheet;
}

/** Close everything: the session has ended. */
export function closeAll() {
	for (const stop of [...open]) stop();
	for (const sheet of [...sheets.values()]) sheet.close();
	placed.clear();
	listeners.clear();
	statuses.clear();
	overlays.length = 0;
	focused = null;
	editorFactory = undefined;
	editors.clear();
}

/** What extensions have shown with `setStatus`. */
export const statuses = new Map();

let branch = { at: 0 };

function gitBranch() {
	if (now() - branch.at < BRANCH_MS / 2) return branch.name;
	branch = { at: now(), name: null };
	for (let folder = process.cwd(); ; folder = path.dirname(folder)) {
		try {
			const [, name] = /^ref: refs\/heads\/(.+)$/m.exec(fs.readFileSync(path.join(folder, ".git", "HEAD"), "utf8")) ?? [];
			branch.name = name ?? "detached";
			return branch.name;
		} catch {
			if (path.dirname(folder) === folder) return null;
		}
	}
}

export const footerData = {
	getGitBranch: gitBranch,
	getExtensionStatuses: () => statuses,
	getAvailableProviderCount: () => new Set(askNow("models").map((model) => model.provider)).size,
	onBranchChange(changed) {
		let before = gitBranch();
		const watching = setInterval(() => {
			if (gitBranch() === before) return;
			before = gitBranch();
			changed();
		}, BRANCH_MS);
		watching.unref();
		return () => clearInterval(watching);
	},
};

// The editor

let editorFactory;
/** The editors of extensions that show the text of the front end's own editor. */
const editors = new Set();
let isMaking = false;

const editorTheme = {
	borderColor: (text) => theme.fg("borderMuted", text),
	selectList: {
		selectedPrefix: (text) => theme.fg("accent", text),
		selectedText: (text) => theme.fg("accent", text),
		description: (text) => theme.fg("muted", text),
		scrollInfo: (text) => theme.fg("muted", text),
		noMatch: (text) => theme.fg("muted", text),
	},
};

/**
 * An editor in place of the front end's own. It shows the text of that one, which keeps its keys: history, completion, sending and
 * stopping work as before.
 */
export class CustomEditor extends Editor {
	actionHandlers = new Map();
	constructor(tui, colours, keybindings, options = {}) {
		super(tui, colours, options);
		this.keybindings = keybindings;
		this.embedWorkingStatus = options?.embedWorkingStatus ?? false;
		this.shows = isMaking;
		if (isMaking) editors.add(this);
	}
	setWorkingStatusIndicator() {}
	onAction(action, handler) {
		this.actionHandlers.set(action, handler);
	}
	handleInput(data) {
		for (const [action, handler] of this.actionHandlers) if (this.keybindings?.matches(data, action)) return handler();
		if (this.shows) notify("editorKey", { data });
		else super.handleInput(data);
	}
	setText(text) {
		if (this.shows) askNow("show", { kind: "setEditorText", text: String(text ?? "") });
		else super.setText(text);
	}
	insertTextAtCursor(text) {
		if (this.shows) pasteIntoEditor(text);
		else super.insertTextAtCursor(text);
	}
}

export const pasteIntoEditor = (text) => notify("editorKey", { data: `\x1b[200~${String(text).replaceAll("\x1b", "")}\x1b[201~` });

/** The text of the front end's editor has changed. `at` counts as JavaScript does. */
export function editorChanged({ text, at }) {
	for (const editor of editors) {
		editor.typing.set(text, at);
		editor.onChange?.(text);
	}
	const own = placed.get("editor")?.component;
	if (own && !editors.has(own) && !editors.size && own.getText?.() !== text) own.setText?.(text);
	requestRender();
}

export function setEditor(factory) {
	editors.clear();
	editorFactory = factory;
	if (!factory) return void place("editor", "", undefined);
	const make = (...given) => {
		isMaking = true;
		try {
			const editor = factory(given[0], editorTheme, getKeybindings());
			editor.focused = true;
			if (!editors.size) {
				// It has a text of its own.
				editor.onSubmit = (text) => notify("submit", { text });
				editor.onChange = (text) => void askNow("show", { kind: "setEditorText", text });
			}
			return editor;
		} finally {
			isMaking = false;
		}
	};
	if (place("editor", "", make)) editorChanged(askNow("editorText"));
}

export const getEditor = () => editorFactory;
