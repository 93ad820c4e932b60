// Where a conversation may be cut, and how the older part is summarized, for programs that compact by themselves.

import { completeModel } from "../models.mjs";
import { DEFAULT_COMPACTION_SETTINGS, calculateContextTokens, convertToLlm, estimateTokens, serializeConversation } from "../shims/transcript.mjs";
import { buildSessionProjection, sessionEntryToContextMessages } from "./entries.mjs";

const CUTS = new Set(["user", "assistant", "bashExecution", "custom", "branchSummary", "compactionSummary"]);
const BEGINS = new Set(["user", "bashExecution", "custom", "branchSummary", "compactionSummary"]);

/** The entry with which the turn of another entry begins; -1 if there is none. */
export function findTurnStartIndex(entries, entryIndex, startIndex) {
	for (let index = entryIndex; index >= startIndex; index--) if (begins(entries[index])) return index;
	return -1;
}

const messagesOf = (entry) => entry.messages ?? sessionEntryToContextMessages(entry);
const typeOf = (entry) => (entry.sourceEntry ?? entry).type;
const begins = (entry) => typeOf(entry) !== "compaction" && messagesOf(entry).some((message) => BEGINS.has(message.role));

/**
 * Find the first of the entries from `startIndex` to before `endIndex` to keep, so that about `keepRecentTokens` stay. It is never
 * the result of a tool, which has to follow its call.
 */
export function findCutPoint(entries, startIndex, endIndex, keepRecentTokens) {
	const isCut = (entry) => typeOf(entry) !== "compaction" && messagesOf(entry).some((message) => CUTS.has(message.role));
	const cuts = [];
	for (let index = startIndex; index < endIndex; index++) if (isCut(entries[index])) cuts.push(index);
	if (!cuts.length) return { firstKeptEntryIndex: startIndex, turnStartIndex: -1, isSplitTurn: false };
	let cut = cuts[0];
	let tokens = 0;
	for (let index = endIndex - 1; index >= startIndex; index--) {
		tokens += messagesOf(entries[index]).reduce((sum, message) => sum + estimateTokens(message), 0);
		if (tokens >= keepRecentTokens) {
			cut = cuts.find((each) => each >= index) ?? cuts.at(-1);
			break;
		}
	}
	// Entries that the model does not see stay with what follows them.
	while (cut > startIndex && typeOf(entries[cut - 1]) !== "compaction" && messagesOf(entries[cut - 1]).length === 0) cut--;
	const turnStartIndex = begins(entries[cut]) ? -1 : findTurnStartIndex(entries, cut, startIndex);
	return { firstKeptEntryIndex: cut, turnStartIndex, isSplitTurn: turnStartIndex !== -1 };
}

/** The tokens of a context: what the last answer has used, and an estimate of what came later. */
export function estimateContextTokens(messages) {
	const at = messages.findLastIndex((message) => message.role === "assistant" && message.usage && !["error", "aborted"].includes(message.stopReason));
	const usageTokens = at < 0 ? 0 : calculateContextTokens(messages[at].usage);
	const trailingTokens = messages.slice(at + 1).reduce((sum, message) => sum + estimateTokens(message), 0);
	return { tokens: usageTokens + trailingTokens, usageTokens, trailingTokens, lastUsageIndex: at < 0 ? null : at };
}

const FILE_TOOLS = { read: "read", write: "written", edit: "edited" };

function filesOf(messages) {
	const files = { read: new Set(), written: new Set(), edited: new Set() };
	for (const { name, arguments: given } of messages.flatMap((message) => (message.role === "assistant" ? message.content : []))) {
		if (FILE_TOOLS[name] && typeof given?.path === "string") files[FILE_TOOLS[name]].add(given.path);
	}
	return files;
}

/** What a compaction of a branch would be about; nothing if there is nothing to compact. */
export function prepareCompaction(pathEntries, settings = DEFAULT_COMPACTION_SETTINGS) {
	if (pathEntries.at(-1)?.type === "compaction") return undefined;
	const { entries, messages } = buildSessionProjection(pathEntries);
	const previous = entries.findIndex(({ sourceEntry, messages: shown }) => sourceEntry.type === "compaction" && shown.length);
	const start = previous + 1;
	const cut = findCutPoint(entries, start, entries.length, settings.keepRecentTokens);
	const firstKeptEntryId = entries[cut.firstKeptEntryIndex]?.sourceEntry.id;
	const between = (from, to) => entries.slice(from, to).flatMap((entry) => entry.messages.filter((message) => message.role !== "system"));
	const messagesToSummarize = between(start, cut.isSplitTurn ? cut.turnStartIndex : cut.firstKeptEntryIndex);
	const turnPrefixMessages = cut.isSplitTurn ? between(cut.turnStartIndex, cut.firstKeptEntryIndex) : [];
	if (!firstKeptEntryId || (!messagesToSummarize.length && !turnPrefixMessages.length)) return undefined;
	return {
		...{ firstKeptEntryId, messagesToSummarize, turnPrefixMessages, isSplitTurn: cut.isSplitTurn, settings },
		tokensBefore: estimateContextTokens(messages).tokens,
		previousSummary: previous < 0 ? undefined : entries[previous].sourceEntry.summary,
		fileOps: filesOf([...messagesToSummarize, ...turnPrefixMessages]),
	};
}

const SYSTEM_PROMPT = "You summarize conversations between a user and a coding agent. Reply with the summary alone, and do not continue the conversation.";
const FORM = `Summarize the conversation so that another model can continue the work. Use these headings:

## Goal
## Constraints
## Done
## In progress
## Decisions, with their reasons
## Next steps
## Facts to remember: paths, names, error messages

Keep exact names, paths and numbers.`;

const asked = (messages, previousSummary, customInstructions) =>
	[
		`<conversation>\n${serializeConversation(convertToLlm(messages))}\n</conversation>`,
		...(previousSummary ? [`<previous-summary>\n${previousSummary}\n</previous-summary>\n\nKeep what is still true of the previous summary.`] : []),
		FORM,
		...(customInstructions ? [`Also: ${customInstructions}`] : []),
	].join("\n\n");

/** Have a model summarize messages. Throws if it fails or is aborted. */
export async function generateSummaryWithUsage(messages, model, _reserve, apiKey, headers, signal, customInstructions, previousSummary, thinkingLevel, streamFn) {
	const content = [{ type: "text", text: asked(messages, previousSummary, customInstructions) }];
	const context = { systemPrompt: SYSTEM_PROMPT, messages: [{ role: "user", content, timestamp: Date.now() }] };
	const reasoning = thinkingLevel && thinkingLevel !== "off" ? thinkingLevel : undefined;
	const options = { apiKey, headers, signal, ...(reasoning ? { reasoning } : {}) };
	const answer = streamFn ? await (await streamFn(model, context, options)).result() : await completeModel(model, context, options);
	const text = answer.content.filter((part) => part.type === "text").map((part) => part.text).join("\n").trim();
	if (answer.stopReason === "aborted") throw new Error("Summarization aborted");
	if (answer.stopReason === "error" || !text) throw new Error(`Summarization failed: ${answer.errorMessage || "the model returned no text"}`);
	return { text, usage: answer.usage };
}

export const generateSummary = async (...given) => (await generateSummaryWithUsage(...given)).text;

function joined(first, second) {
	if (!first || !second) return first ?? second;
	const sum = (left, right) =>
		Object.fromEntries(Object.keys(left).map((key) => [key, typeof left[key] === "number" ? left[key] + (right[key] ?? 0) : left[key] && typeof left[key] === "object" ? sum(left[key], right[key] ?? {}) : left[key]]));
	return sum(first, second);
}

/** Have a model write the summary for a compaction that was prepared. */
export async function compact(preparation, model, apiKey, headers, customInstructions, signal, thinkingLevel, streamFn) {
	const { firstKeptEntryId, messagesToSummarize, turnPrefixMessages, tokensBefore, previousSummary, fileOps } = preparation;
	const summarize = (messages, previous) =>
		generateSummaryWithUsage(messages, model, undefined, apiKey, headers, signal, customInstructions, previous, thinkingLevel, streamFn);
	const history = messagesToSummarize.length ? await summarize(messagesToSummarize, previousSummary) : { text: previousSummary ?? "" };
	const prefix = turnPrefixMessages.length ? await summarize(turnPrefixMessages) : undefined;
	const modifiedFiles = [...new Set([...(fileOps?.written ?? []), ...(fileOps?.edited ?? [])])].sort();
	const readFiles = [...(fileOps?.read ?? [])].filter((file) => !modifiedFiles.includes(file)).sort();
	const listed = (name, files) => (files.length ? `\n\n<${name}>\n${files.join("\n")}\n</${name}>` : "");
	const texts = [history.text, prefix && `## The turn in progress\n\n${prefix.text}`].filter(Boolean);
	return {
		summary: texts.join("\n\n") + listed("read-files", readFiles) + listed("modified-files", modifiedFiles),
		...{ firstKeptEntryId, tokensBefore, usage: joined(history.usage, prefix?.usage), details: { readFiles, modifiedFiles } },
	};
}
