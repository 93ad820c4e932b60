// The components of pi's terminal that show something: text, boxes, lists of other components. Each renders itself to lines.

import { theme } from "../theme.mjs";
import { matchesKey } from "./keys.mjs";
import { sliceByColumn, truncateToWidth, visibleWidth, withBackground, wrapTextWithAnsi } from "./text.mjs";

/** Marks where the cursor of the terminal belongs. */
export const CURSOR_MARKER = "\x1b_pi:c\x07";
export const renderFakeCursor = (text) => `\x1b[7m${text}\x1b[27m`;
export const isFocusable = (component) => component !== null && typeof component === "object" && "focused" in component;

export class Container {
	children = [];
	addChild(child) {
		this.children.push(child);
	}
	removeChild(child) {
		this.children = this.children.filter((each) => each !== child);
	}
	clear() {
		this.children = [];
	}
	invalidate() {
		for (const child of this.children) child.invalidate?.();
	}
	render(width) {
		return this.children.flatMap((child) => child.render(width));
	}
}

/** Components one below the other, with space around them and a background. */
export class Box extends Container {
	constructor(paddingX = 1, paddingY = 1, background = undefined) {
		super();
		Object.assign(this, { paddingX, paddingY, background });
	}
	setBgFn(background) {
		this.background = background;
	}
	render(width) {
		const lines = super.render(Math.max(width - 2 * this.paddingX, 1));
		if (!lines.length) return [];
		const space = Array(this.paddingY).fill("");
		const left = " ".repeat(this.paddingX);
		return [...space, ...lines.map((line) => left + line), ...space].map((line) => withBackground(line, width, this.background));
	}
}

export class Text {
	constructor(text = "", paddingX = 1, paddingY = 1, background = undefined) {
		Object.assign(this, { text, paddingX, paddingY, background });
	}
	setText(text) {
		this.text = text;
	}
	getText() {
		return this.text;
	}
	setCustomBgFn(background) {
		this.background = background;
	}
	invalidate() {}
	linesFor(width) {
		return wrapTextWithAnsi(this.text, width);
	}
	render(width) {
		if (!String(this.text ?? "").trim()) return [];
		const left = " ".repeat(this.paddingX);
		const lines = this.linesFor(Math.max(width - 2 * this.paddingX, 1));
		const space = Array(this.paddingY).fill("");
		return [...space, ...lines.map((line) => left + line), ...space].map((line) => withBackground(line, width, this.background));
	}
}

export class TruncatedText {
	constructor(text = "", paddingX = 0, paddingY = 0) {
		Object.assign(this, { text, paddingX, paddingY });
	}
	setText(text) {
		this.text = text;
	}
	invalidate() {}
	render(width) {
		const space = Array(this.paddingY).fill("");
		const [first] = String(this.text).split("\n");
		return [...space, " ".repeat(this.paddingX) + truncateToWidth(first, Math.max(width - 2 * this.paddingX, 1)), ...space];
	}
}

export class Spacer {
	constructor(lines = 1) {
		this.lines = lines;
	}
	setLines(lines) {
		this.lines = lines;
	}
	invalidate() {}
	render() {
		return Array(this.lines).fill("");
	}
}

/** A line across the whole width. */
export class DynamicBorder {
	constructor(colour = (text) => theme.fg("border", text)) {
		this.colour = colour;
	}
	invalidate() {}
	render(width) {
		return [this.colour("─".repeat(Math.max(width, 1)))];
	}
}

/** Pictures are not drawn: their type stands in their place. */
export class Image {
	constructor(data = "", type = "image", colours = undefined) {
		Object.assign(this, { type, colours });
	}
	invalidate() {}
	render(width) {
		return [truncateToWidth((this.colours?.fallbackColor ?? String)(`[Image: ${this.type}]`), width)];
	}
}

const INLINE = /(`[^`]+`)|\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|~~([^~]+)~~|\[([^\]]+)\]\(([^)\s]+)\)/g;

/** Markdown as lines: headings, lists, quotes, code, and styles within a line. Tables and formulas stay as they are written. */
export class Markdown extends Text {
	constructor(text, paddingX = 0, paddingY = 0, colours = {}, style = undefined, options = undefined) {
		super(text, paddingX, paddingY, style?.bgColor);
		this.style = style ?? {};
		this.colours = new Proxy(colours ?? {}, { get: (target, name) => target[name] ?? String });
		this.options = options ?? {};
	}
	styled(text) {
		const { color, bold, italic, strikethrough, underline } = this.style;
		let shown = color ? color(text) : text;
		for (const [name, isOn] of Object.entries({ bold, italic, strikethrough, underline })) if (isOn) shown = this.colours[name](shown);
		return shown;
	}
	inline(text) {
		const { code, bold, italic, strikethrough, link, linkUrl } = this.colours;
		let [shown, at] = ["", 0];
		for (const match of text.matchAll(INLINE)) {
			const [whole, quoted, strong, strong2, weak, struck, label, url] = match;
			if (match.index > at) shown += this.styled(text.slice(at, match.index));
			if (quoted) shown += code(quoted.slice(1, -1));
			else if (strong ?? strong2) shown += bold(this.styled(strong ?? strong2));
			else if (weak) shown += italic(this.styled(weak));
			else if (struck) shown += strikethrough(this.styled(struck));
			else shown += link(label) + (label === url ? "" : linkUrl(` (${url})`));
			at = match.index + whole.length;
		}
		return at < text.length ? shown + this.styled(text.slice(at)) : shown;
	}
	linesFor(width) {
		const { heading, bold, codeBlock, codeBlockBorder, quote, quoteBorder, hr, listBullet, highlightCode } = this.colours;
		const lines = [];
		let fence;
		let code = [];
		const source = this.options.transform ? this.options.transform(String(this.text), width) : String(this.text);
		const endCode = () => {
			const shown = typeof highlightCode === "function" && highlightCode !== String ? highlightCode(code.join("\n"), fence.language) : code.map((line) => codeBlock(line));
			lines.push(...shown.flatMap((line) => wrapTextWithAnsi(`  ${line}`, width)), codeBlockBorder("```"));
			[fence, code] = [undefined, []];
		};
		for (const line of source.replace(/\n+$/, "").split("\n")) {
			const mark = /^\s*(`{3,}|~{3,})\s*(\S*)/.exec(line);
			if (fence) {
				if (mark && mark[1].startsWith(fence.mark) && !mark[2]) endCode();
				else code.push(line);
				continue;
			}
			if (mark) {
				fence = { mark: mark[1], language: mark[2] || undefined };
				lines.push(codeBlockBorder(`\`\`\`${mark[2]}`));
				continue;
			}
			const title = /^(#{1,6})\s+(.*)$/.exec(line);
			const item = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/.exec(line);
			const quoted = /^\s*>\s?(.*)$/.exec(line);
			if (title) lines.push(...wrapTextWithAnsi(heading(bold(title[2])), width));
			else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) lines.push(hr("─".repeat(Math.min(width, 80))));
			else if (item) {
				const bullet = `${item[1]}${/\d/.test(item[2]) ? item[2] : "-"} `;
				const wrapped = wrapTextWithAnsi(this.inline(item[3]), Math.max(width - bullet.length, 1));
				lines.push(...wrapped.map((each, at) => (at ? " ".repeat(bullet.length) : listBullet(bullet)) + each));
			} else if (quoted) {
				lines.push(...wrapTextWithAnsi(quote(this.inline(quoted[1])), Math.max(width - 2, 1)).map((each) => quoteBorder("│ ") + each));
			} else lines.push(...wrapTextWithAnsi(this.inline(line), width));
		}
		if (fence) endCode();
		return lines;
	}
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 80;

/** A spinner with a message. It turns until `stop`. */
export class Loader extends Text {
	constructor(tui, spinnerColour = String, messageColour = String, message = "Loading...", indicator = undefined) {
		super("", 1, 0);
		Object.assign(this, { tui, spinnerColour, messageColour, message, frame: 0 });
		this.setIndicator(indicator);
	}
	setIndicator(indicator) {
		this.frames = indicator?.frames ?? FRAMES.map((each) => this.spinnerColour(each));
		this.pace = indicator?.intervalMs ?? FRAME_MS;
		this.start();
	}
	start() {
		this.stop();
		if (this.frames.length > 1) {
			this.timer = setInterval(() => {
				this.frame += 1;
				this.tui?.requestRender?.();
			}, this.pace);
			this.timer.unref();
		}
		this.tui?.requestRender?.();
	}
	stop() {
		clearInterval(this.timer);
	}
	dispose() {
		this.stop();
	}
	setMessage(message) {
		this.message = message;
		this.tui?.requestRender?.();
	}
	render(width) {
		const picture = this.frames.length ? `${this.frames[this.frame % this.frames.length]} ` : "";
		this.text = picture + this.messageColour(this.message);
		return ["", ...super.render(width)];
	}
}

/** A spinner that Esc stops. */
export class CancellableLoader extends Loader {
	controller = new AbortController();
	onAbort = undefined;
	get signal() {
		return this.controller.signal;
	}
	get aborted() {
		return this.signal.aborted;
	}
	handleInput(data) {
		if (!matchesKey(data, "escape") && !matchesKey(data, "ctrl+c")) return;
		this.controller.abort();
		this.onAbort?.();
	}
}

/** A spinner between two lines, which Esc stops unless it is not `cancellable`. */
export class BorderedLoader extends Container {
	constructor(tui, colours, message, options = {}) {
		super();
		const paint = colours ?? theme;
		const border = (text) => paint.fg("border", text);
		this.cancellable = options?.cancellable !== false;
		this.loader = new CancellableLoader(tui, (text) => paint.fg("accent", text), (text) => paint.fg("muted", text), message);
		this.children = [new DynamicBorder(border), this.loader];
		if (this.cancellable) this.children.push(new Spacer(1), new Text(paint.fg("dim", "escape cancel"), 1, 0));
		this.children.push(new Spacer(1), new DynamicBorder(border));
	}
	get signal() {
		return this.loader.signal;
	}
	set onAbort(act) {
		this.loader.onAbort = act;
	}
	handleInput(data) {
		if (this.cancellable) this.loader.handleInput(data);
	}
	dispose() {
		this.loader.stop();
	}
}

class Stack extends Container {
	constructor(children = [], options = {}) {
		super();
		this.gap = options?.gap ?? 0;
		this.entries = [];
		for (const child of children) this.addChild(child.component ?? child, child.component ? child : undefined);
	}
	addChild(component, options = {}) {
		super.addChild(component);
		this.entries.push({ ...options, component });
	}
	removeChild(component) {
		super.removeChild(component);
		this.entries = this.entries.filter((each) => each.component !== component);
	}
	clear() {
		super.clear();
		this.entries = [];
	}
}

export class VStack extends Stack {
	render(width) {
		return this.children.flatMap((child, at) => [...Array(at ? this.gap : 0).fill(""), ...child.render(width)]);
	}
}

/** Components beside each other. Those without a width of their own share what is left. */
export class HStack extends Stack {
	render(width) {
		const fixed = this.entries.map(({ basis, minSize }) => (typeof basis === "number" ? basis : minSize));
		const taken = fixed.reduce((sum, each) => sum + (each ?? 0), this.gap * Math.max(this.entries.length - 1, 0));
		const open = fixed.filter((each) => each === undefined).length;
		const share = Math.max(Math.floor((width - taken) / Math.max(open, 1)), 1);
		const columns = this.entries.map(({ component }, at) => {
			const own = fixed[at] ?? share;
			return component.render(own).map((line) => truncateToWidth(line, own, "", true)).concat([" ".repeat(own)]);
		});
		const height = Math.max(0, ...columns.map((lines) => lines.length - 1));
		return Array.from({ length: height }, (_, row) =>
			truncateToWidth(columns.map((lines) => lines[row] ?? lines.at(-1)).join(" ".repeat(this.gap)), width, ""),
		);
	}
}

/** A part of another component's lines. */
export class ScrollView {
	constructor(component, options = {}) {
		Object.assign(this, { component, options: options ?? {}, top: 0 });
	}
	setOffset(top) {
		this.top = Math.max(0, top);
	}
	scrollBy(lines) {
		this.setOffset(this.top + lines);
	}
	scrollTo(top) {
		this.setOffset(top);
	}
	invalidate() {
		this.component?.invalidate?.();
	}
	handleInput(data) {
		this.component?.handleInput?.(data);
	}
	render(width) {
		const lines = this.component?.render?.(width) ?? [];
		const height = this.options.height ?? this.options.maxHeight ?? lines.length;
		this.top = Math.min(this.top, Math.max(lines.length - height, 0));
		return lines.slice(this.top, this.top + height);
	}
}

/** The mouse belongs to the terminal here, so this shows its component and nothing more. */
export class MouseRegion {
	constructor(component) {
		this.component = component;
	}
	invalidate() {
		this.component?.invalidate?.();
	}
	handleInput(data) {
		this.component?.handleInput?.(data);
	}
	render(width) {
		return this.component?.render?.(width) ?? [];
	}
}

/** A line with another one above a part of it. */
export function compositeTuiLine(base, overlay, start, width, total) {
	const left = truncateToWidth(base, start, "", true);
	const right = sliceByColumn(base, start + width, Math.max(total - start - width, 0));
	return `${left}\x1b[0m${truncateToWidth(overlay, width, "", true)}\x1b[0m${right}`;
}
