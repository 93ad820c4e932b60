// `SessionManager`: a session of pi as a tree of entries, in a file or in memory. While a session of `createAgentSession` uses
// it, an agent in another process writes the file, and this is a copy that follows.

import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { facts, sessionsFolder } from "../shims/agent-facts.mjs";
import { uuidv7 } from "../shims/ai.mjs";
import * as tree from "./entries.mjs";

const resolved = (given) => path.resolve(String(given).replace(/^~(?=\/|$)/, process.env.HOME ?? "~"));

/** The folder of the sessions of a working directory. */
export const getDefaultSessionDir = (cwd, agentDir = facts.agentDir) =>
	path.join(resolved(agentDir), "sessions", `--${resolved(cwd).replace(/^[/\\]/, "").replace(/[/\\:]/g, "-")}--`);

export function assertValidSessionId(id) {
	if (!/^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(id)) {
		throw new Error(`Invalid session id ${JSON.stringify(id)}: use letters, digits, ".", "_" and "-".`);
	}
}

/** The header and the entries of a session file. A file that does not exist or is no session has none. */
export function loadEntriesFromFile(file) {
	if (!fs.existsSync(file)) return [];
	const found = tree.parseSessionEntries(fs.readFileSync(file, "utf8"));
	return found[0]?.type === "session" && typeof found[0].id === "string" ? found : [];
}

const now = () => new Date().toISOString();
const line = (entry) => `${JSON.stringify(entry)}\n`;
const textOf = ({ content }) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(" "));

export class SessionManager {
	constructor(cwd, sessionDir, sessionFile, persist, options = {}, preloaded = undefined) {
		this.cwd = cwd;
		this.sessionDir = sessionDir;
		this.persist = persist;
		/** What writes the file: an agent in another process, which has to take over what is appended here. */
		this.writer = undefined;
		if (sessionFile) this.setSessionFile(sessionFile, preloaded);
		else this.newSession(options);
	}

	static create(cwd, sessionDir, options) {
		return new SessionManager(resolved(cwd), sessionDir ? resolved(sessionDir) : sessionsFolder(cwd) ?? getDefaultSessionDir(cwd), undefined, true, options);
	}

	static open(file, sessionDir, cwdOverride) {
		const name = resolved(file);
		const entries = loadEntriesFromFile(name);
		const cwd = cwdOverride ?? (entries[0]?.cwd || process.cwd());
		return new SessionManager(cwd, sessionDir ? resolved(sessionDir) : path.dirname(name), name, true, {}, entries);
	}

	static inMemory(cwd = process.cwd(), options = {}, entries = undefined) {
		const manager = new SessionManager(resolved(cwd), "", undefined, false, options);
		if (entries?.length) manager.load(entries[0].type === "session" ? entries : [manager.header, ...entries]);
		return manager;
	}

	static continueRecent(cwd, sessionDir) {
		const folder = sessionDir ? resolved(sessionDir) : sessionsFolder(cwd) ?? getDefaultSessionDir(cwd);
		const file = findMostRecentSession(folder, cwd);
		return new SessionManager(resolved(cwd), folder, file ?? undefined, true);
	}

	static forkFrom(source, targetCwd, sessionDir, options = {}) {
		const entries = loadEntriesFromFile(resolved(source));
		if (!entries.length) throw new Error(`Cannot fork: source session file is empty or invalid: ${resolved(source)}`);
		const manager = SessionManager.create(targetCwd, sessionDir, { ...options, parentSession: resolved(source) });
		manager.load([manager.header, ...entries.slice(1)]);
		manager.rewrite();
		return manager;
	}

	static async list(cwd, sessionDir, onProgress) {
		const folder = sessionDir ? resolved(sessionDir) : sessionsFolder(cwd) ?? getDefaultSessionDir(cwd);
		return listFolders([folder], onProgress).filter((each) => !sessionDir || !each.cwd || resolved(each.cwd) === resolved(cwd));
	}

	static async listAll(given, more) {
		const onProgress = typeof given === "function" ? given : more;
		const root = typeof given === "string" ? resolved(given) : path.dirname(sessionsFolder(facts.cwd) ?? getDefaultSessionDir(facts.cwd));
		return listFolders([root, ...namesIn(root).map((name) => path.join(root, name))], onProgress);
	}

	static async findById(cwd, id, sessionDir) {
		const matches = (each) => each.id.startsWith(id);
		return (await SessionManager.list(cwd, sessionDir)).find(matches) ?? (await SessionManager.listAll()).find(matches);
	}

	// Where it is

	setSessionFile(file, preloaded = undefined) {
		this.sessionFile = resolved(file);
		const found = preloaded ?? loadEntriesFromFile(this.sessionFile);
		if (found.length === 0) {
			const isEmpty = !fs.existsSync(this.sessionFile) || fs.statSync(this.sessionFile).size === 0;
			if (!isEmpty) throw new Error(`Session file is not a valid pi session: ${this.sessionFile}`);
			this.newSession({}, this.sessionFile);
			/** Whether the program has said where the file will be. */
			this.isNamed = true;
			return;
		}
		const changed = tree.migrateSessionEntries(found);
		this.load(found);
		this.isSaved = true;
		if (changed) this.rewrite();
	}

	newSession(options = {}, file = undefined) {
		this.mayChange();
		if (options.id !== undefined) assertValidSessionId(options.id);
		const header = { type: "session", version: tree.CURRENT_SESSION_VERSION, id: options.id ?? uuidv7(), timestamp: now(), cwd: this.cwd };
		if (options.parentSession) header.parentSession = options.parentSession;
		this.load([header]);
		this.isSaved = this.isNamed = false;
		if (this.persist) this.sessionFile = file ?? path.join(this.sessionDir, `${header.timestamp.replace(/[:.]/g, "-")}_${header.id}.jsonl`);
		return this.sessionFile;
	}

	/** Have exactly these entries, of which the first is the header. */
	load([header, ...entries], leaf = entries.at(-1)?.id ?? null) {
		this.header = header;
		this.entries = entries;
		this.byId = new Map(entries.map((entry) => [entry.id, entry]));
		this.leaf = leaf;
		/** What was appended here while an agent writes the session. */
		this.unsaved = [];
	}

	/** Take over entries that the agent has added. What was appended here follows them. */
	follow(entries, leaf) {
		for (const entry of entries) this.byId.set(entry.id, entry);
		this.entries.splice(this.entries.length - this.unsaved.length, 0, ...entries);
		if (this.unsaved.length) this.unsaved[0].parentId = leaf;
		else this.leaf = leaf;
	}

	/** Save what was appended here, after the agent has ended. */
	flush() {
		this.writer = undefined;
		if (this.persist && this.isSaved) fs.appendFileSync(this.sessionFile, this.unsaved.map(line).join(""));
		this.unsaved = [];
	}

	isPersisted = () => this.persist;
	getCwd = () => this.cwd;
	getSessionDir = () => this.sessionDir;
	usesDefaultSessionDir = () => this.persist && this.sessionDir === (sessionsFolder(this.cwd) ?? getDefaultSessionDir(this.cwd));
	getSessionId = () => this.header.id;
	getSessionFile = () => this.sessionFile;
	getHeader = () => this.header;
	getSessionName = () => this.entries.findLast((entry) => entry.type === "session_info")?.name?.trim() || undefined;

	// Reading

	getEntries = () => [...this.entries];
	getEntryCount = () => this.entries.length;
	getEntry = (id) => this.byId.get(id);
	getLeafId = () => this.leaf;
	getLeafEntry = () => this.byId.get(this.leaf);
	getChildren = (id) => this.entries.filter((entry) => entry.parentId === id);
	getLabel = (id) => tree.labelsOf(this.entries).get(id)?.label;
	getBranch = (from) => tree.pathTo(this.byId, from ?? this.leaf);
	getTree = () => tree.treeOf(this.entries);
	buildContextEntries = () => tree.buildContextEntries(this.entries, this.leaf, this.byId);
	buildSessionProjection = () => tree.buildSessionProjection(this.entries, this.leaf, this.byId);
	buildSessionContext = () => tree.buildSessionContext(this.entries, this.leaf, this.byId);

	// Adding

	appendMessage = (message) => this.append({ type: "message", message });
	appendThinkingLevelChange = (thinkingLevel) => this.append({ type: "thinking_level_change", thinkingLevel });
	appendModelChange = (provider, modelId) => this.append({ type: "model_change", provider, modelId });
	appendCustomEntry = (customType, data) => this.append({ type: "custom", customType, data });
	appendSessionInfo = (name) => this.append({ type: "session_info", name: String(name).trim() });
	appendCustomMessageEntry = (customType, content, display, details) =>
		this.append({ type: "custom_message", customType, content, display, details });
	appendCompaction = (summary, firstKeptEntryId, tokensBefore, details, fromHook, usage) =>
		this.append({ type: "compaction", summary, firstKeptEntryId, tokensBefore, details, fromHook, usage });

	appendUsage(kind, provider, model, usage, note) {
		return this.byId.get(this.append({ type: "usage", kind, provider, model, usage, note }));
	}

	appendLabelChange(targetId, label) {
		this.require(targetId);
		return this.append({ type: "label", targetId, label: label || undefined });
	}

	appendContextEdit(targetId, replacement) {
		this.require(targetId);
		return this.append({ type: "context_edit", targetId, replacement });
	}

	append(fields) {
		const id = this.newId();
		const entry = { type: fields.type, id, parentId: this.leaf, timestamp: now(), ...fields };
		if (this.writer) {
			this.unsaved.push(entry);
			this.writer.onAppended();
		} else if (this.persist) {
			this.save(entry);
		}
		this.entries.push(entry);
		this.byId.set(id, entry);
		this.leaf = id;
		return id;
	}

	// A file begins with the first message, as in pi: setting up a session alone leaves no file behind.
	save(entry) {
		if (this.isSaved) fs.appendFileSync(this.sessionFile, line(entry));
		else if ([...this.entries, entry].some(({ message }) => ["user", "assistant"].includes(message?.role))) this.rewrite(entry);
	}

	/** Write the whole file, which only this user may read. A reader sees the old file or the new one. */
	rewrite(...more) {
		fs.mkdirSync(path.dirname(this.sessionFile), { recursive: true, mode: 0o700 });
		const half = `${this.sessionFile}.${process.pid}.tmp`;
		fs.writeFileSync(half, [this.header, ...this.entries, ...more].map(line).join(""), { mode: 0o600 });
		fs.renameSync(half, this.sessionFile);
		this.isSaved = true;
	}

	// Moving

	branch(from) {
		this.require(from);
		this.moveTo(from);
	}

	resetLeaf = () => this.moveTo(null);

	moveTo(leaf) {
		this.leaf = leaf;
		this.writer?.onAppended();
	}

	branchWithSummary(from, summary, details, fromHook, usage) {
		if (from !== null) this.require(from);
		const fromId = this.leaf ?? "root";
		this.leaf = from;
		return this.append({ type: "branch_summary", fromId, summary, details, fromHook, usage });
	}

	/** Continue in a new session that has only the branch of an entry. Returns its file, or nothing if there is none. */
	createBranchedSession(leaf) {
		this.mayChange();
		const path_ = this.getBranch(leaf);
		if (!path_.length) throw new Error(`Entry ${leaf} not found`);
		const labels = [...tree.labelsOf(this.entries).values()];
		const before = this.sessionFile;
		const kept = [];
		// Labels move to the end: the entries after one follow the entry before it.
		for (const entry of path_) if (entry.type !== "label") kept.push({ ...entry, parentId: kept.at(-1)?.id ?? null });
		const ids = new Set(kept.map((entry) => entry.id));
		this.newSession({ parentSession: before });
		for (const mark of labels) if (ids.has(mark.targetId)) kept.push({ ...mark, parentId: kept.at(-1).id });
		this.load([this.header, ...kept]);
		// As in pi, a session without an answer has no file yet.
		if (this.persist && kept.some(({ message }) => message?.role === "assistant")) this.rewrite();
		return this.sessionFile;
	}

	require(id) {
		if (!this.byId.has(id)) throw new Error(`Entry ${id} not found`);
	}

	mayChange() {
		if (this.writer) throw new Error("The session of this SessionManager is in use. Open its file with another one.");
	}

	newId() {
		for (;;) {
			const id = randomBytes(4).toString("hex");
			if (!this.byId.has(id)) return id;
		}
	}
}

function namesIn(folder) {
	try {
		return fs.readdirSync(folder);
	} catch {
		return [];
	}
}

const filesIn = (folder) => namesIn(folder).filter((name) => name.endsWith(".jsonl")).map((name) => path.join(folder, name));

/** The file of the session in a folder that was changed last, of those of a working directory. */
export function findMostRecentSession(folder, cwd = undefined) {
	const found = listFolders([folder]).find((each) => !cwd || !each.cwd || resolved(each.cwd) === resolved(cwd));
	return found?.path ?? null;
}

function listFolders(folders, onProgress = undefined) {
	const files = folders.flatMap(filesIn);
	const found = files.map((file, index) => {
		const listed = describe(file);
		onProgress?.(index + 1, files.length);
		return listed;
	});
	return found.filter(Boolean).sort((left, right) => right.modified - left.modified);
}

/** What lists say about a session file; nothing if it is none. */
function describe(file) {
	try {
		const [header, ...entries] = loadEntriesFromFile(file);
		if (!header) return undefined;
		const said = entries.map(({ message }) => message).filter((message) => ["user", "assistant"].includes(message?.role));
		const last = said.reduce((latest, message) => Math.max(latest, message.timestamp ?? 0), 0);
		const name = entries.findLast((entry) => entry.type === "session_info")?.name?.trim();
		return {
			...{ path: file, id: header.id, cwd: header.cwd ?? "", name: name || undefined, parentSessionPath: header.parentSession },
			created: new Date(header.timestamp),
			modified: last ? new Date(last) : fs.statSync(file).mtime,
			messageCount: entries.filter((entry) => entry.type === "message").length,
			firstMessage: textOf(said.find((message) => message.role === "user") ?? { content: "(no messages)" }),
			allMessagesText: said.map(textOf).join(" "),
		};
	} catch {
		return undefined; // it was deleted meanwhile, or cannot be read
	}
}
