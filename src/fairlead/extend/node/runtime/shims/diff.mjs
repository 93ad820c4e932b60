// What has changed between two texts, for tools that run here, and for extensions that show changes.

/** Above this product of line counts, what differs is shown as one change. */
const MOST_WORK = 4_000_000;

/** The lines of a text, with their ends: the last one may have none. */
const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
const withoutEnd = (line) => line.replace(/\n$/, "");

/** The lines that two texts share, as pairs of their numbers, in order: the longest such list. */
function shared(before, after) {
	if (before.length * after.length > MOST_WORK) return [];
	const width = after.length + 1;
	const longest = new Uint32Array((before.length + 1) * width);
	for (let i = before.length - 1; i >= 0; i--) {
		for (let j = after.length - 1; j >= 0; j--) {
			const skipped = Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
			longest[i * width + j] = before[i] === after[j] ? longest[(i + 1) * width + j + 1] + 1 : skipped;
		}
	}
	const pairs = [];
	for (let i = 0, j = 0; i < before.length && j < after.length; ) {
		if (before[i] === after[j]) pairs.push([i++, j++]);
		else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
		else j++;
	}
	return pairs;
}

/** All lines in order, each with its sign and its numbers in both texts. */
function script(oldText, newText) {
	const [before, after] = [linesOf(oldText), linesOf(newText)];
	let start = 0;
	while (start < before.length && start < after.length && before[start] === after[start]) start++;
	let end = 0;
	while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
	const middle = shared(before.slice(start, before.length - end), after.slice(start, after.length - end));
	const same = [
		...Array.from({ length: start }, (_, number) => [number, number]),
		...middle.map(([i, j]) => [i + start, j + start]),
		...Array.from({ length: end }, (_, number) => [before.length - end + number, after.length - end + number]),
		[before.length, after.length],
	];
	const found = [];
	let [i, j] = [0, 0];
	for (const [nextI, nextJ] of same) {
		while (i < nextI) found.push({ sign: "-", line: before[i], old: ++i, new: j });
		while (j < nextJ) found.push({ sign: "+", line: after[j], old: i, new: ++j });
		if (nextI < before.length) found.push({ sign: " ", line: before[i], old: ++i, new: ++j });
	}
	return found;
}

/** The parts of a script that have changes, with lines around them. */
function hunks(lines, context) {
	const parts = [];
	lines.forEach(({ sign }, place) => {
		if (sign === " ") return;
		const [from, to] = [Math.max(0, place - context), Math.min(lines.length, place + context + 1)];
		if (parts.length && from <= parts.at(-1).to) parts.at(-1).to = to;
		else parts.push({ from, to });
	});
	return parts;
}

export function generateDiffString(oldContent, newContent, contextLines = 4) {
	const lines = script(oldContent, newContent);
	const width = String(Math.max(oldContent.split("\n").length, newContent.split("\n").length)).length;
	const shown = ({ sign, line, old, new: number }) => `${sign}${String(sign === "+" ? number : old).padStart(width)} ${withoutEnd(line)}`;
	const gap = ` ${" ".repeat(width)} ...`;
	const output = [];
	let at = 0;
	for (const { from, to } of hunks(lines, contextLines)) {
		if (from > at) output.push(gap);
		output.push(...lines.slice(from, to).map(shown));
		at = to;
	}
	if (output.length && at < lines.length) output.push(gap);
	const first = lines.find(({ sign }) => sign !== " ");
	return { diff: output.join("\n"), firstChangedLine: first && (first.sign === "+" ? first.new : first.new + 1) };
}

export function generateUnifiedPatch(name, oldContent, newContent, contextLines = 4) {
	const lines = script(oldContent, newContent);
	const output = [`--- ${name}`, `+++ ${name}`];
	for (const { from, to } of hunks(lines, contextLines)) {
		const part = lines.slice(from, to);
		const olds = part.filter(({ sign }) => sign !== "+");
		const news = part.filter(({ sign }) => sign !== "-");
		const place = (numbers, first) => `${numbers.length ? first : Math.max(first - 1, 0)},${numbers.length}`;
		output.push(`@@ -${place(olds, olds[0]?.old ?? part[0].old + 1)} +${place(news, news[0]?.new ?? part[0].new + 1)} @@`);
		for (const { sign, line } of part) {
			output.push(`${sign}${withoutEnd(line)}`);
			if (!line.endsWith("\n")) output.push("\\ No newline at end of file");
		}
	}
	return `${output.join("\n")}\n`;
}
