// The entries of a session, as a tree and as the messages that a model gets. Nothing here touches files.

export const CURRENT_SESSION_VERSION = 3;

/** The lines of a session file as objects. Lines that are not JSON are left out. */
export function parseSessionEntries(content) {
	const found = [];
	for (const line of content.split("\n")) {
		if (!line.trim()) continue;
		try {
			const entry = JSON.parse(line);
			if (entry && typeof entry === "object") found.push(entry);
		} catch {
			// A damaged line is not worth the rest of the session.
		}
	}
	return found;
}

/** Bring the entries of an old file to the present version, in place. Returns whether something changed. */
export function migrateSessionEntries(entries) {
	const header = entries.find((entry) => entry.type === "session");
	const version = header?.version ?? 1;
	if (version >= CURRENT_SESSION_VERSION) return false;
	let parentId = null;
	entries.forEach((entry, index) => {
		if (entry === header) return;
		if (version < 2) {
			Object.assign(entry, { id: entry.id ?? index.toString(16).padStart(8, "0"), parentId });
			parentId = entry.id;
			if (entry.type === "compaction" && typeof entry.firstKeptEntryIndex === "number") {
				entry.firstKeptEntryId = entries[entry.firstKeptEntryIndex]?.id;
				delete entry.firstKeptEntryIndex;
			}
		}
		if (entry.type === "message" && entry.message?.role === "hookMessage") entry.message.role = "custom";
	});
	if (header) header.version = CURRENT_SESSION_VERSION;
	return true;
}

const indexed = (entries) => new Map(entries.map((entry) => [entry.id, entry]));

/** The entries from the root to an entry. A damaged file may have loops: each entry counts once. */
export function pathTo(byId, id) {
	const path = [];
	const seen = new Set();
	for (let entry = byId.get(id); entry && !seen.has(entry.id); entry = byId.get(entry.parentId)) {
		seen.add(entry.id);
		path.push(entry);
	}
	return path.reverse();
}

function branchOf(entries, leafId, byId = indexed(entries)) {
	if (leafId === null) return [];
	const leaf = byId.get(leafId) ?? entries.at(-1);
	return leaf ? pathTo(byId, leaf.id) : [];
}

/** The entries of a branch that count for the model: a compaction stands for everything before the first entry that it kept. */
export function contextEntries(path) {
	const at = path.findLastIndex((entry) => entry.type === "compaction");
	if (at < 0) return path;
	const compaction = path[at];
	const kept = path.findIndex((entry) => entry.id === compaction.firstKeptEntryId);
	const before = kept >= 0 && kept < at ? path.slice(kept, at) : [];
	return [compaction, ...before.filter((entry) => entry.message?.role !== "system"), ...path.slice(at + 1)];
}

export const buildContextEntries = (entries, leafId, byId) => contextEntries(branchOf(entries, leafId, byId));

const time = (entry) => new Date(entry.timestamp).getTime();

/** What an entry tells the model, as messages. */
export function sessionEntryToContextMessages(entry) {
	switch (entry.type) {
		case "message": {
			const { message } = entry;
			return [message.content === null || message.content === undefined ? withContent(message) : message];
		}
		case "custom_message": {
			const { customType, display, details } = entry;
			return [{ role: "custom", customType, content: entry.content ?? [], display, details, timestamp: time(entry) }];
		}
		case "branch_summary":
			return entry.summary ? [{ role: "branchSummary", summary: entry.summary, fromId: entry.fromId, timestamp: time(entry) }] : [];
		case "compaction": {
			const { summary, tokensBefore, systemMessage } = entry;
			const message = { role: "compactionSummary", summary, tokensBefore, timestamp: time(entry) };
			return systemMessage ? [systemMessage, message] : [message];
		}
		default:
			return [];
	}
}

// Files are not checked when they are read, and a message without content breaks those who use it.
function withContent(message) {
	if (message.role === "system") return { ...message, content: "" };
	return ["user", "assistant", "toolResult"].includes(message.role) ? { ...message, content: [] } : message;
}

const EDITABLE = new Set(["user", "assistant", "toolResult", "custom"]);

function edited(message, { content }) {
	if (!EDITABLE.has(message.role)) return message;
	const asBlocks = typeof content === "string" && ["assistant", "toolResult"].includes(message.role);
	return { ...message, content: asBlocks ? [{ type: "text", text: content }] : content };
}

/** What each entry of a branch tells the model, with the edits of later entries, and the settings at its end. */
export function buildSessionProjection(entries, leafId, byId) {
	const path = branchOf(entries, leafId, byId);
	const shown = contextEntries(path);
	const edits = new Map(shown.filter((entry) => entry.type === "context_edit").map((entry) => [entry.targetId, entry.replacement]));
	const projected = shown.map((sourceEntry, index) => {
		if (sourceEntry.type === "compaction" && index > 0) return { sourceEntry, messages: [] };
		const messages = sessionEntryToContextMessages(sourceEntry);
		if (!edits.has(sourceEntry.id)) return { sourceEntry, messages };
		const replacement = edits.get(sourceEntry.id);
		return { sourceEntry, messages: replacement === null ? [] : messages.map((message) => edited(message, replacement)) };
	});
	return { entries: projected, messages: projected.flatMap((each) => each.messages), ...settingsOf(path) };
}

function settingsOf(path) {
	let thinkingLevel = "off";
	let model = null;
	for (const entry of path) {
		if (entry.type === "thinking_level_change") thinkingLevel = entry.thinkingLevel;
		else if (entry.type === "model_change") model = { provider: entry.provider, modelId: entry.modelId };
		else if (entry.message?.role === "assistant") model = { provider: entry.message.provider, modelId: entry.message.model };
	}
	return { thinkingLevel, model };
}

/** The messages that the model gets of a branch, and the settings at its end. */
export function buildSessionContext(entries, leafId, byId) {
	const { messages, thinkingLevel, model } = buildSessionProjection(entries, leafId, byId);
	return { messages, thinkingLevel, model };
}

export const getLatestCompactionEntry = (entries) => entries.findLast((entry) => entry.type === "compaction") ?? null;

/** The last label entry of each entry that has a label. */
export function labelsOf(entries) {
	const found = new Map();
	for (const entry of entries) {
		if (entry.type !== "label") continue;
		if (entry.label) found.set(entry.targetId, entry);
		else found.delete(entry.targetId);
	}
	return found;
}

/** The entries as a forest. */
export function treeOf(entries) {
	const labels = labelsOf(entries);
	const nodes = new Map();
	const roots = [];
	for (const entry of entries) {
		const mark = labels.get(entry.id);
		const node = { entry, children: [], ...(mark ? { label: mark.label, labelTimestamp: mark.timestamp } : {}) };
		nodes.set(entry.id, node);
		(nodes.get(entry.parentId)?.children ?? roots).push(node);
	}
	return roots;
}
