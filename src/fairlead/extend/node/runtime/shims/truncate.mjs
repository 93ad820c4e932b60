// Limits for the output of tools.

export const DEFAULT_MAX_LINES = 2000;
export const DEFAULT_MAX_BYTES = 50 * 1024;
export const GREP_MAX_LINE_LENGTH = 500;

const size = (text) => Buffer.byteLength(text, "utf8");

export function formatSize(bytes) {
	if (bytes < 1024) return `${bytes}B`;
	if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)}KB`;
	return `${(bytes / (1024 * 1024)).toFixed(1)}MB`;
}

function split(content) {
	const lines = content.split("\n");
	if (lines.length > 1 && lines.at(-1) === "") lines.pop();
	return lines;
}

function measured(content, kept, lines, limits, more = {}) {
	return {
		content: kept,
		truncated: true,
		truncatedBy: null,
		totalLines: lines.length,
		totalBytes: size(content),
		outputLines: kept === "" ? 0 : split(kept).length,
		outputBytes: size(kept),
		lastLinePartial: false,
		firstLineExceedsLimit: false,
		...limits,
		...more,
	};
}

/** Take lines from an array, in order, while they fit. Returns them and the limit that stopped it. */
function fitting(lines, { maxLines, maxBytes }) {
	const kept = [];
	let used = 0;
	for (const line of lines) {
		if (kept.length >= maxLines) return { kept, stoppedBy: "lines" };
		used += size(line) + (kept.length ? 1 : 0);
		if (used > maxBytes) return { kept, stoppedBy: "bytes" };
		kept.push(line);
	}
	return { kept, stoppedBy: null };
}

function whole(content, lines, limits) {
	return measured(content, content, lines, limits, { truncated: false, outputLines: lines.length });
}

/** Keep the beginning of a text, in whole lines. */
export function truncateHead(content, options = {}) {
	const limits = { maxLines: options.maxLines ?? DEFAULT_MAX_LINES, maxBytes: options.maxBytes ?? DEFAULT_MAX_BYTES };
	const lines = split(content);
	if (lines.length <= limits.maxLines && size(content) <= limits.maxBytes) return whole(content, lines, limits);
	const { kept, stoppedBy } = fitting(lines, limits);
	const exceeds = kept.length === 0 && size(lines[0]) > limits.maxBytes;
	return measured(content, kept.join("\n"), lines, limits, {
		truncatedBy: stoppedBy ?? "bytes",
		outputLines: kept.length,
		firstLineExceedsLimit: exceeds,
	});
}

/** Keep the end of a text, in whole lines where possible. */
export function truncateTail(content, options = {}) {
	const limits = { maxLines: options.maxLines ?? DEFAULT_MAX_LINES, maxBytes: options.maxBytes ?? DEFAULT_MAX_BYTES };
	const lines = split(content);
	if (lines.length <= limits.maxLines && size(content) <= limits.maxBytes) return whole(content, lines, limits);
	const { kept, stoppedBy } = fitting([...lines].reverse(), limits);
	if (kept.length) {
		return measured(content, kept.reverse().join("\n"), lines, limits, { truncatedBy: stoppedBy ?? "bytes", outputLines: kept.length });
	}
	const last = Buffer.from(lines.at(-1));
	let start = last.length - limits.maxBytes;
	while (start < last.length && (last[start] & 0xc0) === 0x80) start += 1;
	const part = last.subarray(start).toString("utf8");
	return measured(content, part, lines, limits, { truncatedBy: "bytes", outputLines: 1, lastLinePartial: true });
}

/** Cut one long line. */
export function truncateLine(line, maxChars = GREP_MAX_LINE_LENGTH) {
	return line.length <= maxChars
		? { text: line, wasTruncated: false }
		: { text: `${line.slice(0, maxChars)}... [truncated]`, wasTruncated: true };
}
