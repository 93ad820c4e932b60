// `DefaultResourceLoader` and `DefaultPackageManager`. The agent of a session finds extensions, skills, prompts and context files
// by itself: the loader keeps what a program wants to be different, and lists what the agent of this process has.

import fs from "node:fs";
import path from "node:path";
import { askNow } from "../channel.mjs";
import { CONFIG_DIR_NAME, facts } from "../shims/agent-facts.mjs";
import { record } from "./hooks.mjs";
import { SettingsManager } from "./settings.mjs";

export function createExtensionRuntime() {
	const early = () => {
		throw new Error("Extension runtime not initialized. Action methods cannot be called during extension loading.");
	};
	const actions = "sendMessage sendUserMessage appendEntry setSessionName getSessionName setLabel getActiveTools getAllTools getSettings setActiveTools getCommands getThinkingLevel setThinkingLevel createContext";
	const runtime = {
		...Object.fromEntries(actions.split(" ").map((name) => [name, early])),
		setModel: () => Promise.reject(new Error("Extension runtime not initialized")),
		refreshTools: () => {},
		flagValues: new Map(),
		pendingProviderRegistrations: [],
		pendingNativeProviderRegistrations: [],
		pendingVirtualModelRegistrations: [],
		assertActive: () => {},
		invalidate: () => {},
		trackEventBusSubscription: () => {},
		mcpServers: new Map(),
		// What is registered before there is an agent waits for it.
		registerProvider: (name, config, extensionPath = "<unknown>") => void runtime.pendingProviderRegistrations.push({ name, config, extensionPath }),
		registerNativeProvider: (provider, extensionPath = "<unknown>") => void runtime.pendingNativeProviderRegistrations.push({ provider, extensionPath }),
		registerVirtualModel: (model, extensionPath = "<unknown>") => void runtime.pendingVirtualModelRegistrations.push({ model, extensionPath }),
		unregisterProvider: (name) => {
			const { pendingProviderRegistrations: named, pendingNativeProviderRegistrations: native } = runtime;
			runtime.pendingProviderRegistrations = named.filter((each) => each.name !== name);
			runtime.pendingNativeProviderRegistrations = native.filter((each) => each.provider.id !== name);
		},
		unregisterVirtualModel: (provider, id) => {
			const waiting = runtime.pendingVirtualModelRegistrations;
			runtime.pendingVirtualModelRegistrations = waiting.filter(({ model }) => model.provider !== provider || model.id !== id);
		},
	};
	return runtime;
}

/** The YAML-like head of a Markdown file, and the text after it. */
export function parseFrontmatter(content) {
	const match = /^---\r?\n([\s\S]*?)\r?\n---\r?\n?([\s\S]*)$/.exec(content);
	if (!match) return { frontmatter: {}, body: content };
	return { frontmatter: askNow("parseYaml", { text: match[1] }) ?? {}, body: match[2].trim() };
}

export const stripFrontmatter = (content) => parseFrontmatter(content).body;

const isFile = (name) => fs.statSync(name, { throwIfNoEntry: false })?.isFile() ?? false;

function namesIn(folder) {
	try {
		return fs.readdirSync(folder, { withFileTypes: true });
	} catch {
		return [];
	}
}

const CONTEXT_FILES = ["AGENTS.md", "CLAUDE.md"];

/** The files with instructions for a working directory: that of the user, then those from the root down. */
export function loadProjectContextFiles({ cwd = facts.cwd, agentDir = facts.agentDir } = {}) {
	const folders = [];
	for (let folder = path.resolve(cwd); ; folder = path.dirname(folder)) {
		folders.unshift(folder);
		if (folder === path.dirname(folder)) break;
	}
	const files = [path.resolve(agentDir), ...folders].map((folder) => CONTEXT_FILES.map((name) => path.join(folder, name)).find(isFile));
	return [...new Set(files.filter(Boolean))].map((file) => ({ path: file, content: fs.readFileSync(file, "utf8") }));
}

const sourceOf = (file, source, baseDir) => ({ path: file, source, scope: source === "project" ? "project" : "user", origin: "top-level", ...(baseDir ? { baseDir } : {}) });

/** Say where a skill or a prompt comes from that a program adds itself. */
export const createSyntheticSourceInfo = (file, { source, scope = "temporary", origin = "top-level", baseDir }) => ({ path: file, source, scope, origin, baseDir });

/** The same for a file that was found where pi looks by itself. */
const foundIn = (file, scope, baseDir) => ({ path: file, source: "auto", scope, origin: "top-level", baseDir });

/** The skills below a folder: folders with a SKILL.md, and Markdown files of the folder itself. */
export function loadSkillsFromDir({ dir, source }) {
	const found = [];
	const visit = (folder, isTop) => {
		const own = path.join(folder, "SKILL.md");
		if (isFile(own)) return void found.push(own);
		for (const entry of namesIn(folder)) {
			const name = path.join(folder, entry.name);
			if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
			if (entry.isDirectory()) visit(name, false);
			else if (isTop && entry.name.endsWith(".md")) found.push(name);
		}
	};
	visit(dir, true);
	const skills = found.flatMap((filePath) => {
		const { frontmatter } = parseFrontmatter(fs.readFileSync(filePath, "utf8"));
		const baseDir = path.dirname(filePath);
		const name = frontmatter.name ?? (path.basename(filePath) === "SKILL.md" ? path.basename(baseDir) : path.basename(filePath, ".md"));
		if (!frontmatter.description) return [];
		const disableModelInvocation = frontmatter["disable-model-invocation"] === true;
		return [{ name, description: frontmatter.description, filePath, baseDir, source, sourceInfo: sourceOf(filePath, source), disableModelInvocation }];
	});
	return { skills, diagnostics: [] };
}

/** The skills in the folders of the user and of the project, and in those that are named. The first of a name counts. */
export function loadSkills({ cwd = facts.cwd, agentDir = facts.agentDir, skillPaths = [], includeDefaults = true } = {}) {
	const folders = includeDefaults ? homes(cwd, agentDir).map(([base, scope]) => [path.join(base, "skills"), scope, base]) : [];
	for (const name of skillPaths) folders.push([path.resolve(cwd, name), "path"]);
	const byName = new Map();
	for (const [dir, source, base] of folders) {
		for (const skill of loadSkillsFromDir({ dir, source }).skills) {
			if (base) skill.sourceInfo = foundIn(skill.filePath, source, base);
			if (!byName.has(skill.name)) byName.set(skill.name, skill);
		}
	}
	return { skills: [...byName.values()], diagnostics: [] };
}

/** The folders in which the user and the project keep skills and prompts. */
const homes = (cwd, agentDir) => [[agentDir, "user"], ...(askNow("state").isProjectTrusted ? [[path.join(cwd, CONFIG_DIR_NAME), "project"]] : [])];

/** The prompt templates of the user and of the project, and those that are named: files, or folders of files. */
function loadPrompts({ cwd, agentDir, promptPaths = [], includeDefaults = true }) {
	const byName = new Map();
	const add = (filePath, sourceInfo) => {
		const { frontmatter, body } = parseFrontmatter(fs.readFileSync(filePath, "utf8"));
		const name = path.basename(filePath, ".md");
		const description = frontmatter.description ?? body.split("\n").find((line) => line.trim())?.slice(0, 60) ?? "";
		const hint = frontmatter["argument-hint"];
		if (!byName.has(name)) byName.set(name, { name, description, ...(hint ? { argumentHint: hint } : {}), content: body, sourceInfo, filePath });
	};
	const filesIn = (folder) => namesIn(folder).map((entry) => path.join(folder, entry.name)).filter((name) => name.endsWith(".md") && isFile(name));
	if (includeDefaults) {
		for (const [base, scope] of homes(cwd, agentDir)) for (const file of filesIn(path.join(base, "prompts"))) add(file, foundIn(file, scope, base));
	}
	for (const name of promptPaths.map((each) => path.resolve(cwd, each))) for (const file of isFile(name) ? [name] : filesIn(name)) add(file, sourceOf(file, "path", path.dirname(file)));
	return { prompts: [...byName.values()], diagnostics: [] };
}

export class DefaultResourceLoader {
	#extensions = { extensions: [], errors: [], warnings: [], runtime: createExtensionRuntime() };
	#skills = { skills: [], diagnostics: [] };
	#prompts = { prompts: [], diagnostics: [] };
	#agentsFiles = { agentsFiles: [] };
	/** What the factories in `extensionFactories` have registered. */
	inline = [];
	// Programs set this to have extensions loaded again. The agent of every session loads its own.
	loaded = false;

	constructor(options) {
		this.options = options;
		this.settingsManager = options.settingsManager ?? SettingsManager.create(options.cwd, options.agentDir);
	}

	async reload() {
		const { cwd, agentDir, extensionFactories = [], noSkills, noPromptTemplates, noContextFiles, additionalSkillPaths, additionalPromptTemplatePaths } = this.options;
		this.inline = [];
		const errors = [];
		for (const given of extensionFactories) {
			const { name, factory } = typeof given === "function" ? { name: String(this.inline.length + 1), factory: given } : given;
			try {
				this.inline.push(await record(`<inline:${name}>`, factory));
			} catch (error) {
				errors.push({ path: `<inline:${name}>`, error: String(error?.message ?? error) });
			}
		}
		const base = { ...this.#extensions, extensions: [...this.#listExtensions(), ...this.inline], errors };
		this.#extensions = this.options.extensionsOverride?.(base) ?? base;
		this.inline = this.inline.filter((one) => this.#extensions.extensions.includes(one));
		const skills = loadSkills({ cwd, agentDir, skillPaths: additionalSkillPaths, includeDefaults: !noSkills });
		this.#skills = this.options.skillsOverride?.(skills) ?? skills;
		const prompts = loadPrompts({ cwd, agentDir, promptPaths: additionalPromptTemplatePaths, includeDefaults: !noPromptTemplates });
		this.#prompts = this.options.promptsOverride?.(prompts) ?? prompts;
		const files = { agentsFiles: noContextFiles ? [] : loadProjectContextFiles({ cwd, agentDir }) };
		this.#agentsFiles = this.options.agentsFilesOverride?.(files) ?? files;
		this.loaded = true;
	}

	/** The extensions that the agent of this process has, and those that are named. */
	#listExtensions() {
		const { noExtensions, additionalExtensionPaths = [], cwd } = this.options;
		const named = additionalExtensionPaths.map((name) => describe(path.resolve(cwd, name), []));
		if (noExtensions) return named;
		const here = askNow("extensions").map(({ path: file, tools }) => describe(file, tools));
		return [...here.filter((one) => !named.some((other) => other.path === one.path)), ...named];
	}

	/** What the command line of an agent says about this. */
	args() {
		const { noExtensions, noSkills, noPromptTemplates, noContextFiles, extensionsOverride, skillsOverride, agentsFilesOverride } = this.options;
		const { additionalExtensionPaths = [], additionalSkillPaths = [], additionalPromptTemplatePaths = [], promptsOverride } = this.options;
		const each = (flag, names) => names.flatMap((name) => [flag, name]);
		const chosen = this.#extensions.extensions.filter((one) => !this.inline.includes(one)).map((one) => one.path);
		return [
			...(noExtensions || extensionsOverride ? ["--no-extensions"] : []),
			...(noExtensions ? ["--no-mcp"] : []),
			...each("--extension", extensionsOverride ? chosen : additionalExtensionPaths),
			...(noSkills || skillsOverride ? ["--no-skills"] : []),
			...each("--skill", skillsOverride ? this.#skills.skills.map((one) => one.filePath).filter(isFile) : additionalSkillPaths),
			...(noPromptTemplates || promptsOverride ? ["--no-prompt-templates"] : []),
			...each("--prompt-template", promptsOverride ? this.#prompts.prompts.map((one) => one.filePath).filter(isFile) : additionalPromptTemplatePaths),
			...(noContextFiles || agentsFilesOverride ? ["--no-context-files"] : []),
		];
	}

	getExtensions = () => this.#extensions;
	getSkills = () => this.#skills;
	getPrompts = () => this.#prompts;
	getThemes = () => ({ themes: [], diagnostics: [] });
	getAgentsFiles = () => this.#agentsFiles;

	getSystemPrompt() {
		const { systemPrompt, systemPromptOverride } = this.options;
		return systemPromptOverride ? systemPromptOverride(systemPrompt) : systemPrompt;
	}
	getSystemPromptSource = () => undefined;

	getAppendSystemPrompt() {
		const { appendSystemPrompt, appendSystemPromptOverride } = this.options;
		const base = appendSystemPrompt === undefined ? [] : [appendSystemPrompt].flat();
		return appendSystemPromptOverride ? appendSystemPromptOverride(base) : base;
	}
	getAppendSystemPromptSources = () => [];

	extendResources({ skillPaths = [], promptPaths = [] }) {
		const paths = (given) => given.map((each) => each.path ?? each);
		this.options.additionalSkillPaths = [...(this.options.additionalSkillPaths ?? []), ...paths(skillPaths)];
		this.options.additionalPromptTemplatePaths = [...(this.options.additionalPromptTemplatePaths ?? []), ...paths(promptPaths)];
	}
}

/** An extension that was not loaded here, as pi lists it. */
const describe = (file, tools) => ({
	...{ path: file, resolvedPath: file, sourceInfo: sourceOf(file, "extension") },
	tools: new Map(tools.map((name) => [name, { definition: { name } }])),
	...{ handlers: new Map(), commands: new Map(), flags: new Map(), shortcuts: new Map(), messageRenderers: new Map() },
});

/** Lists the packages of the user. `fairlead install`, `update` and `remove` change them. */
export class DefaultPackageManager {
	constructor({ cwd, agentDir, settingsManager }) {
		Object.assign(this, { cwd, agentDir, settingsManager });
		for (const name of ["install", "installAndPersist", "remove", "removeAndPersist", "update"]) {
			this[name] = async () => {
				throw new Error(`${name}() of DefaultPackageManager is not available in fairlead. Run \`fairlead ${name.replace("AndPersist", "")}\`.`);
			};
		}
	}

	setProgressCallback() {}

	listConfiguredPackages() {
		const of = (settings, scope) =>
			(settings.packages ?? []).map((given) => {
				const source = given.source ?? given;
				return { source, scope, filtered: typeof given === "object", installedPath: this.getInstalledPath(source, scope) };
			});
		return [...of(this.settingsManager.getGlobalSettings(), "user"), ...of(this.settingsManager.getProjectSettings(), "project")];
	}

	getInstalledPath(source, scope) {
		const base = scope === "project" ? path.join(this.cwd, CONFIG_DIR_NAME) : this.agentDir;
		const npm = /^npm:((?:@[^/]+\/)?[^@]+)/.exec(source);
		const git = /^(?:git:)?(?:https?:\/\/|git@|ssh:\/\/)?([^@:/]+)[:/](.+?)(?:\.git)?(?:@[^/]*)?$/.exec(source);
		const folder = npm ? path.join(base, "npm", "node_modules", npm[1]) : source.startsWith("git:") && git ? path.join(base, "git", git[1], git[2]) : path.resolve(base, source);
		return fs.existsSync(folder) ? folder : undefined;
	}

	/** The files of the agent of this process. */
	async resolve() {
		const metadata = { source: "local", scope: "user", origin: "top-level" };
		const all = (paths) => paths.map((file) => ({ path: file, enabled: true, metadata }));
		const [{ skills }, { prompts }] = [loadSkills(this), loadPrompts(this)];
		const pathsOf = (found) => all(found.map((each) => each.filePath));
		return { extensions: all(askNow("extensions").map((each) => each.path)), skills: pathsOf(skills), prompts: pathsOf(prompts), themes: [], installFailures: [] };
	}
}
