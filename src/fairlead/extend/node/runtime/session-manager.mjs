// `ctx.sessionManager`: the session, to read. Its entries are mirrored here, because pi's methods are synchronous: each call
// fetches what is new.

import { askNow } from "./channel.mjs";
import { contextEntries, labelsOf, pathTo, treeOf } from "./sdk/entries.mjs";

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
		return pathTo(mirror.byId, from ?? mirror.leaf);
	},
	getTree: () => treeOf(refresh().entries),
	getLeafId: () => refresh().leaf,
	getLeafEntry: () => refresh().byId.get(mirror.leaf),
	getLabel: (id) => {
		refresh();
		return labelsOf(mirror.entries).get(id)?.label;
	},
	buildContextEntries: () => {
		refresh();
		return contextEntries(pathTo(mirror.byId, mirror.leaf));
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
