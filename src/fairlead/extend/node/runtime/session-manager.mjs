// `ctx.sessionManager`: the session, to read. Its entries are mirrored here, because pi's methods are synchronous: each call
// fetches what is new.

import { askNow } from "./channel.mjs";

const mirror = { id: null, entries: [], byId: new Map(), leaf: null, facts: {} };

function refresh() {
	const last = mirror.entries.at(-1)?.id ?? null;
	const news = askNow("session", { id: mirror.id, last });
	if (news.reset) {
		mirror.entries = [];
		mirror.byId = new Map();
	}
	for (const entry of news.entries) {
		mirror.entries.push(entry);
		mirror.byId.set(entry.id, entry);
	}
	mirror.id = news.id;
	mirror.leaf = news.leaf ?? null;
	mirror.facts = news;
	return mirror;
}

function branch(from) {
	const { byId } = mirror;
	const found = [];
	for (let entry = byId.get(from); entry; entry = byId.get(entry.parentId)) found.push(entry);
	return found.reverse();
}

function labels() {
	const found = new Map();
	for (const entry of mirror.entries) {
		if (entry.type !== "label") continue;
		if (entry.label) found.set(entry.targetId, entry);
		else found.delete(entry.targetId);
	}
	return found;
}

function tree() {
	const { entries } = refresh();
	const known = labels();
	const nodes = new Map();
	const roots = [];
	for (const entry of entries) {
		const mark = known.get(entry.id);
		const node = { entry, children: [], ...(mark ? { label: mark.label, labelTimestamp: mark.timestamp } : {}) };
		nodes.set(entry.id, node);
		(nodes.get(entry.parentId)?.children ?? roots).push(node);
	}
	return roots;
}

/** The entries of a branch that the model sees: a compaction stands for everything before the first entry that it kept. */
function contextEntries(path) {
	const at = path.findLastIndex((entry) => entry.type === "compaction");
	if (at < 0) return path;
	const compaction = path[at];
	const kept = path.findIndex((entry) => entry.id === compaction.firstKeptEntryId);
	return [compaction, ...(kept >= 0 && kept < at ? path.slice(kept, at) : []), ...path.slice(at + 1)];
}

export const sessionManager = {
	isPersisted: () => refresh().facts.file !== undefined,
	getCwd: () => refresh().facts.cwd,
	getSessionDir: () => refresh().facts.folder ?? "",
	getSessionId: () => refresh().id,
	getSessionFile: () => refresh().facts.file ?? undefined,
	getSessionName: () => refresh().facts.name ?? undefined,
	getHeader: () => refresh().facts.header ?? null,
	getEntries: () => [...refresh().entries],
	getEntry: (id) => refresh().byId.get(id),
	getChildren: (id) => refresh().entries.filter((entry) => entry.parentId === id),
	getBranch: (from) => {
		refresh();
		return branch(from ?? mirror.leaf);
	},
	getTree: tree,
	getLeafId: () => refresh().leaf,
	getLeafEntry: () => refresh().byId.get(mirror.leaf),
	getLabel: (id) => {
		refresh();
		return labels().get(id)?.label;
	},
	buildContextEntries: () => {
		refresh();
		return contextEntries(branch(mirror.leaf));
	},
	buildSessionContext: () => askNow("sessionContext"),
	buildSessionProjection: () => ({ entries: askNow("projection"), ...askNow("sessionContext") }),
	getEntryCount: () => refresh().entries.length,
};

const append = (type, fields) => askNow("append", { type, ...fields });

/** The same, with which an extension adds entries to a session that it has created. Each method returns the id of its entry. */
export const writableSession = {
	...sessionManager,
	appendMessage: (message) => append("message", { message }),
	appendCustomEntry: (customType, data) => append("custom", { customType, data }),
	appendCustomMessageEntry: (customType, content, display, details) => append("custom_message", { customType, content, display, details }),
	appendSessionInfo: (name) => append("session_info", { name }),
	appendModelChange: (provider, modelId) => append("model_change", { provider, modelId }),
	appendThinkingLevelChange: (thinkingLevel) => append("thinking_level_change", { thinkingLevel }),
	appendLabelChange: (targetId, label) => append("label", { targetId, label }),
	appendContextEdit: (targetId, replacement) => append("context_edit", { targetId, replacement }),
	appendCompaction: (summary, firstKeptEntryId, _tokensBefore, details, _fromHook, usage) =>
		append("compaction", { summary, firstKeptEntryId, details, usage }),
};
