// Text in a terminal: how many columns it takes, where it is cut and where it wraps. Styles are SGR sequences.

const CODES = /\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const SGR = /(\x1b\[[0-9;:]*m)/;
const RESETS = new Set(["\x1b[0m", "\x1b[m"]);
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe0f\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f1e6}-\u{1f1ff}]|[\u{1f300}-\u{1faff}]|[\u{20000}-\u{3fffd}]/u;
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]$/u;
const PLAIN = /^[ -~]*$/;
/** The columns of a tab. */
const TAB = "   ";
const segmenter = new Intl.Segmenter();

export const graphemes = (text) => (PLAIN.test(text) ? [...text] : [...segmenter.segment(text)].map((each) => each.segment));
export const widthOf = (grapheme) => (grapheme === "\t" ? TAB.length : ZERO.test(grapheme) ? 0 : WIDE.test(grapheme) ? 2 : 1);

export const stripTerminalSequences = (text) => String(text).replace(CODES, "");

/** The number of columns that a text takes in a terminal. */
export function visibleWidth(text) {
	const shown = stripTerminalSequences(text);
	return PLAIN.test(shown) ? shown.length : graphemes(shown).reduce((sum, each) => sum + widthOf(each), 0);
}

/** Cut a text so that it takes at most `width` columns. */
export function truncateToWidth(text, width, ellipsis = "...", pad = false) {
	const given = String(text);
	const size = visibleWidth(given);
	if (size <= width) return pad ? given + " ".repeat(width - size) : given;
	const mark = visibleWidth(ellipsis) <= width ? ellipsis : "";
	const { text: cut, width: used } = sliceWithWidth(given, 0, width - visibleWidth(mark), true);
	const end = `${cut.includes("\x1b") ? "\x1b[0m" : ""}${mark}`;
	return pad ? cut + end + " ".repeat(Math.max(width - used - visibleWidth(mark), 0)) : cut + end;
}

/** The part of a line from a column on, with the styles that are on there, and its width. `strict` leaves out half characters. */
export function sliceWithWidth(line, start, length, strict = false) {
	let [text, column, used] = ["", 0, 0];
	for (const part of String(line).split(SGR)) {
		if (SGR.test(part)) {
			if (used < length) text += part;
			continue;
		}
		for (const grapheme of graphemes(part.replace(CODES, ""))) {
			const width = widthOf(grapheme);
			const fits = strict ? column + width <= start + length : column < start + length;
			if (column >= start && fits) {
				text += grapheme;
				used += width;
			} else if (column + width > start + length) return { text, width: used };
			column += width;
		}
	}
	return { text, width: used };
}

export const sliceByColumn = (line, start, length, strict = false) => sliceWithWidth(line, start, length, strict).text;

/** Break a text into lines of at most `width` columns, between words where possible. Styles go on in the next line. */
export function wrapTextWithAnsi(text, width) {
	const room = Math.max(1, Math.floor(width) || 1);
	const lines = [];
	let styles = "";
	for (const paragraph of String(text).split("\n")) {
		let [line, used, gap] = [styles, 0, ""];
		const end = () => {
			lines.push(line);
			[line, used, gap] = [styles, 0, ""];
		};
		const put = (word, size) => {
			line += gap + word;
			used += gap.length + size;
			gap = "";
		};
		for (const piece of paragraph.replaceAll("\t", TAB).split(/(\x1b\[[0-9;:]*m| +)/)) {
			if (piece === "") continue;
			if (SGR.test(piece)) {
				line += gap + piece;
				used += gap.length;
				gap = "";
				styles = RESETS.has(piece) ? "" : styles + piece;
			} else if (piece[0] === " ") {
				gap = used + piece.length > room ? "" : piece;
			} else {
				const size = visibleWidth(piece);
				if (used && used + gap.length + size > room) end();
				if (used + gap.length + size <= room) put(piece, size);
				else {
					for (const grapheme of graphemes(stripTerminalSequences(piece))) {
						if (used + widthOf(grapheme) > room) end();
						put(grapheme, widthOf(grapheme));
					}
				}
			}
		}
		end();
	}
	return lines;
}

/** Put a background behind a line, over the whole width. */
export function withBackground(line, width, background) {
	const padded = line + " ".repeat(Math.max(width - visibleWidth(line), 0));
	return background ? background(padded) : padded;
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
