// The components of pi's terminal that take keys: lines and texts to type, and lists to choose from.

import { CURSOR_MARKER, renderFakeCursor } from "./components.mjs";
import { getKeybindings, matchesKey, typedText } from "./keys.mjs";
import { fuzzyFilter, graphemes, truncateToWidth, visibleWidth, widthOf, wrapTextWithAnsi } from "./text.mjs";

const is = (data, action) => getKeybindings().matches(data, action);
const endOfWord = (text) => /^\s*(?:[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]+)?/u.exec(text)[0].length;
const startOfWord = (text) => text.length - /(?:[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]+)?\s*$/u.exec(text)[0].length;

/** A text that is being typed: what it is, where the cursor is, and what keys do to it. */
class Typing {
	text = "";
	at = 0;
	killed = "";
	undone = [];

	set(text, at = text.length) {
		this.text = text;
		this.at = Math.max(0, Math.min(at, text.length));
	}
	insert(text) {
		this.replace(this.at, this.at, text);
	}
	replace(from, to, text = "") {
		this.undone = [...this.undone.slice(-99), [this.text, this.at]];
		this.set(this.text.slice(0, from) + text + this.text.slice(to), from + text.length);
	}
	kill(from, to) {
		this.killed = this.text.slice(from, to);
		this.replace(from, to);
	}
	get lineStart() {
		return this.text.lastIndexOf("\n", this.at - 1) + 1;
	}
	get lineEnd() {
		const end = this.text.indexOf("\n", this.at);
		return end < 0 ? this.text.length : end;
	}
	get next() {
		return this.at + (graphemes(this.text.slice(this.at, this.at + 64))[0]?.length ?? 0);
	}
	get previous() {
		return this.at - (graphemes(this.text.slice(Math.max(this.at - 64, 0), this.at)).at(-1)?.length ?? 0);
	}

	/** Do what a key does. Returns whether it was one for the text. */
	key(data) {
		const before = this.text.slice(0, this.at);
		const wordStart = startOfWord(before);
		const wordEnd = this.at + endOfWord(this.text.slice(this.at));
		const actions = {
			"tui.editor.cursorLeft": () => this.set(this.text, this.previous),
			"tui.editor.cursorRight": () => this.set(this.text, this.next),
			"tui.editor.cursorWordLeft": () => this.set(this.text, wordStart),
			"tui.editor.cursorWordRight": () => this.set(this.text, wordEnd),
			"tui.editor.cursorLineStart": () => this.set(this.text, this.lineStart),
			"tui.editor.cursorLineEnd": () => this.set(this.text, this.lineEnd),
			"tui.editor.deleteWordBackward": () => this.kill(wordStart, this.at),
			"tui.editor.deleteWordForward": () => this.kill(this.at, wordEnd),
			"tui.editor.deleteToLineStart": () => this.kill(this.lineStart === this.at ? this.previous : this.lineStart, this.at),
			"tui.editor.deleteToLineEnd": () => this.kill(this.at, this.lineEnd === this.at ? this.next : this.lineEnd),
			"tui.editor.deleteCharBackward": () => this.replace(this.previous, this.at),
			"tui.editor.deleteCharForward": () => this.replace(this.at, this.next),
			"tui.editor.yank": () => this.insert(this.killed),
			"tui.editor.undo": () => this.undone.length && this.set(...this.undone.pop()),
		};
		for (const [action, act] of Object.entries(actions)) {
			if (is(data, action)) {
				act();
				return true;
			}
		}
		const typed = typedText(data);
		if (typed === undefined) return false;
		this.insert(typed);
		return true;
	}
}

/** One line to type. */
export class Input {
	typing = new Typing();
	focused = false;
	onSubmit = undefined;
	onEscape = undefined;
	constructor(options = {}) {
		this.options = options ?? {};
	}
	getValue() {
		return this.typing.text;
	}
	setValue(value) {
		this.typing.set(String(value ?? ""));
	}
	handleInput(data) {
		if (is(data, "tui.select.cancel")) this.onEscape?.();
		else if (is(data, "tui.input.submit")) this.onSubmit?.(this.getValue());
		else if (this.typing.key(data)) this.typing.set(this.typing.text.replaceAll("\n", " "), this.typing.at);
	}
	invalidate() {}
	render(width) {
		const { prompt = "> ", placeholder, placeholderStyle = String } = this.options;
		const room = Math.max(width - visibleWidth(prompt) - 1, 1);
		const { text, at } = this.typing;
		if (!text && placeholder) return [prompt + cursor(this.focused, " ") + truncateToWidth(placeholderStyle(placeholder), room - 1)];
		let start = 0;
		while (visibleWidth(text.slice(start, at)) >= room) start += graphemes(text.slice(start))[0].length;
		return [truncateToWidth(prompt + withCursor(text.slice(start), at - start, this.focused), width, "")];
	}
}

const cursor = (focused, under) => (focused ? CURSOR_MARKER : "") + renderFakeCursor(under);

function withCursor(text, at, focused) {
	const under = graphemes(text.slice(at))[0] ?? "";
	return text.slice(0, at) + cursor(focused, under || " ") + text.slice(at + under.length);
}

/** A text of several lines to type, between two lines that mark its place. */
export class Editor {
	typing = new Typing();
	focused = false;
	disableSubmit = false;
	onSubmit = undefined;
	onChange = undefined;
	past = [];
	recalled = -1;
	constructor(tui, colours = {}, options = {}) {
		this.tui = tui;
		this.theme = colours ?? {};
		this.borderColor = this.theme.borderColor ?? String;
		this.paddingX = options?.paddingX ?? 0;
	}
	getPaddingX() {
		return this.paddingX;
	}
	setPaddingX(padding) {
		this.paddingX = padding;
	}
	getAutocompleteMaxVisible() {
		return 5;
	}
	setAutocompleteMaxVisible() {}
	setAutocompleteProvider() {}
	isShowingAutocomplete() {
		return false;
	}
	addToHistory(text) {
		if (text.trim()) this.past.unshift(text);
	}
	getText() {
		return this.typing.text;
	}
	getExpandedText() {
		return this.getText();
	}
	getLines() {
		return this.getText().split("\n");
	}
	getCursor() {
		const before = this.typing.text.slice(0, this.typing.at).split("\n");
		return { line: before.length - 1, col: before.at(-1).length };
	}
	setText(text) {
		this.change(() => this.typing.set(String(text ?? "")));
	}
	insertTextAtCursor(text) {
		this.change(() => this.typing.insert(String(text)));
	}
	change(act) {
		const before = this.typing.text;
		act();
		if (this.typing.text !== before) this.onChange?.(this.typing.text);
		this.tui?.requestRender?.();
	}
	handleInput(data) {
		const { text, at } = this.typing;
		if (is(data, "tui.input.newLine") || (matchesKey(data, "enter") && text[at - 1] === "\\")) {
			this.change(() => this.typing.replace(text[at - 1] === "\\" && matchesKey(data, "enter") && data !== "\n" ? at - 1 : at, at, "\n"));
		} else if (is(data, "tui.input.submit")) {
			if (!this.disableSubmit) this.submit();
		} else if (is(data, "tui.editor.cursorUp")) this.change(() => this.move(-1));
		else if (is(data, "tui.editor.cursorDown")) this.change(() => this.move(1));
		else this.change(() => this.typing.key(data));
	}
	submit() {
		const text = this.getText().trim();
		this.setText("");
		this.recalled = -1;
		this.onSubmit?.(text);
	}
	move(by) {
		const lines = this.getLines();
		const { line, col } = this.getCursor();
		if (lines[line + by] !== undefined) {
			const start = lines.slice(0, line + by).reduce((sum, each) => sum + each.length + 1, 0);
			this.typing.set(this.typing.text, start + Math.min(col, lines[line + by].length));
		} else if ((this.typing.text === "" || this.recalled >= 0) && this.past.length) {
			this.recalled = Math.max(-1, Math.min(this.recalled - by, this.past.length - 1));
			this.typing.set(this.past[this.recalled] ?? "");
		} else this.typing.set(this.typing.text, by < 0 ? 0 : this.typing.text.length);
	}
	invalidate() {}
	renderTopBorder(width) {
		return this.borderColor("─".repeat(width));
	}
	renderBottomBorder(width) {
		return this.borderColor("─".repeat(width));
	}
	render(width) {
		const side = " ".repeat(this.paddingX);
		const room = Math.max(width - 2 * this.paddingX - 1, 1);
		const rows = Math.max(5, Math.floor((this.tui?.terminal?.rows ?? 24) * 0.3));
		const { text, at } = this.typing;
		const shown = brokenAt(withCursor(text, at, this.focused), room);
		const here = shown.findIndex((line) => line.includes("\x1b[7m"));
		const first = Math.max(0, Math.min(here - rows + 1, shown.length - rows));
		return [
			this.renderTopBorder(width, first),
			...shown.slice(first, first + rows).map((line) => side + line),
			this.renderBottomBorder(width, Math.max(shown.length - first - rows, 0)),
		];
	}
}

/** A text as lines that break where they are full. Sequences of the terminal take no room. */
function brokenAt(text, width) {
	return text.split("\n").flatMap((line) => {
		const lines = [];
		let [shown, used] = ["", 0];
		for (const piece of line.split(/(\x1b_pi:c\x07|\x1b\[\d+m)/)) {
			if (piece.startsWith("\x1b")) {
				shown += piece;
				continue;
			}
			for (const grapheme of graphemes(piece)) {
				if (used + widthOf(grapheme) > width + 1) {
					lines.push(shown);
					[shown, used] = ["", 0];
				}
				shown += grapheme === "\t" ? "   " : grapheme;
				used += widthOf(grapheme);
			}
		}
		return [...lines, shown];
	});
}

/** The rows of a list around the selected one. */
function page(items, selected, most) {
	const first = Math.max(0, Math.min(selected - Math.floor(most / 2), items.length - most));
	return items.slice(first, first + most).map((item, at) => [item, first + at]);
}

const around = (at, by, count) => (count ? (at + by + count) % count : 0);

/** A list to choose from. */
export class SelectList {
	onSelect = undefined;
	onCancel = undefined;
	onSelectionChange = undefined;
	selected = 0;
	constructor(items, most, colours = {}, layout = {}) {
		Object.assign(this, { items, found: items, most, layout: layout ?? {} });
		this.theme = new Proxy(colours ?? {}, { get: (target, name) => target[name] ?? String });
	}
	setFilter(filter) {
		const wanted = filter.toLowerCase();
		this.found = this.items.filter((item) => String(item.value).toLowerCase().startsWith(wanted));
		this.selected = 0;
	}
	setSelectedIndex(index) {
		this.selected = Math.max(0, Math.min(index, this.found.length - 1));
	}
	getSelectedItem() {
		return this.found[this.selected] ?? null;
	}
	invalidate() {}
	handleInput(data) {
		const item = this.getSelectedItem();
		if (is(data, "tui.select.cancel")) this.onCancel?.();
		else if (is(data, "tui.select.confirm")) item && this.onSelect?.(item);
		else if (is(data, "tui.select.up")) this.move(around(this.selected, -1, this.found.length));
		else if (is(data, "tui.select.down")) this.move(around(this.selected, 1, this.found.length));
		else if (is(data, "tui.select.pageUp")) this.move(Math.max(this.selected - this.most, 0));
		else if (is(data, "tui.select.pageDown")) this.move(Math.min(this.selected + this.most, this.found.length - 1));
	}
	move(to) {
		this.selected = to;
		const item = this.getSelectedItem();
		if (item) this.onSelectionChange?.(item);
	}
	render(width) {
		const { selectedPrefix, selectedText, description, scrollInfo, noMatch } = this.theme;
		if (!this.found.length) return [noMatch("  No matching commands")];
		const rows = page(this.found, this.selected, this.most);
		const widest = Math.max(...this.found.map((item) => visibleWidth(item.label || String(item.value))));
		const column = Math.min(Math.max(widest + 2, this.layout.minPrimaryColumnWidth ?? 1), this.layout.maxPrimaryColumnWidth ?? 32, width - 2);
		const lines = rows.map(([item, at]) => {
			const isChosen = at === this.selected;
			const label = truncateToWidth(item.label || String(item.value), Math.max(item.description ? column - 2 : width - 2, 1), "");
			const about = item.description && width > 40 ? truncateToWidth(item.description.replace(/[\r\n]+/g, " "), width - column - 4, "") : "";
			const gap = about ? " ".repeat(Math.max(column - visibleWidth(label), 1)) : "";
			return isChosen ? selectedPrefix("→ ") + selectedText(label + gap + about) : `  ${label}${description(gap + about)}`;
		});
		if (this.found.length > this.most) lines.push(scrollInfo(truncateToWidth(`  (${this.selected + 1}/${this.found.length})`, width - 2, "")));
		return lines;
	}
}

/** A list of settings. Enter and space go to the next value, or open a component of the setting's own. */
export class SettingsList {
	selected = 0;
	submenu = undefined;
	constructor(items, most, colours, onChange, onCancel, options = {}) {
		Object.assign(this, { items, found: items, most, onChange, onCancel });
		this.theme = new Proxy(colours ?? {}, { get: (target, name) => target[name] ?? (name === "cursor" ? "→ " : String) });
		this.search = options?.enableSearch ? new Input() : undefined;
	}
	updateValue(id, value) {
		const item = this.items.find((each) => each.id === id);
		if (item) item.currentValue = value;
	}
	selectItem(id) {
		this.selected = Math.max(0, this.found.findIndex((each) => each.id === id));
	}
	invalidate() {
		this.submenu?.invalidate?.();
	}
	handleInput(data) {
		if (this.submenu) return void this.submenu.handleInput?.(data);
		if (is(data, "tui.select.cancel")) this.onCancel();
		else if (is(data, "tui.select.up")) this.selected = around(this.selected, -1, this.found.length);
		else if (is(data, "tui.select.down")) this.selected = around(this.selected, 1, this.found.length);
		else if (is(data, "tui.select.confirm") || data === " ") this.activate(this.found[this.selected]);
		else if (this.search) {
			this.search.handleInput(data);
			this.found = fuzzyFilter(this.items, this.search.getValue(), (item) => item.label);
			this.selected = 0;
		}
	}
	activate(item) {
		if (!item) return;
		if (item.submenu) {
			this.submenu = item.submenu(item.currentValue, (value, options) => {
				this.submenu = undefined;
				if (value !== undefined) this.change(item, value);
				if (options?.navigateTo) this.selectItem(options.navigateTo);
			});
		} else if (item.values?.length) {
			this.change(item, item.values[(item.values.indexOf(item.currentValue) + 1) % item.values.length]);
		}
	}
	change(item, value) {
		item.currentValue = value;
		this.onChange(item.id, value);
	}
	render(width) {
		if (this.submenu) return this.submenu.render(width);
		const { label, value, description, hint, cursor: mark } = this.theme;
		const head = this.search ? [...this.search.render(width), ""] : [];
		const column = Math.min(30, Math.max(0, ...this.items.map((item) => visibleWidth(item.label))));
		const rows = page(this.found, this.selected, this.most).map(([item, at]) => {
			const isChosen = at === this.selected;
			const name = item.label + " ".repeat(Math.max(column - visibleWidth(item.label), 0));
			const room = Math.max(width - column - 4, 1);
			return (isChosen ? mark : "  ") + label(name, isChosen) + "  " + value(truncateToWidth(String(item.currentValue), room, ""), isChosen);
		});
		if (!rows.length) rows.push(hint("  No matching settings"));
		if (this.found.length > this.most) rows.push(hint(`  (${this.selected + 1}/${this.found.length})`));
		const about = this.found[this.selected]?.description;
		const more = about ? ["", ...wrapTextWithAnsi(about, Math.max(width - 4, 1)).map((line) => description(`  ${line}`))] : [];
		return [...head, ...rows, ...more, "", hint(truncateToWidth("  Enter/Space to change · Esc to cancel", width, ""))];
	}
}
