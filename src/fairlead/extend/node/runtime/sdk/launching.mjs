// Creates sessions: what the options of `createAgentSession` mean for the command line of the agent that works for it.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { askNow } from "../channel.mjs";
import { facts } from "../shims/agent-facts.mjs";
import { envVariable } from "../shims/ai.mjs";
import { AgentSession } from "./agent-session.mjs";
import { Hooks } from "./hooks.mjs";
import { ModelRegistry, ModelRuntime } from "./model-runtime.mjs";
import { DefaultResourceLoader } from "./resources.mjs";
import { SessionManager } from "./sessions.mjs";
import { SettingsManager } from "./settings.mjs";

const ANSWERS = ["--mode", "rpc", "--dialect", "pi", "--updates", "delta"];

/** A private folder for what an agent reads at its start. It is deleted when the agent has started. */
class Parcel {
	file(name, text) {
		this.folder ??= fs.mkdtempSync(path.join(os.tmpdir(), "fairlead-sdk-"));
		const file = path.join(this.folder, name);
		fs.writeFileSync(file, text, { mode: 0o600 });
		return file;
	}

	forget = () => this.folder && fs.rmSync(this.folder, { recursive: true, force: true });
}

/** The arguments and the environment of the agent for a session. `forget` deletes the files that it reads at its start. */
export function launchOptions(options) {
	const parcel = new Parcel();
	const { model, thinkingLevel, scopedModels, agentDir, hooks } = options;
	const args = [...ANSWERS, ...sessionArgs(options.sessionManager, parcel), ...toolArgs(options), ...loaderArgs(options, parcel)];
	if (model) args.push("--provider", model.provider, "--model", model.id);
	if (thinkingLevel) args.push("--thinking", thinkingLevel);
	if (scopedModels?.length) args.push("--models", scopedModels.map((each) => `${each.model.provider}/${each.model.id}`).join(","));
	args.push(...hooks.args(), ...askNow("protection"));
	const env = { ...process.env, ...hooks.env(), ...keys(options.modelRuntime) };
	if (agentDir && path.resolve(agentDir) !== path.resolve(facts.agentDir)) env[facts.homeVariable] = path.resolve(agentDir);
	return { args, env, forget: parcel.forget };
}

// Keys that a program has set for its own process are not in a file, and a command line can be read by every user.
const keys = (runtime) => Object.fromEntries([...(runtime?.runtimeKeys ?? [])].filter(([name]) => envVariable(name)).map(([name, key]) => [envVariable(name), key]));

function sessionArgs(manager, parcel) {
	const lines = [manager.header, ...manager.entries].map((entry) => JSON.stringify(entry)).join("\n");
	if (!manager.persist) return ["--no-session", ...(manager.entries.length ? ["--session", parcel.file("session.jsonl", `${lines}\n`)] : [])];
	if (!manager.isSaved && manager.entries.length) manager.rewrite();
	if (manager.isSaved || manager.isNamed) return ["--session", manager.sessionFile, "--session-dir", manager.sessionDir];
	if (manager.header.parentSession) {
		manager.rewrite();
		return ["--session", manager.sessionFile, "--session-dir", manager.sessionDir];
	}
	return ["--session-id", manager.header.id, "--session-dir", manager.sessionDir];
}

function toolArgs({ tools, noTools, excludeTools }) {
	const args = excludeTools?.length ? ["--exclude-tools", excludeTools.join(",")] : [];
	if (tools?.length) args.push("--tools", tools.join(","));
	else if (tools || noTools === "all") args.push("--no-tools", "--no-mcp");
	else if (noTools === "builtin") args.push("--no-builtin-tools");
	return args;
}

function loaderArgs({ resourceLoader: loader, systemPrompt }, parcel) {
	const args = loader instanceof DefaultResourceLoader ? loader.args() : explicitArgs(loader);
	const instructions = [...(loader.getAppendSystemPrompt?.() ?? []), ...extraContext(loader)];
	const isReplaced = loader.getSystemPrompt?.() !== undefined || systemPrompt;
	if (isReplaced) args.push("--system-prompt", parcel.file("system-prompt.md", systemPrompt));
	instructions.forEach((text, index) => text && args.push("--append-system-prompt", parcel.file(`append-${index}.md`, text)));
	return args;
}

/** What another loader than pi's own has found. Nothing else is loaded. */
function explicitArgs(loader) {
	const each = (flag, names) => names.filter((name) => name && !name.startsWith("<")).flatMap((name) => [flag, name]);
	return [
		...["--no-extensions", "--no-skills", "--no-prompt-templates", "--no-context-files", "--no-mcp"],
		...each("--extension", (loader.getExtensions?.().extensions ?? []).map((one) => one.resolvedPath ?? one.path)),
		...each("--skill", (loader.getSkills?.().skills ?? []).map((one) => one.filePath)),
		...each("--prompt-template", (loader.getPrompts?.().prompts ?? []).map((one) => one.filePath ?? "")),
	];
}

const extraContext = (loader) =>
	loader instanceof DefaultResourceLoader && !loader.options.agentsFilesOverride
		? []
		: (loader.getAgentsFiles?.().agentsFiles ?? []).map(({ path: name, content }) => `# ${name}\n\n${content}`);

/** Create a session, for which an agent starts in another process. */
export async function createAgentSession(given = {}) {
	const cwd = path.resolve(given.cwd ?? given.sessionManager?.getCwd() ?? process.cwd());
	if (!fs.existsSync(cwd)) throw new Error(`The working directory ${cwd} does not exist. The agent of a session needs one.`);
	const agentDir = given.agentDir ?? facts.agentDir;
	const settingsManager = given.settingsManager ?? SettingsManager.create(cwd, agentDir);
	const sessionManager = owned(given.sessionManager ?? SessionManager.create(cwd));
	const modelRuntime = given.modelRuntime ?? given.modelRegistry?.runtime ?? (await ModelRuntime.create({ credentials: given.authStorage }));
	const modelRegistry = given.modelRegistry ?? new ModelRegistry(modelRuntime);
	const resourceLoader = given.resourceLoader ?? new DefaultResourceLoader({ cwd, agentDir, settingsManager });
	if (!given.resourceLoader) await resourceLoader.reload();
	const hooks = new Hooks(resourceLoader.inline ?? [], given);
	const session = new AgentSession({ ...given, cwd, agentDir, settingsManager, sessionManager, modelRuntime, modelRegistry, resourceLoader, hooks });
	try {
		await session.start();
	} catch (error) {
		session.dispose();
		throw error;
	}
	const { compaction, retry, steeringMode, followUpMode } = settingsManager.overrides();
	if (compaction?.enabled === false) session.setAutoCompactionEnabled(false);
	if (retry?.enabled === false) session.setAutoRetryEnabled(false);
	if (steeringMode) session.setSteeringMode(steeringMode);
	if (followUpMode) session.setFollowUpMode(followUpMode);
	return { session, extensionsResult: resourceLoader.getExtensions(), modelFallbackMessage: undefined };
}

function owned(manager) {
	if (!(manager instanceof SessionManager)) throw new Error("createAgentSession() needs a SessionManager of this package as sessionManager.");
	if (manager.writer) throw new Error("The session of this SessionManager is in use. Open its file with another one, or dispose of its session first.");
	return manager;
}

export async function createAgentSessionServices({ cwd, agentDir = facts.agentDir, resourceLoaderOptions = {}, ...given }) {
	const settingsManager = given.settingsManager ?? SettingsManager.create(cwd, agentDir);
	const modelRuntime = given.modelRuntime ?? (await ModelRuntime.create());
	const resourceLoader = new DefaultResourceLoader({ ...resourceLoaderOptions, cwd, agentDir, settingsManager });
	await resourceLoader.reload();
	return { cwd, agentDir, modelRuntime, modelRegistry: new ModelRegistry(modelRuntime), settingsManager, resourceLoader, diagnostics: [] };
}

export const createAgentSessionFromServices = ({ services, ...given }) => createAgentSession({ ...services, ...given });

/** A session that can be replaced by others. */
export class AgentSessionRuntime {
	#create;

	constructor(session, services, create, diagnostics = [], modelFallbackMessage = undefined) {
		Object.assign(this, { session, services, diagnostics, modelFallbackMessage });
		this.#create = create;
	}

	get cwd() {
		return this.services.cwd;
	}
	setRebindSession = (rebind) => (this.rebind = rebind);
	setBeforeSessionInvalidate = (before) => (this.before = before);

	async #replace(sessionManager, reason, withSession) {
		const previousSessionFile = this.session.sessionFile;
		this.before?.();
		this.session.dispose();
		const { agentDir } = this.services;
		const sessionStartEvent = { type: "session_start", reason, ...(previousSessionFile ? { previousSessionFile } : {}) };
		Object.assign(this, await this.#create({ cwd: sessionManager.getCwd(), agentDir, sessionManager, sessionStartEvent }));
		await this.rebind?.(this.session);
		await withSession?.(this.session.hooks.context());
		return { cancelled: false };
	}

	async newSession({ parentSession, setup, withSession } = {}) {
		const manager = this.session.sessionManager.isPersisted()
			? SessionManager.create(this.cwd, this.session.sessionManager.getSessionDir(), { parentSession })
			: SessionManager.inMemory(this.cwd, { parentSession });
		await setup?.(manager);
		return this.#replace(manager, "new", withSession);
	}

	switchSession = (file, { cwdOverride, withSession } = {}) => this.#replace(SessionManager.open(file, undefined, cwdOverride), "resume", withSession);
	importFromJsonl = (file, cwdOverride) => this.#replace(SessionManager.forkFrom(file, cwdOverride ?? this.cwd), "resume");

	async fork(entryId, { position = "before", withSession } = {}) {
		const before = this.session.sessionManager;
		const entry = before.getEntry(entryId);
		if (!entry) throw new Error("Invalid entry ID for forking");
		const leaf = position === "at" ? entryId : entry.parentId;
		const manager = before.isPersisted() ? SessionManager.open(before.getSessionFile(), before.getSessionDir()) : SessionManager.inMemory(this.cwd, {}, before.getEntries());
		if (leaf) manager.createBranchedSession(leaf);
		else manager.newSession({ parentSession: before.getSessionFile() });
		const content = entry.message?.content ?? "";
		const selectedText = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
		return { ...(await this.#replace(manager, "fork", withSession)), ...(position === "before" ? { selectedText } : {}) };
	}

	async dispose() {
		this.before?.();
		this.session.dispose();
	}
}

export async function createAgentSessionRuntime(create, options) {
	const { session, services, diagnostics, modelFallbackMessage } = await create(options);
	return new AgentSessionRuntime(session, services, create, diagnostics, modelFallbackMessage);
}
