// Loads extensions: TypeScript or JavaScript, ES modules or CommonJS, through jiti. Imports of pi's packages get our own
// modules instead, under all names that these packages have had.

import { createRequire } from "node:module";
import path from "node:path";
import * as agentCore from "./shims/agent-core.mjs";
import * as ai from "./shims/ai.mjs";
import * as codingAgent from "./shims/coding-agent.mjs";
import * as tui from "./shims/tui.mjs";

const require = createRequire(import.meta.url);
const typebox = (name) => require("./vendor/typebox/typebox.cjs")[name];

const SCOPES = ["@earendil-works", "@mariozechner", "@oh-my-pi"];
const AI_PATHS = ["", "/compat", "/models", "/oauth", "/providers/all"];

/** A module in which code that draws can be loaded. A name that it does not have says so when it is used. */
function lenient(module, what) {
	return new Proxy(module, {
		get: (target, name) => (name in target || typeof name === "symbol" || name === "then" ? target[name] : unknown(what, name)),
		// jiti reads only the names that a module has.
		has: (target, name) => name in target || (typeof name === "string" && name !== "then" && name !== "default"),
	});
}

const unknowns = new Map();

function unknown(what, name) {
	if (name === "default" || name === "__esModule") return undefined;
	const key = `${what} ${name}`;
	if (!unknowns.has(key)) unknowns.set(key, tui.standIn(what, name));
	return unknowns.get(key);
}

function virtualModules() {
	const modules = {
		get typebox() {
			return typebox("typebox");
		},
		get "typebox/value"() {
			return typebox("value");
		},
		get "typebox/compile"() {
			return typebox("compile");
		},
		get "@sinclair/typebox"() {
			return typebox("typebox");
		},
		get "@sinclair/typebox/value"() {
			return typebox("value");
		},
		get "@sinclair/typebox/compiler"() {
			return typebox("compile");
		},
	};
	const withType = lenient(
		{
			...ai,
			get Type() {
				return typebox("typebox").Type;
			},
		},
		"pi-ai",
	);
	for (const scope of SCOPES) {
		for (const suffix of AI_PATHS) modules[`${scope}/pi-ai${suffix}`] = withType;
		modules[`${scope}/pi-coding-agent`] = lenient(codingAgent, "pi-coding-agent");
		modules[`${scope}/pi-agent-core`] = lenient(agentCore, "pi-agent-core");
		modules[`${scope}/pi-tui`] = lenient(tui, "pi-tui");
	}
	return modules;
}

/** jiti 2.7.0, as built by its authors. The compiler inside it is loaded only when a file is not in the cache. */
function createJiti(options) {
	const environment = {
		onError: (error) => {
			throw error;
		},
		nativeImport: (id) => import(id),
		createRequire,
	};
	const transform = (...given) => require("./vendor/jiti/babel.cjs")(...given);
	return require("./vendor/jiti/jiti.cjs")(import.meta.url, { ...options, transform }, environment);
}

let jiti;

/** Get ready to load extensions. Their compiled code is kept in the folder `cache`. */
export function prepare(cache) {
	jiti ??= createJiti({
		moduleCache: false,
		fsCache: cache ?? false,
		virtualModules: virtualModules(),
	});
}

/** Load the extension in a file and return its default export. Throws if there is none that can be called. */
export async function loadFactory(file, cache) {
	prepare(cache);
	const factory = await jiti.import(path.resolve(file), { default: true });
	if (typeof factory !== "function") throw new Error("Extension does not export a valid factory function");
	return factory;
}
