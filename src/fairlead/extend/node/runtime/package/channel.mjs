// Answers what the modules of the SDK ask their agent, in a program that imports the package: no agent is there. Models come from
// the command `fairlead models`, and the rest from the files of the user.

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { facts } from "./shims/agent-facts.mjs";

/** Milliseconds for which a list of models counts. */
const FRESH_MS = 10_000;
const MOST_OUTPUT = 64 * 1024 * 1024;

let listed = { at: -Infinity, models: [], files: "" };

/** What changes when the files change that say which models there are. */
function modelFiles() {
	const stats = ["auth.json", "models.json", "settings.json"].map((name) => fs.statSync(path.join(facts.agentDir, name), { throwIfNoEntry: false }));
	return stats.map((found) => `${found?.mtimeMs} ${found?.size}`).join();
}

function run(args) {
	// pi has no such commands: fairlead runs them under its own name, with the same home.
	const name = facts.command.indexOf("--as");
	const [program, ...first] = name < 0 ? facts.command : facts.command.slice(0, name);
	const env = { ...process.env, FAIRLEAD_HOME: facts.agentDir };
	const done = spawnSync(program, [...first, ...args], { encoding: "utf8", maxBuffer: MOST_OUTPUT, env });
	if (done.error) throw new Error(`fairlead could not be started: ${done.error.message}`);
	if (done.status !== 0) throw new Error(`fairlead ${args[0]} failed: ${done.stderr.trim()}`);
	return done.stdout;
}

/** Sort models as pi does: those of the catalog by name, then those that the user has added. */
function sortAsPi(found) {
	const added = readObject("models.json").providers ?? {};
	const isAdded = ({ provider, id }) => Boolean(added[provider]?.models?.some((model) => model.id === id));
	const name = ({ provider, id }) => `${provider}/${id}`;
	const byName = (one, other) => (name(one) < name(other) ? -1 : 1);
	return [...found.filter((model) => !isAdded(model)).sort(byName), ...found.filter(isAdded)];
}

function models({ all }) {
	const files = modelFiles();
	if (performance.now() - listed.at > FRESH_MS || files !== listed.files) {
		const found = JSON.parse(run(["models", "--all", "--json"]));
		listed = { at: performance.now(), models: sortAsPi(found), files };
	}
	return listed.models.filter((model) => all || model.isUsable).map(({ isUsable, keySource, ...model }) => model);
}

function readObject(name) {
	try {
		return JSON.parse(fs.readFileSync(path.join(facts.agentDir, name), "utf8"));
	} catch {
		return {};
	}
}

function files(folder) {
	try {
		return fs.readdirSync(folder).filter((name) => /\.[cm]?[jt]sx?$/.test(name)).map((name) => path.join(folder, name));
	} catch {
		return [];
	}
}

/** The heads of skills and agents: names with texts, numbers, truth values and lists. */
function parseYaml({ text }) {
	const found = {};
	let key;
	for (const line of text.split(/\r?\n/)) {
		if (!line.trim() || line.trimStart().startsWith("#")) continue;
		const pair = /^([\w.-]+):(?:\s+(.*))?$/.exec(line);
		const item = /^\s*-\s+(.*)$/.exec(line);
		if (pair) {
			key = pair[1];
			found[key] = pair[2] === undefined ? null : scalar(pair[2]);
		} else if (item && key) {
			found[key] = [...(Array.isArray(found[key]) ? found[key] : []), scalar(item[1])];
		} else if (/^\s+\S/.test(line) && key) {
			// A text of several lines.
			const before = typeof found[key] === "string" && !/^[|>][+-]?$/.test(found[key]) ? `${found[key]} ` : "";
			found[key] = before + line.trim();
		} else {
			throw new Error(`This line is no YAML: ${line}`);
		}
	}
	return found;
}

function scalar(text) {
	const plain = text.replace(/\s+#.*$/, "").trim();
	if (/^".*"$/.test(plain)) return JSON.parse(plain);
	if (/^'.*'$/.test(plain)) return plain.slice(1, -1).replaceAll("''", "'");
	if (/^\[.*\]$/.test(plain)) return plain.slice(1, -1).split(",").map((each) => scalar(each.trim())).filter((each) => each !== "");
	if (plain === "true" || plain === "false") return plain === "true";
	if (plain === "null" || plain === "~") return null;
	return /^-?\d+(\.\d+)?$/.test(plain) ? Number(plain) : plain;
}

function storedKey(provider) {
	const key = readObject("auth.json")[provider]?.key;
	return typeof key === "string" && !/^[!$]/.test(key) ? (process.env[key] ?? key) : undefined;
}

const variable = (provider) => `${provider.toUpperCase().replaceAll("-", "_")}_API_KEY`;
const keyOf = (provider) => storedKey(provider) ?? process.env[variable(provider)] ?? (provider === "google" ? process.env.GEMINI_API_KEY : undefined);

const text = (description) => ({ type: "string", description });
const tool = (description, required, properties) => ({ description, parameters: { type: "object", properties, required } });
const FILE = text("The file, absolute or relative to the working directory");
const FOLDER = text("The directory, by default the working directory");
const EDITS = { type: "array", items: { type: "object", properties: { oldText: { type: "string" }, newText: { type: "string" } }, required: ["oldText", "newText"] } };

/** The built-in tools, for programs that make them and pass them on. */
const TOOLS = {
	read: tool("Read a file.", ["path"], { path: FILE, offset: { type: "integer" }, limit: { type: "integer" } }),
	bash: tool("Run a shell command in the working directory.", ["command"], { command: text("The command"), timeout: { type: "number" } }),
	edit: tool("Replace exact pieces of text in a file.", ["path", "edits"], { path: FILE, edits: EDITS }),
	write: tool("Write a file.", ["path", "content"], { path: FILE, content: { type: "string" } }),
	grep: tool("Search the content of files.", ["pattern"], { pattern: text("A regular expression"), path: FOLDER }),
	find: tool("Find files by their names.", ["pattern"], { pattern: text("A pattern such as **/*.ts"), path: FOLDER }),
	ls: tool("List a directory.", [], { path: FOLDER }),
};

const answers = {
	models,
	state: () => ({ isProjectTrusted: false, hasUI: false, mode: "print", cwd: facts.cwd }),
	session: () => ({ folder: null }),
	extensions: () => files(path.join(facts.agentDir, "extensions")).map((file) => ({ path: file, tools: [] })),
	protection: () => facts.protection ?? [],
	settings: () => readObject("settings.json"),
	parseYaml,
	providerKey: ({ provider }) => (keyOf(provider) ? { apiKey: keyOf(provider), headers: {} } : undefined),
	modelAuth: ({ model }) => (keyOf(model.provider) ? { ok: true, apiKey: keyOf(model.provider), headers: {} } : { ok: true }),
	describeTool: ({ name }) => ({ label: name, ...TOOLS[name] }),
	show: () => {},
};

/** Answer a question. Throws for what only an agent can answer. */
export function askNow(method, params = {}) {
	if (!answers[method]) throw new Error(notHere(method));
	return answers[method](params);
}

const notHere = (method) =>
	method === "streamModel"
		? "Models cannot be called directly by a program that imports fairlead as pi's SDK. Use createAgentSession()."
		: `"${method}" is not available in a program that imports fairlead as pi's SDK.`;

export async function ask(method, params = {}, signal = undefined, onProgress = undefined) {
	if (method !== "builtinTool") return askNow(method, params);
	const { runHere } = await import("./shims/tools.mjs"); // which imports this module
	return runHere(params.name, params.args, params.cwd, params.env, signal, onProgress);
}
export const notify = () => {};
export const serve = () => {};
export const described = (error) => ({ message: String(error?.message ?? error), stack: String(error?.stack ?? "") });
