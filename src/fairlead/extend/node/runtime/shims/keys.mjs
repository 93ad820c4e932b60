// Keys of a terminal: what their bytes mean, and which of them stand for which action.

/** The names of keys in the sequences that terminals send: after `ESC [` or `ESC O`, and by number before `~`. */
const LETTERS = { A: "up", B: "down", C: "right", D: "left", E: "clear", F: "end", H: "home", P: "f1", Q: "f2", R: "f3", S: "f4" };
const NUMBERS = {
	...{ 1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageUp", 6: "pageDown", 7: "home", 8: "end", 11: "f1", 12: "f2", 13: "f3" },
	...{ 14: "f4", 15: "f5", 17: "f6", 18: "f7", 19: "f8", 20: "f9", 21: "f10", 23: "f11", 24: "f12" },
};
/** Keys with a code in the kitty protocol, and single bytes. */
const CODES = { 8: "backspace", 9: "tab", 13: "enter", 27: "escape", 32: "space", 127: "backspace", 57414: "enter" };
const ALIASES = { esc: "escape", return: "enter", del: "delete", ins: "insert", pageup: "pageUp", pagedown: "pageDown" };
const MODIFIERS = ["shift", "alt", "ctrl", "super"];
const KITTY = /^\x1b\[(\d+)(?::\d*)*(?:;(\d+)(?::(\d+))?)?(?:;[\d:]*)?u$/;
const OTHER = /^\x1b\[27;(\d+);(\d+)~$/;
const FUNCTION = /^\x1b(?:\[|O)(?:1;(\d+)(?::(\d+))?)?([A-FHPQRS])$/;
const TILDE = /^\x1b\[(\d+)(?:;(\d+)(?::(\d+))?)?~$/;
/** What these send in terminals without a name of their own for them. */
const LEGACY = { "\x1bb": "alt+left", "\x1bf": "alt+right", "\x1b[Z": "shift+tab", "\x1f": "ctrl+-", "\x00": "ctrl+space", "\x08": "ctrl+backspace" };

/** The name of a key with its modifiers, in one order. */
function named(key, modifiers) {
	return [...MODIFIERS.filter((each) => modifiers.has(each)).reverse(), key].join("+");
}

function withBits(key, bits) {
	const number = (Number(bits) || 1) - 1;
	return named(key, new Set(MODIFIERS.filter((_, at) => number & (1 << at))));
}

function ofCode(code, bits) {
	const number = Number(code);
	return withBits(CODES[number] ?? (number > 0 && number < 0x110000 ? String.fromCodePoint(number).toLowerCase() : "unknown"), bits);
}

/** All names of the key that some bytes stand for; none if they are no key. */
function namesOf(data) {
	if (typeof data !== "string" || data === "") return [];
	let match;
	if ((match = KITTY.exec(data))) return [ofCode(match[1], match[2])];
	if ((match = OTHER.exec(data))) return [ofCode(match[2], match[1])];
	if ((match = FUNCTION.exec(data))) return [withBits(LETTERS[match[3]], match[1])];
	if ((match = TILDE.exec(data)) && NUMBERS[match[1]]) return [withBits(NUMBERS[match[1]], match[2])];
	if (data === "\n") return ["enter", "ctrl+j"];
	const more = LEGACY[data] ? [LEGACY[data]] : [];
	if ([...data].length === 1) return [...more, ...ofCharacter(data)];
	if (data.startsWith("\x1b") && [...data].length === 2) return [...more, ...ofCharacter(data.slice(1)).map((each) => canonical(`alt+${each}`))];
	if (data.startsWith("\x1b\x1b")) return namesOf(data.slice(1)).map((each) => canonical(`alt+${each}`));
	return more;
}

function ofCharacter(character) {
	const code = character.codePointAt(0);
	if (code === 8) return ["backspace", "ctrl+h"];
	if (CODES[code]) return [CODES[code]];
	if (code > 0 && code < 27) return [`ctrl+${String.fromCharCode(code + 96)}`];
	if (code < 32) return [`ctrl+${"\\]^_"[code - 28] ?? "@"}`];
	const lower = character.toLowerCase();
	return lower === character ? [character] : [`shift+${lower}`, character];
}

function canonical(id) {
	const parts = String(id).split("+");
	// The key itself can be a plus sign.
	const last = parts.at(-1) === "" ? "+" : parts.at(-1);
	const key = last.length === 1 ? last.toLowerCase() : (ALIASES[last.toLowerCase()] ?? last);
	return named(key, new Set(parts.slice(0, -1).map((each) => each.toLowerCase())));
}

/** Whether the bytes of a terminal are the key with a name, such as `up`, `ctrl+c` or `shift+enter`. */
export const matchesKey = (data, id) => namesOf(data).includes(canonical(id));
export const parseKey = (data) => namesOf(data).at(-1);
const kindOf = (data) => (KITTY.exec(data) ?? TILDE.exec(data))?.[3] ?? FUNCTION.exec(data)?.[2];
export const isKeyRelease = (data) => kindOf(data) === "3";
export const isKeyRepeat = (data) => kindOf(data) === "2";
export const isKittyProtocolActive = () => false;
export const setKittyProtocolActive = () => {};

/** The text that a key stands for in the kitty protocol. */
export function decodeKittyPrintable(data) {
	const match = KITTY.exec(data);
	const code = Number(match?.[1]);
	return match && code >= 32 && code !== 127 && [undefined, "1", "2"].includes(match[2]) ? String.fromCodePoint(code) : undefined;
}

/** The text that was typed or pasted, without control characters; nothing for all other keys. */
export function typedText(data) {
	const pasted = /^\x1b\[200~([^]*?)(?:\x1b\[201~)?$/.exec(data);
	if (pasted) return pasted[1].replace(/\r\n?/g, "\n").replace(/\t/g, "    ").replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/g, "");
	const text = decodeKittyPrintable(data) ?? data;
	return text && !/[\x00-\x1f\x7f-\x9f]/.test(text) ? text : undefined;
}

const PLAIN_KEYS = "escape esc enter return tab space backspace delete insert clear home end pageUp pageDown up down left right f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12".split(" ");
const SYMBOLS = {
	...{ backtick: "`", hyphen: "-", equals: "=", leftbracket: "[", rightbracket: "]", backslash: "\\", semicolon: ";", quote: "'" },
	...{ comma: ",", period: ".", slash: "/", exclamation: "!", at: "@", hash: "#", dollar: "$", percent: "%", caret: "^", ampersand: "&" },
	...{ asterisk: "*", leftparen: "(", rightparen: ")", underscore: "_", plus: "+", pipe: "|", tilde: "~", leftbrace: "{", rightbrace: "}" },
	...{ colon: ":", lessthan: "<", greaterthan: ">", question: "?" },
};
const COMBINATIONS = [...MODIFIERS, ...MODIFIERS.flatMap((one) => MODIFIERS.filter((other) => other !== one).map((other) => `${one} ${other}`)), "ctrl shift alt", "ctrl shift super"];

/** `ctrl shift` makes `ctrlShift`, which adds both to the name of a key. */
function combination(words) {
	const [first, ...rest] = words.split(" ");
	const name = first + rest.map((each) => each[0].toUpperCase() + each.slice(1)).join("");
	return [name, (key) => `${words.replaceAll(" ", "+")}+${key}`];
}

export const Key = {
	...Object.fromEntries(PLAIN_KEYS.map((name) => [name, name])),
	...SYMBOLS,
	...Object.fromEntries(COMBINATIONS.map(combination)),
};

/** The keys of each action, as pi has them from the start. Those of the user's own keybindings.json are not read. */
const KEYS_OF = {
	...{ "tui.editor.cursorUp": "up", "tui.editor.cursorDown": "down", "tui.editor.historyPrevious": "", "tui.editor.historyNext": "" },
	...{ "tui.editor.cursorLeft": "left ctrl+b", "tui.editor.cursorRight": "right ctrl+f" },
	...{ "tui.editor.cursorWordLeft": "alt+left ctrl+left alt+b", "tui.editor.cursorWordRight": "alt+right ctrl+right alt+f" },
	...{ "tui.editor.cursorLineStart": "home ctrl+home ctrl+a", "tui.editor.cursorLineEnd": "end ctrl+end ctrl+e" },
	...{ "tui.editor.jumpForward": "ctrl+]", "tui.editor.jumpBackward": "ctrl+alt+]" },
	...{ "tui.editor.pageUp": "pageUp ctrl+pageUp", "tui.editor.pageDown": "pageDown ctrl+pageDown" },
	...{ "tui.editor.deleteCharBackward": "backspace", "tui.editor.deleteCharForward": "delete ctrl+d" },
	...{ "tui.editor.deleteWordBackward": "ctrl+w alt+backspace", "tui.editor.deleteWordForward": "alt+d alt+delete" },
	...{ "tui.editor.deleteToLineStart": "ctrl+u", "tui.editor.deleteToLineEnd": "ctrl+k", "tui.editor.yank": "ctrl+y" },
	...{ "tui.editor.yankPop": "alt+y", "tui.editor.undo": "ctrl+-", "tui.input.newLine": "shift+enter ctrl+j", "tui.input.submit": "enter" },
	...{ "tui.input.tab": "tab", "tui.input.copy": "ctrl+c", "tui.select.up": "up", "tui.select.down": "down" },
	...{ "tui.select.pageUp": "pageUp", "tui.select.pageDown": "pageDown", "tui.select.confirm": "enter", "tui.select.cancel": "escape ctrl+c" },
	...{ "app.interrupt": "escape", "app.clear": "ctrl+c", "app.exit": "ctrl+d", "app.suspend": "ctrl+z", "app.editor.external": "ctrl+g" },
	...{ "app.clipboard.pasteImage": "ctrl+v", "app.model.select": "ctrl+l", "app.model.cycleForward": "ctrl+p" },
	...{ "app.model.cycleBackward": "shift+ctrl+p", "app.thinking.cycle": "shift+tab", "app.thinking.toggle": "ctrl+t" },
	...{ "app.tools.expand": "ctrl+o", "app.message.followUp": "alt+enter", "app.message.dequeue": "alt+up" },
};

export const TUI_KEYBINDINGS = Object.fromEntries(
	Object.entries(KEYS_OF).map(([id, keys]) => [id, { defaultKeys: keys ? keys.split(" ") : [], description: "" }]),
);

/** Which keys stand for which action. */
export class KeybindingsManager {
	constructor(definitions = TUI_KEYBINDINGS, own = {}) {
		this.definitions = definitions;
		this.own = own;
	}
	matches(data, id) {
		return this.getKeys(id).some((key) => matchesKey(data, key));
	}
	getKeys(id) {
		return [this.own[id] ?? this.definitions[id]?.defaultKeys ?? []].flat();
	}
	getDefinition(id) {
		return this.definitions[id];
	}
	getConflicts() {
		return [];
	}
	setUserBindings(own) {
		this.own = own ?? {};
	}
	getUserBindings() {
		return { ...this.own };
	}
	getResolvedBindings() {
		return Object.fromEntries(Object.keys(this.definitions).map((id) => [id, this.getKeys(id)]));
	}
	reload() {}
}

let current = new KeybindingsManager();
export const getKeybindings = () => current;
export const setKeybindings = (manager) => {
	current = manager;
};

/** The keys of an action, as people read them. */
export const keyText = (id) => current.getKeys(id).join("/");
