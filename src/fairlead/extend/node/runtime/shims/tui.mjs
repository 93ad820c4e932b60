// Stands in for `@earendil-works/pi-tui`. No terminal belongs to an extension here, so components draw nothing; functions about
// text do what their names say.

import { missing } from "./agent-facts.mjs";

/** The classes of pi's terminal: all of pi-tui, and of its other packages those that are named like this. */
const DRAWS = /(Component|Editor|Border|Loader|Selector|View|Layout|Theme|KeybindingsManager)$/;

/** Stands for a name that a module does not have. Classes that draw do nothing; everything else says so when it is used. */
export function standIn(what, name) {
	const draws = /^[A-Z]/.test(name) && (what === "pi-tui" || (what === "pi-coding-agent" && DRAWS.test(name)));
	return draws ? inertClass() : missing(what, name);
}

const inertClass = () =>
	class {
		constructor() {
			return inert();
		}
	};

/** A component that draws nothing, whatever is called on it. */
export function inert(fields = {}) {
	const nothing = () => undefined;
	return new Proxy(fields, {
		get: (target, name) => {
			if (name in target || typeof name === "symbol" || name === "then") return target[name];
			return name === "render" ? () => [] : nothing;
		},
		set: (target, name, value) => {
			target[name] = value;
			return true;
		},
	});
}

export class Component {
	constructor(...given) {
		this.given = given;
		this.children = [];
	}

	addChild(child) {
		this.children.push(child);
	}

	removeChild(child) {
		this.children = this.children.filter((each) => each !== child);
	}

	clear() {
		this.children = [];
	}

	render() {
		return [];
	}

	invalidate() {}
	handleInput() {}
	dispose() {}
	setText(text) {
		this.text = text;
	}
	getText() {
		return this.text ?? "";
	}
	setValue(value) {
		this.value = value;
	}
	getValue() {
		return this.value ?? "";
	}
}

export class Container extends Component {}
export class Box extends Component {}
export class Text extends Component {}
export class TruncatedText extends Component {}
export class Spacer extends Component {}
export class Markdown extends Component {}
export class Image extends Component {}
export class Loader extends Component {}
export class CancellableLoader extends Component {}
export class Input extends Component {}
export class Editor extends Component {}
export class SelectList extends Component {}
export class SettingsList extends Component {}
export class TUI extends Component {
	requestRender() {}
}

export const CURSOR_MARKER = "";
export const renderFakeCursor = (text) => text;

const KEYS = ["escape", "enter", "return", "tab", "space", "backspace", "delete", "home", "end", "pageUp", "pageDown", "up", "down", "left", "right"];

export const Key = {
	...Object.fromEntries(KEYS.map((name) => [name, name.toLowerCase()])),
	ctrl: (key) => `ctrl+${key}`,
	shift: (key) => `shift+${key}`,
	alt: (key) => `alt+${key}`,
	ctrlShift: (key) => `ctrl+shift+${key}`,
	ctrlAlt: (key) => `ctrl+alt+${key}`,
	shiftAlt: (key) => `shift+alt+${key}`,
};

export const matchesKey = (data, key) => data === key;
export const parseKey = (data) => data;
export const isKeyRelease = () => false;
export const isKeyRepeat = () => false;

const CODES = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}]|[\u{20000}-\u{3fffd}]/u;
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
const segmenter = new Intl.Segmenter();

const widthOf = (grapheme) => (ZERO.test(grapheme) ? 0 : WIDE.test(grapheme) ? 2 : 1);
const graphemes = (text) => [...segmenter.segment(text)].map((each) => each.segment);

/** The number of columns that a text takes in a terminal. */
export const visibleWidth = (text) => graphemes(String(text).replace(CODES, "")).reduce((sum, each) => sum + widthOf(each), 0);

/** Cut a text so that it takes at most `width` columns. */
export function truncateToWidth(text, width, ellipsis = "...", pad = false) {
	const size = visibleWidth(text);
	if (size <= width) return pad ? text + " ".repeat(width - size) : text;
	const room = Math.max(width - visibleWidth(ellipsis), 0);
	let cut = "";
	let used = 0;
	for (const part of text.split(/(\x1b\[[0-9;]*m)/)) {
		if (part.startsWith("\x1b[")) {
			cut += part;
			continue;
		}
		for (const grapheme of graphemes(part)) {
			if (used + widthOf(grapheme) > room) return `${cut}\x1b[0m${ellipsis}`;
			cut += grapheme;
			used += widthOf(grapheme);
		}
	}
	return cut;
}

/** Break a text into lines of at most `width` columns, between words where possible. */
export function wrapTextWithAnsi(text, width) {
	return String(text)
		.split("\n")
		.flatMap((line) => {
			const lines = [""];
			for (const word of line.split(/(?<= )/)) {
				const last = lines.length - 1;
				if (lines[last] && visibleWidth(lines[last]) + visibleWidth(word.trimEnd()) > width) lines.push(word);
				else lines[last] += word;
			}
			return lines.map((each) => each.trimEnd());
		});
}

/** Whether the letters of `query` occur in `text` in order, and how far apart: a lower score is better. */
export function fuzzyMatch(query, text) {
	const [wanted, given] = [query.toLowerCase(), text.toLowerCase()];
	let [at, score] = [-1, 0];
	for (const letter of wanted) {
		const next = given.indexOf(letter, at + 1);
		if (next < 0) return { matches: false, score: 0 };
		score += next - at - 1;
		at = next;
	}
	return { matches: true, score };
}

export function fuzzyFilter(items, query, getText = String) {
	if (!query.trim()) return items;
	return items
		.map((item) => ({ item, ...fuzzyMatch(query.trim(), getText(item)) }))
		.filter((each) => each.matches)
		.sort((left, right) => left.score - right.score)
		.map((each) => each.item);
}
