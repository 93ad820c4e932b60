// Stands in for `@earendil-works/pi-coding-agent`: what extensions use of it when they run.

import fs from "node:fs";
import path from "node:path";
import { facts } from "./agent-facts.mjs";
import { keyText } from "./keys.mjs";
import { Text } from "./components.mjs";
import { theme, Theme } from "../theme.mjs";

export * from "./diff.mjs";
export * from "./tools.mjs";
export * from "./truncate.mjs";
export * from "./transcript.mjs";
export * from "../sdk/compaction.mjs";
export * from "../sdk/entries.mjs";
export * from "../sdk/images.mjs";
export * from "../sdk/launching.mjs";
export * from "../sdk/model-runtime.mjs";
export * from "../sdk/resources.mjs";
export * from "../sdk/sessions.mjs";
export * from "../sdk/settings.mjs";
export { AgentSession } from "../sdk/agent-session.mjs";

export { CONFIG_DIR_NAME, VERSION } from "./agent-facts.mjs";
export const getAgentDir = () => facts.agentDir;

export const defineTool = (tool) => tool;

export const isToolCallEventType = (name, event) => event.toolName === name;
const isResultOf = (name) => (event) => event.toolName === name;
export const isBashToolResult = isResultOf("bash");
export const isPowerShellToolResult = isResultOf("powershell");
export const isReadToolResult = isResultOf("read");
export const isEditToolResult = isResultOf("edit");
export const isWriteToolResult = isResultOf("write");
export const isGrepToolResult = isResultOf("grep");
export const isFindToolResult = isResultOf("find");
export const isLsToolResult = isResultOf("ls");

export function formatReadLineRange(offset, limit) {
	if (typeof offset !== "number" && typeof limit !== "number") return "";
	const start = typeof offset === "number" ? offset : 1;
	return typeof limit === "number" ? `:${start}-${start + limit - 1}` : `:${start}`;
}

export function createEventBus() {
	const handlers = new Map();
	return {
		on(name, handler) {
			handlers.set(name, [...(handlers.get(name) ?? []), handler]);
			return () => handlers.set(name, (handlers.get(name) ?? []).filter((each) => each !== handler));
		},
		emit(name, data) {
			for (const handler of handlers.get(name) ?? []) handler(data);
		},
		clear: () => handlers.clear(),
	};
}

export const getShellConfig = () => ({ shell: process.env.SHELL ?? "/bin/bash", args: ["-c"] });
export const getPackageDir = () => facts.packageDir || path.dirname(facts.agentDir);

export async function detectSupportedImageMimeTypeFromFile(file) {
	const head = Buffer.alloc(12);
	const handle = await fs.promises.open(file, "r");
	try {
		await handle.read(head, 0, 12, 0);
	} finally {
		await handle.close();
	}
	if (head.subarray(0, 8).equals(Buffer.from("89504e470d0a1a0a", "hex"))) return "image/png";
	if (head.subarray(0, 3).equals(Buffer.from("ffd8ff", "hex"))) return "image/jpeg";
	if (head.subarray(0, 4).toString("latin1") === "GIF8") return "image/gif";
	if (head.subarray(0, 4).toString("latin1") === "RIFF" && head.subarray(8, 12).toString("latin1") === "WEBP") return "image/webp";
	return null;
}

export { CustomEditor } from "../canvas.mjs";
export { BorderedLoader, DynamicBorder } from "./components.mjs";
export { KeybindingsManager, keyText } from "./keys.mjs";
export { Theme };

const painted = (colour) => (text) => theme.fg(colour, text);

export const getMarkdownTheme = () => ({
	...{ heading: painted("mdHeading"), link: painted("mdLink"), linkUrl: painted("mdLinkUrl"), code: painted("mdCode") },
	...{ codeBlock: painted("mdCodeBlock"), codeBlockBorder: painted("mdCodeBlockBorder"), quote: painted("mdQuote") },
	...{ quoteBorder: painted("mdQuoteBorder"), hr: painted("mdHr"), listBullet: painted("mdListBullet") },
	...{ bold: theme.bold, italic: theme.italic, underline: theme.underline, strikethrough: theme.strikethrough, highlightCode },
});
export const getSelectListTheme = () => ({
	...{ selectedPrefix: painted("accent"), selectedText: painted("accent"), description: painted("muted") },
	...{ scrollInfo: painted("muted"), noMatch: painted("muted") },
});
export const getSettingsListTheme = () => ({
	label: (text, selected) => (selected ? theme.fg("accent", text) : text),
	value: (text, selected) => theme.fg(selected ? "accent" : "muted", text),
	description: painted("dim"),
	cursor: theme.fg("accent", "→ "),
	hint: painted("dim"),
});
export const initTheme = () => {};
export const highlightCode = (code) => code.split("\n");

/** The names of languages whose files do not end with them. */
const LANGUAGES = {
	...{ ts: "typescript", tsx: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript", cjs: "javascript" },
	...{ py: "python", rb: "ruby", rs: "rust", kt: "kotlin", h: "c", cc: "cpp", cxx: "cpp", hpp: "cpp", cs: "csharp", sh: "bash" },
	...{ zsh: "bash", ps1: "powershell", htm: "html", yml: "yaml", md: "markdown", clj: "clojure", ex: "elixir", exs: "elixir" },
	...{ erl: "erlang", hs: "haskell", ml: "ocaml", proto: "protobuf", tf: "hcl" },
};
const SAME_NAMES = new Set(
	"bash c cmake cpp css dockerfile fish go graphql hcl html java json less lua makefile markdown perl php r sass scala scss sql swift toml vim xml yaml".split(" "),
);

export function getLanguageFromPath(file) {
	const end = file.split(".").pop().toLowerCase();
	return LANGUAGES[end] ?? (SAME_NAMES.has(end) ? end : undefined);
}

/** The last lines that a text takes in a terminal, or the first ones. */
export function truncateToVisualLines(text, maxVisualLines, width, paddingX = 0, keep = "end") {
	if (!text) return { visualLines: [], skippedCount: 0 };
	const lines = new Text(text, paddingX, 0).render(width);
	const skippedCount = Math.max(lines.length - maxVisualLines, 0);
	if (!skippedCount) return { visualLines: lines, skippedCount };
	return { visualLines: keep === "start" ? lines.slice(0, maxVisualLines) : lines.slice(skippedCount), skippedCount };
}

export const keyHint = (id, description) => `${theme.fg("dim", keyText(id))}${theme.fg("muted", ` ${description}`)}`;
export const rawKeyHint = (key, description) => `${theme.fg("dim", key)}${theme.fg("muted", ` ${description}`)}`;
export const renderDiff = (diff) => diff;
export const copyToClipboard = async () => {};
