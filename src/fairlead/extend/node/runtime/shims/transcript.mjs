// Turns the messages of a session into messages for a model, and into text.

import { askNow } from "../channel.mjs";

const block = (text) => [{ type: "text", text }];

/** A shell command of the user, as a model sees it. */
export function bashExecutionToText({ command, output, cancelled, exitCode, truncated, fullOutputPath }) {
	const parts = [`Ran \`${command}\`\n${output ? `\`\`\`\n${output}\n\`\`\`` : "(no output)"}`];
	if (cancelled) parts.push("(command cancelled)");
	else if (exitCode) parts.push(`Command exited with code ${exitCode}`);
	if (truncated && fullOutputPath) parts.push(`[Output truncated. Full output: ${fullOutputPath}]`);
	return parts.join("\n\n");
}

/** Summaries, in the words in which models get them in the agent and in pi. */
const SUMMARIES = {
	compactionSummary: (summary) =>
		`The conversation history before this point was compacted into the following summary:\n\n<summary>\n${summary}\n</summary>`,
	branchSummary: (summary) =>
		`The following is a summary of a branch that this conversation came back from:\n\n<summary>\n${summary}</summary>`,
};

function forModel(message) {
	switch (message.role) {
		case "user":
		case "assistant":
		case "toolResult":
			return [message];
		case "custom":
			return [{ role: "user", content: typeof message.content === "string" ? block(message.content) : message.content, timestamp: message.timestamp }];
		case "bashExecution":
			if (message.excludeFromContext) return [];
			return [{ role: "user", content: block(bashExecutionToText(message)), timestamp: message.timestamp }];
		case "compactionSummary":
		case "branchSummary":
			return [{ role: "user", content: block(SUMMARIES[message.role](message.summary)), timestamp: message.timestamp }];
		default:
			return [];
	}
}

/** The messages that a model can get, with those of other roles converted. */
export const convertToLlm = (messages) => messages.flatMap(forModel);

const textOf = (content, between = "") =>
	typeof content === "string"
		? content
		: content
				.filter((part) => part.type === "text")
				.map((part) => part.text)
				.join(between);

/** Characters of a tool's result that a summary needs. */
const LONGEST_RESULT = 2000;

const shortened = (text) =>
	text.length <= LONGEST_RESULT ? text : `${text.slice(0, LONGEST_RESULT)}\n\n[... ${text.length - LONGEST_RESULT} more characters truncated]`;

/** A conversation as text, for a summary: without thinking, which may be longer than the rest. */
export function serializeConversation(messages) {
	const parts = [];
	for (const message of messages) {
		if (message.role === "user") {
			const said = textOf(message.content);
			if (said) parts.push(`[User]: ${said}`);
		} else if (message.role === "assistant") {
			const calls = message.content.filter((part) => part.type === "toolCall");
			if (message.content.some((part) => part.type === "text")) parts.push(`[Assistant]: ${textOf(message.content, "\n")}`);
			const shown = calls.map((call) => `${call.name}(${Object.entries(call.arguments).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")})`);
			if (shown.length) parts.push(`[Assistant tool calls]: ${shown.join("; ")}`);
		} else if (message.role === "toolResult") {
			const said = textOf(message.content);
			if (said) parts.push(`[Tool result]: ${shortened(said)}`);
		}
	}
	return parts.join("\n\n");
}

/** A rough number of tokens of a message. */
export const estimateTokens = (message) => Math.ceil(sizeOf(message) / 4);

/** What an image counts, in characters. */
const IMAGE_SIZE = 4800;

const sizes = {
	text: ({ text }) => text.length,
	thinking: ({ thinking }) => thinking.length,
	image: () => IMAGE_SIZE,
	toolCall: ({ name, arguments: given }) => name.length + JSON.stringify(given).length,
};

function sizeOf({ role, content, command, output, summary }) {
	if (role === "bashExecution") return command.length + output.length;
	if (summary !== undefined) return summary.length;
	return typeof content === "string" ? content.length : (content ?? []).reduce((sum, part) => sum + (sizes[part.type]?.(part) ?? 0), 0);
}

/** The tokens of a context, from what a model call has used. */
export const calculateContextTokens = (usage) => usage.totalTokens || usage.input + usage.output + usage.cacheRead + usage.cacheWrite;

/** The usage of the last answer in these entries that neither failed nor was aborted. */
export function getLastAssistantUsage(entries) {
	const isGood = ({ type, message }) =>
		type === "message" && message.role === "assistant" && !["error", "aborted"].includes(message.stopReason) && calculateContextTokens(message.usage) > 0;
	return entries.findLast(isGood)?.message.usage;
}

/** What pi says about a compaction beside the messages: the files that they are about, and the settings. */
export function preparedFor(messages) {
	const fileOps = { read: new Set(), written: new Set(), edited: new Set() };
	const kinds = { read: "read", write: "written", edit: "edited" };
	for (const { name, arguments: given } of messages.flatMap((message) => (message.role === "assistant" ? message.content : []))) {
		if (kinds[name] && typeof given?.path === "string") fileOps[kinds[name]].add(given.path);
	}
	return { fileOps, settings: { ...DEFAULT_COMPACTION_SETTINGS, ...askNow("settings").compaction } };
}

export const DEFAULT_COMPACTION_SETTINGS = { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 };
export const shouldCompact = (tokens, window, settings) => settings.enabled && tokens > window - settings.reserveTokens;
