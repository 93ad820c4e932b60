// `ctx.ui.theme`: colours for text. Hosts that show no colours remove the codes.

const RESET = 39;
const COLOURS = {
	accent: 109,
	border: 67,
	borderAccent: 44,
	borderMuted: 239,
	success: 108,
	error: 167,
	warning: 221,
	muted: 244,
	dim: 241,
	thinkingText: 244,
	toolTitle: 252,
	toolOutput: 244,
	customMessageLabel: 141,
	text: 252,
	mdHeading: 221,
	mdLink: 110,
	mdLinkUrl: 241,
	mdCode: 109,
	mdCodeBlock: 108,
	mdCodeBlockBorder: 244,
	mdQuote: 244,
	mdQuoteBorder: 244,
	mdHr: 244,
	mdListBullet: 109,
	toolDiffAdded: 108,
	toolDiffRemoved: 167,
	toolDiffContext: 244,
	syntaxKeyword: 74,
	syntaxString: 173,
	syntaxNumber: 151,
	syntaxComment: 65,
	bashMode: 108,
};
const BACKGROUNDS = { selectedBg: 237, userMessageBg: 236, customMessageBg: 236, toolPendingBg: 235, toolSuccessBg: 22, toolErrorBg: 52 };

const style = (on, off) => (text) => `\x1b[${on}m${text}\x1b[${off}m`;

const colours = {
	name: "dark",
	fg: (colour, text) => (COLOURS[colour] === undefined ? style(RESET, RESET)(text) : style(`38;5;${COLOURS[colour]}`, RESET)(text)),
	bg: (colour, text) => style(`48;5;${BACKGROUNDS[colour] ?? 236}`, 49)(text),
	bold: style(1, 22),
	italic: style(3, 23),
	underline: style(4, 24),
	inverse: style(7, 27),
	strikethrough: style(9, 29),
	getFgAnsi: (colour) => `\x1b[38;5;${COLOURS[colour] ?? 252}m`,
	getBgAnsi: (colour) => `\x1b[48;5;${BACKGROUNDS[colour] ?? 236}m`,
	getColorMode: () => "256color",
	getThinkingBorderColor: () => (text) => style(`38;5;${COLOURS.border}`, RESET)(text),
	getBashModeBorderColor: () => (text) => style(`38;5;${COLOURS.bashMode}`, RESET)(text),
};

const ATTRIBUTES = ["bold", "italic", "underline", "inverse", "strikethrough"];

/** The colours, with what combines them. There is one theme: the front end decides whether colours are shown at all. */
export class Theme {
	constructor() {
		Object.assign(this, colours);
	}
	get appearance() {
		return "dark";
	}
	get colors() {
		return { ...COLOURS, ...BACKGROUNDS };
	}
	style(text, options = {}) {
		let shown = text;
		for (const name of ATTRIBUTES) if (options[name]) shown = colours[name](shown);
		if (options.dim) shown = style(2, 22)(shown);
		if (typeof options.fg === "string") shown = colours.fg(options.fg, shown);
		return typeof options.bg === "string" ? colours.bg(options.bg, shown) : shown;
	}
}

export const theme = new Theme();
