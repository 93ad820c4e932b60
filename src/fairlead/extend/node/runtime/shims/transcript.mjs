// Turns the messages of a session into messages for a model, and into text.

const block = (text) => [{ type: "text", text }];

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
			return [{ role: "user", content: block(`Ran \`${message.command}\`\n\`\`\`\n${message.output}\n\`\`\``), timestamp: message.timestamp }];
		case "compactionSummary":
		case "branchSummary":
			return [{ role: "user", content: block(`Summary of what came before:\n\n${message.summary}`), timestamp: message.timestamp }];
		default:
			return [];
	}
}

/** The messages that a model can get, with those of other roles converted. */
export const convertToLlm = (messages) => messages.flatMap(forModel);

const textOf = (content) =>
	typeof content === "string"
		? content
		: content
				.filter((part) => part.type === "text")
				.map((part) => part.text)
				.join("");

/** A conversation as text, for a summary. */
export function serializeConversation(messages) {
	const parts = [];
	for (const message of messages) {
		if (message.role === "user") {
			parts.push(`[User]: ${textOf(message.content)}`);
		} else if (message.role === "assistant") {
			const thinking = message.content.filter((part) => part.type === "thinking").map((part) => part.thinking);
			const calls = message.content.filter((part) => part.type === "toolCall");
			if (thinking.length) parts.push(`[Assistant thinking]: ${thinking.join("\n")}`);
			const said = textOf(message.content);
			if (said) parts.push(`[Assistant]: ${said}`);
			const shown = calls.map((call) => `${call.name}(${Object.entries(call.arguments).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")})`);
			if (shown.length) parts.push(`[Assistant tool calls]: ${shown.join("; ")}`);
		} else if (message.role === "toolResult") {
			parts.push(`[Tool result]: ${textOf(message.content)}`);
		}
	}
	return parts.join("\n\n");
}

/** A rough number of tokens of a message. */
export const estimateTokens = (message) => Math.ceil(JSON.stringify(message.content ?? message).length / 4);

/** The tokens of a context, from what a model call has used. */
export const calculateContextTokens = (usage) => usage.totalTokens || usage.input + usage.output + usage.cacheRead + usage.cacheWrite;

/** The usage of the last answer in these entries that neither failed nor was aborted. */
export function getLastAssistantUsage(entries) {
	const isGood = ({ type, message }) =>
		type === "message" && message.role === "assistant" && !["error", "aborted"].includes(message.stopReason) && calculateContextTokens(message.usage) > 0;
	return entries.findLast(isGood)?.message.usage;
}

export const getLatestCompactionEntry = (entries) => entries.findLast((entry) => entry.type === "compaction") ?? null;

export const DEFAULT_COMPACTION_SETTINGS = { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 };
export const shouldCompact = (tokens, window, settings) => settings.enabled && tokens > window - settings.reserveTokens;
