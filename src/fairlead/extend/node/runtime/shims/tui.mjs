// Stands in for `@earendil-works/pi-tui`. Components render themselves to lines, which the chat draws; other front ends draw nothing.

import { missing } from "./agent-facts.mjs";

export * from "./components.mjs";
export * from "./editors.mjs";
export {
	decodeKittyPrintable,
	getKeybindings,
	isKeyRelease,
	isKeyRepeat,
	isKittyProtocolActive,
	Key,
	KeybindingsManager,
	matchesKey,
	parseKey,
	setKeybindings,
	setKittyProtocolActive,
	TUI_KEYBINDINGS,
} from "./keys.mjs";
export { fuzzyFilter, fuzzyMatch, sliceByColumn, stripTerminalSequences, truncateToWidth, visibleWidth, wrapTextWithAnsi } from "./text.mjs";

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
function inert(fields = {}) {
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
