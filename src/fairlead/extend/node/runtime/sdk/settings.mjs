// `SettingsManager` and `AuthStorage`: pi's settings and keys in the files of the user. They are read and written here, as pi does
// in its own process; the agent of a session reads the same files.

import fs from "node:fs";
import path from "node:path";
import { askNow } from "../channel.mjs";
import { CONFIG_DIR_NAME, facts } from "../shims/agent-facts.mjs";

/** The content of a file with a JSON object; nothing if it does not exist. Throws if it is something else. */
function readObject(file) {
	let text;
	try {
		text = fs.readFileSync(file, "utf8");
	} catch (error) {
		if (error.code === "ENOENT") return {};
		throw error;
	}
	const found = JSON.parse(text.replace(/^\uFEFF/, "") || "{}");
	if (!found || typeof found !== "object" || Array.isArray(found)) throw new Error(`${file} is not a JSON object`);
	return found;
}

/** Replace a file, which only its user may read. A reader sees the old content or the new one. */
function writeObject(file, content) {
	fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
	const half = `${file}.${process.pid}.tmp`;
	fs.writeFileSync(half, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
	fs.renameSync(half, file);
}

const isObject = (value) => value && typeof value === "object" && !Array.isArray(value);

function merged(base, more) {
	const result = { ...base };
	for (const [key, value] of Object.entries(more ?? {})) {
		if (value !== undefined) result[key] = isObject(value) && isObject(result[key]) ? { ...result[key], ...value } : value;
	}
	return result;
}

/** Settings with a getter and a setter: the end of their names, where they are, and the value if they are not set. */
const FIELDS = {
	DefaultProvider: ["defaultProvider"],
	DefaultModel: ["defaultModel"],
	DefaultThinkingLevel: ["defaultThinkingLevel"],
	SteeringMode: ["steeringMode", "one-at-a-time"],
	FollowUpMode: ["followUpMode", "one-at-a-time"],
	Theme: ["theme"],
	Transport: ["transport", "auto"],
	SessionShareDestination: ["sessionShareDestination"],
	CompactionEnabled: ["compaction.enabled", true],
	RetryEnabled: ["retry.enabled", true],
	HttpIdleTimeoutMs: ["httpIdleTimeoutMs", 300000],
	CacheWarmingMode: ["cacheWarming", "off"],
	HideThinkingBlock: ["hideThinkingBlock", false],
	ShowCacheMissNotices: ["showCacheMissNotices", false],
	ShellPath: ["shellPath"],
	QuietStartup: ["quietStartup", false],
	DefaultProjectTrust: ["defaultProjectTrust", "ask"],
	ShellCommandPrefix: ["shellCommandPrefix"],
	NpmCommand: ["npmCommand"],
	CollapseChangelog: ["collapseChangelog", false],
	LastChangelogVersion: ["lastChangelogVersion"],
	EnableInstallTelemetry: ["enableInstallTelemetry", false],
	EnableAnalytics: ["enableAnalytics", false],
	Packages: ["packages", []],
	ExtensionPaths: ["extensions", []],
	SkillPaths: ["skills", []],
	PromptTemplatePaths: ["prompts", []],
	ThemePaths: ["themes", []],
	EnableSkillCommands: ["enableSkillCommands", true],
	ShowImages: ["terminal.showImages", true],
	ImageWidthCells: ["terminal.imageWidthCells", 60],
	ClearOnShrink: ["terminal.clearOnShrink", false],
	ShowTerminalProgress: ["terminal.showTerminalProgress", false],
	TuiMode: ["tuiMode", "regular"],
	ImageAutoResize: ["images.autoResize", true],
	BlockImages: ["images.blockImages", false],
	EnabledModels: ["enabledModels"],
	DoubleEscapeAction: ["doubleEscapeAction", "tree"],
	TreeFilterMode: ["treeFilterMode", "default"],
	ShowHardwareCursor: ["showHardwareCursor", false],
	EditorPaddingX: ["editorPaddingX", 0],
	OutputPad: ["outputPad", 1],
	AutocompleteMaxVisible: ["autocompleteMaxVisible", 5],
	CodeBlockIndent: ["markdown.codeBlockIndent", "  "],
	MermaidRenderingMode: ["markdown.mermaid", "final"],
	Warnings: ["warnings", {}],
	SessionDir: ["sessionDir"],
	ThinkingBudgets: ["thinkingBudgets"],
	TrackingId: ["trackingId"],
	DefaultTools: ["defaultTools"],
};
/** Of these, the project may have others: `setProjectPackages` and so on. */
const PROJECT_FIELDS = ["Packages", "ExtensionPaths", "SkillPaths", "PromptTemplatePaths", "ThemePaths"];
/** Of these, what a project says does not count. */
const USER_ONLY = new Set(["DefaultProjectTrust", "CacheWarmingMode"]);

const at = (settings, where) => where.split(".").reduce((value, name) => value?.[name], settings);

function put(settings, where, value) {
	const names = where.split(".");
	const last = names.pop();
	const inside = names.reduce((object, name) => (object[name] = { ...object[name] }), settings);
	if (value === undefined) delete inside[last];
	else inside[last] = value;
}

export class SettingsManager {
	#files;
	#global = {};
	#project = {};
	#overrides = {};
	#trusted;
	#errors = [];

	constructor(files, global, { projectTrusted } = {}) {
		this.#files = files;
		this.#global = structuredClone(global);
		this.#trusted = projectTrusted;
		this.#load();
	}

	/** The settings of the user and, if it is trusted, of the project. */
	static create(cwd = facts.cwd, agentDir = facts.agentDir, options = {}) {
		const files = { global: path.join(agentDir, "settings.json"), project: path.join(cwd, CONFIG_DIR_NAME, "settings.json") };
		const isOwn = path.resolve(cwd) === path.resolve(facts.cwd);
		return new SettingsManager(files, {}, { projectTrusted: isOwn && askNow("state").isProjectTrusted, ...options });
	}

	static inMemory(settings = {}, options = {}) {
		return new SettingsManager(undefined, settings, options);
	}

	#load() {
		if (!this.#files) return;
		for (const scope of ["global", "project"]) {
			try {
				const found = scope === "global" || this.#trusted ? readObject(this.#files[scope]) : {};
				if (scope === "global") this.#global = found;
				else this.#project = found;
			} catch (error) {
				this.#errors.push({ scope, path: this.#files[scope], error });
			}
		}
	}

	#set(scope, where, value) {
		const mine = scope === "global" ? this.#global : this.#project;
		put(mine, where, value);
		if (!this.#files) return;
		if (scope === "project" && !this.#trusted) throw new Error("Project is not trusted; refusing to write project settings");
		try {
			const stored = readObject(this.#files[scope]); // another process may have changed something else
			put(stored, where, value);
			writeObject(this.#files[scope], stored);
		} catch (error) {
			this.#errors.push({ scope, path: this.#files[scope], error });
		}
	}

	/** What a program has chosen, as opposed to what is in the files. */
	overrides() {
		return this.#files ? this.#overrides : merged(this.#global, this.#overrides);
	}

	getSettings = () => structuredClone(merged(merged(this.#global, this.#project), this.#overrides));
	getGlobalSettings = () => structuredClone(this.#global);
	getProjectSettings = () => structuredClone(this.#project);
	isProjectTrusted = () => this.#trusted !== false;
	applyOverrides = (overrides) => (this.#overrides = merged(this.#overrides, overrides));
	drainErrors = () => this.#errors.splice(0);

	setProjectTrusted(trusted) {
		this.#trusted = trusted;
		this.#project = {};
		this.#load();
	}
	async reload() {
		this.#load();
	}
	async flush() {}

	get(name) {
		const [where, missing] = FIELDS[name];
		const value = at(USER_ONLY.has(name) ? this.#global : this.getSettings(), where);
		return value === undefined ? structuredClone(missing) : value;
	}
	set = (name, value) => this.#set("global", FIELDS[name][0], value);
	setForProject = (name, value) => this.#set("project", FIELDS[name][0], value);

	setDefaultModelAndProvider(provider, modelId) {
		this.set("DefaultProvider", provider);
		this.set("DefaultModel", modelId);
	}
	getThemeSetting = () => this.get("Theme");
	getModelThinkingLevel = (provider, modelId) => this.getAllModelThinkingLevels()[`${provider}/${modelId}`];
	getAllModelThinkingLevels = () => this.getSettings().modelThinkingLevels ?? {};
	setModelThinkingLevel = (provider, modelId, level) => this.#set("global", "modelThinkingLevels", { ...this.#global.modelThinkingLevels, [`${provider}/${modelId}`]: level });
	removeModelThinkingLevel(provider, modelId) {
		const { [`${provider}/${modelId}`]: _, ...rest } = this.#global.modelThinkingLevels ?? {};
		this.#set("global", "modelThinkingLevels", Object.keys(rest).length ? rest : undefined);
	}

	getCompactionSettings(model) {
		const { compaction = {} } = this.getSettings();
		const own = model && compaction.modelOverrides?.[`${model.provider}/${model.id}`];
		return { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000, ...pickTokens(compaction), ...pickTokens(own ?? {}), ...(compaction.enabled === undefined ? {} : { enabled: compaction.enabled }) };
	}
	getCompactionReserveTokens = (model) => this.getCompactionSettings(model).reserveTokens;
	getCompactionKeepRecentTokens = (model) => this.getCompactionSettings(model).keepRecentTokens;
	getBranchSummarySettings = () => ({ reserveTokens: 16384, skipPrompt: false, ...this.getSettings().branchSummary });
	getBranchSummarySkipPrompt = () => this.getBranchSummarySettings().skipPrompt;
	getRetrySettings() {
		const { provider, ...retry } = this.getSettings().retry ?? {};
		return { enabled: true, maxRetries: 3, baseDelayMs: 2000, maxAgentDelayMs: 60000, ...retry };
	}
	getProviderRetrySettings = () => ({ maxRetryDelayMs: 60000, ...this.getSettings().retry?.provider });
	getWebSocketConnectTimeoutMs = () => this.getSettings().websocketConnectTimeoutMs;
	getExternalEditorCommand = () => this.getSettings().externalEditor ?? process.env.VISUAL ?? process.env.EDITOR ?? "nano";
	getExtensionChangelogVersion = (key) => this.getSettings().extensionChangelogVersions?.[key];
	setExtensionChangelogVersion = (key, version) => this.#set("global", "extensionChangelogVersions", { ...this.#global.extensionChangelogVersions, [key]: version });
	getTerminalCapabilityOverrides = () => ({});
}

const pickTokens = ({ reserveTokens, keepRecentTokens }) => ({ ...(reserveTokens === undefined ? {} : { reserveTokens }), ...(keepRecentTokens === undefined ? {} : { keepRecentTokens }) });

for (const name of Object.keys(FIELDS)) {
	SettingsManager.prototype[`get${name}`] ??= function () {
		return this.get(name);
	};
	SettingsManager.prototype[`set${name}`] ??= function (value) {
		this.set(name, value);
	};
}
for (const name of PROJECT_FIELDS) {
	SettingsManager.prototype[`setProject${name}`] = function (value) {
		this.setForProject(name, value);
	};
}

// Trust

const NEEDS_TRUST = ["settings.json", "mcp.json", "extensions", "skills", "prompts", "themes", "rules", "SYSTEM.md", "APPEND_SYSTEM.md"];

/** A folder as trust.json names it, and the folders above it. */
function foldersFrom(cwd) {
	const folders = [fs.existsSync(cwd) ? fs.realpathSync(cwd) : path.resolve(cwd)];
	while (path.dirname(folders.at(-1)) !== folders.at(-1)) folders.push(path.dirname(folders.at(-1)));
	return folders;
}

/** Whether a project has files that are read only if it is trusted. */
export function hasTrustRequiringProjectResources(cwd) {
	const [own, ...above] = foldersFrom(cwd);
	const ofUser = path.join(process.env.HOME ?? "", ".agents", "skills");
	const isSkills = (folder) => folder !== ofUser && fs.existsSync(folder);
	return NEEDS_TRUST.some((name) => fs.existsSync(path.join(own, CONFIG_DIR_NAME, name))) || [own, ...above].some((folder) => isSkills(path.join(folder, ".agents", "skills")));
}

/** The user's decisions about projects in `trust.json`. They hold for the folders below a project, too. */
export class ProjectTrustStore {
	constructor(agentDir) {
		this.trustPath = path.join(path.resolve(agentDir), "trust.json");
	}

	get = (cwd) => this.getEntry(cwd)?.decision ?? null;

	getEntry(cwd) {
		const decisions = readObject(this.trustPath);
		const found = foldersFrom(cwd).find((folder) => typeof decisions[folder] === "boolean");
		return found === undefined ? null : { path: found, decision: decisions[found] };
	}

	set = (cwd, decision) => this.setMany([{ path: cwd, decision }]);

	setMany(changes) {
		const decisions = readObject(this.trustPath);
		for (const { path: cwd, decision } of changes) {
			const [folder] = foldersFrom(cwd);
			if (typeof decision === "boolean") decisions[folder] = decision;
			else delete decisions[folder];
		}
		writeObject(this.trustPath, decisions);
	}
}

// Keys

/** The value of a key: a text, the name of a variable in the environment, or `!command`, which only the agent runs. */
function resolveKey(key) {
	if (typeof key !== "string" || key.startsWith("!")) return undefined;
	return key.startsWith("$") ? process.env[key.slice(1).replace(/^\{(.*)\}$/, "$1")] : (process.env[key] ?? key);
}

/** The keys and logins in `auth.json`, or in memory. */
export class AuthStorage {
	#file;
	#data;
	/** Keys for this process alone. The agents of sessions get them, too. */
	runtimeKeys = new Map();

	constructor(file, data = {}) {
		this.#file = file;
		this.#data = data;
		this.reload();
	}

	static create(authPath = path.join(facts.agentDir, "auth.json")) {
		return new AuthStorage(authPath);
	}

	static inMemory(data = {}) {
		const storage = new AuthStorage(undefined, structuredClone(data));
		for (const [provider, { type, key }] of Object.entries(data)) if (type === "api_key" && key) storage.runtimeKeys.set(provider, key);
		return storage;
	}

	reload() {
		try {
			if (this.#file) this.#data = readObject(this.#file);
		} catch {
			// What was read before stays.
		}
	}

	#change(change) {
		if (this.#file) this.#data = readObject(this.#file);
		change(this.#data);
		if (this.#file) writeObject(this.#file, this.#data);
	}

	get = (provider) => this.#data[provider];
	getAll = () => structuredClone(this.#data);
	has = (provider) => provider in this.#data;
	hasAuth = (provider) => this.has(provider) || this.runtimeKeys.has(provider) || askNow("models", {}).some((model) => model.provider === provider);
	set = (provider, credential) => this.#change((data) => (data[provider] = credential));
	remove = (provider) => this.#change((data) => delete data[provider]);
	setRuntimeApiKey = (provider, key) => void this.runtimeKeys.set(provider, key);
	removeRuntimeApiKey = (provider) => void this.runtimeKeys.delete(provider);
	getApiKey = async (provider) => this.runtimeKeys.get(provider) ?? resolveKey(this.#data[provider]?.key) ?? askNow("providerKey", { provider })?.apiKey;
	drainErrors = () => [];

	async read(provider) {
		this.reload();
		const found = this.#data[provider];
		return found?.type === "api_key" && found.key !== undefined ? { ...found, key: resolveKey(found.key) } : found;
	}
	async modify(provider, change) {
		this.reload();
		const next = await change(this.#data[provider]);
		if (next !== undefined) this.set(provider, next);
		return next ?? this.#data[provider];
	}
	async delete(provider) {
		this.remove(provider);
	}
	async list() {
		this.reload();
		return Object.entries(this.#data).map(([providerId, { type }]) => ({ providerId, type }));
	}
	async logout(provider) {
		this.remove(provider);
	}
}

/** A key or login in `auth.json`. */
export function readStoredCredential(provider, authPath = path.join(facts.agentDir, "auth.json")) {
	try {
		return readObject(authPath)[provider];
	} catch {
		return undefined;
	}
}
