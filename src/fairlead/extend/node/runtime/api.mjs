// `pi`: the object with which an extension adds itself to the agent.

import { ask, askNow, described, notify } from "./channel.mjs";
import { createContext, endSession, onlyInTerminal, refuseStale } from "./context.mjs";
import { exec } from "./exec.mjs";
import { announce, isLoading, plainForm, refreshSoon } from "./provider-models.mjs";

/** Everything that extensions have registered here: functions, by a number that the agent knows. */
export const registered = new Map();
let nextNumber = 1;

/** Milliseconds after which what a command has sent reaches the session, even if the command still runs. */
const FLUSH_MS = 20;

function keep(entry) {
	registered.set(nextNumber, entry);
	return nextNumber++;
}

/** Events between extensions. They share objects, as they do in pi, so these events stay in this process. */
let listeners = [];
const forgotten = new Set();

function eventsOf(extension) {
	return {
		on(name, handler) {
			const run = async (data) => {
				try {
					await handler(data);
				} catch (error) {
					console.error(`A handler of the event ${name} failed:`, error);
				}
			};
			const listener = { extension, name, run };
			listeners = [...listeners, listener];
			return () => {
				listeners = listeners.filter((each) => each !== listener);
			};
		},
		emit(name, data) {
			if (forgotten.has(extension)) return;
			for (const listener of listeners) if (listener.name === name) listener.run(data);
		},
	};
}

/** Forget an extension that has been loaded again, in another session. */
export function forget({ extension }) {
	endSession();
	forgotten.add(extension);
	listeners = listeners.filter((each) => each.extension !== extension);
	for (const [number, entry] of registered) if (entry.extension === extension) registered.delete(number);
}

/** Whether this process has a successor, in which all extensions are loaded again. */
let isRetired = false;

export function retire() {
	endSession();
	isRetired = true;
}

/** Where the keys of an object in a schema are names that the author has chosen, and where they are no schema at all. */
const NAMED = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]);
const DATA = new Set(["const", "default", "enum", "examples"]);

/** A schema without what TypeBox notes in it for itself, such as `~optional`, which some providers refuse. */
export function plainSchema(schema, isNamed = false) {
	if (Array.isArray(schema)) return schema.map((each) => plainSchema(each));
	if (!schema || typeof schema !== "object") return schema;
	const kept = Object.entries(schema).filter(([name]) => isNamed || !name.startsWith("~"));
	return Object.fromEntries(kept.map(([name, value]) => [name, !isNamed && DATA.has(name) ? value : plainSchema(value, !isNamed && NAMED.has(name))]));
}

function plainTool(tool) {
	const { name, label, description, parameters, promptSnippet, promptGuidelines, executionMode, defaultActive } = tool;
	const { exposure, namespace, annotations, outputSchema, constrainedSampling } = tool;
	return {
		...{ name, label, description, promptSnippet, promptGuidelines, executionMode, defaultActive },
		...{ parameters: plainSchema(parameters), outputSchema: plainSchema(outputSchema) },
		...{ exposure, namespace, annotations, constrainedSampling },
		prepares: typeof tool.prepareArguments === "function",
		presents: typeof tool.prepareLoadout === "function",
	};
}

/** The last registration of a provider by an extension. */
function registeredProvider(extension, name) {
	return [...registered].findLast(([, each]) => each.kind === "provider" && each.extension === extension && each.name === name);
}

/** All tools of the session. Those of extensions here have their functions. */
export function listedTools() {
	const mine = new Map([...registered.values()].filter((each) => each.kind === "tool").map(({ tool }) => [tool.name, tool]));
	return askNow("tools").map((tool) => {
		const reachesTools = mine.get(tool.name)?.reachesTools;
		return reachesTools ? { ...tool, reachesTools } : tool;
	});
}

/** Tell the handlers of `mcp_servers_change`, unless extensions are still being loaded. Nothing waits for them. */
function serversChanged() {
	if (isLoading()) return;
	const event = { type: "mcp_servers_change", servers: askNow("mcpServers") };
	for (const { extension, kind, event: name, run } of [...registered.values()]) {
		if (kind === "handler" && name === event.type) {
			(async () => run({ ...event }, createContext()))().catch((error) =>
				notify("failed", { extension, event: name, error: described(error) }),
			);
		}
	}
}

/** Make the object for one extension. */
export function createApi(extension) {
	const requireLive = () => {
		if (isRetired || forgotten.has(extension)) refuseStale();
	};
	const act = (method, params = {}) => {
		requireLive();
		return askNow(method, { extension, ...params });
	};
	// What a command sends is held back until the host has the command's response. A command that runs on does not hold it.
	const send = (method, params) => {
		act(method, params);
		setTimeout(notify, FLUSH_MS, "flush");
	};
	return {
		on(event, handler) {
			const number = keep({ extension, kind: "handler", event, run: handler });
			if (event !== "mcp_servers_change") act("on", { event, number });
			return () => {
				if (registered.delete(number)) act("off", { number });
			};
		},

		registerTool(tool) {
			const number = keep({ extension, kind: "tool", tool });
			act("registerTool", { number, tool: plainTool(tool) });
		},
		registerCommand(name, options) {
			const { handler, description, getArgumentCompletions } = options;
			const number = keep({ extension, kind: "command", run: handler, complete: getArgumentCompletions });
			act("registerCommand", { number, name, description, completes: typeof getArgumentCompletions === "function" });
		},
		registerFlag(name, options) {
			act("registerFlag", { name, type: options.type, default: options.default, description: options.description });
		},
		getFlag: (name) => act("getFlag", { name }) ?? undefined,
		registerProvider(given, config) {
			const [name, described] = typeof given === "string" ? [given, config] : [given.id, given];
			// Registering it again keeps what the new description does not mention.
			const [before, previous] = registeredProvider(extension, name) ?? [];
			const news = Object.fromEntries(Object.entries(described).filter(([, value]) => value !== undefined));
			const number = keep({ extension, kind: "provider", name, config: plainForm(config ? { ...previous?.config, ...news } : given) });
			try {
				announce(number);
			} catch (error) {
				registered.delete(number);
				throw error;
			}
			registered.delete(before);
			refreshSoon(number);
		},
		unregisterProvider(name) {
			registered.delete(registeredProvider(extension, name)?.[0]);
			act("unregisterProvider", { name });
		},

		registerShortcut: () => onlyInTerminal("registerShortcut"),
		registerMessageRenderer: () => onlyInTerminal("registerMessageRenderer"),
		registerEntryRenderer: () => onlyInTerminal("registerEntryRenderer"),
		registerToolRenderer: () => onlyInTerminal("registerToolRenderer"),
		registerMarkdownTransformer: () => onlyInTerminal("registerMarkdownTransformer"),

		sendMessage: (message, options) => send("sendMessage", { message, options }),
		sendUserMessage: (content, options) => send("sendUserMessage", { content, options }),
		appendEntry: (customType, data) => void act("appendEntry", { customType, data }),
		setSessionName: (name) => void act("setSessionName", { name }),
		getSessionName: () => act("getSessionName"),
		setLabel: (entry, label) => void act("setLabel", { entry, label }),
		exec(command, args, options) {
			requireLive();
			return exec(command, args, options);
		},
		getActiveTools: () => act("tools").filter((tool) => tool.active).map((tool) => tool.name),
		getAllTools: () => listedTools().map(({ active, callable, label, outputSchema, ...tool }) => tool),
		setActiveTools: (names) => void act("setActiveTools", { names }),
		getCommands: () => act("commands"),
		getSettings: () => act("settings"),
		setModel: async ({ provider, id }) => {
			const { isSet, waits } = act("setModel", { provider, id });
			if (waits) await ask("modelSelected"); // until handlers have seen it
			return isSet;
		},
		getThinkingLevel: () => act("state").thinkingLevel,
		setThinkingLevel: (level) => void act("setThinkingLevel", { level }),
		events: eventsOf(extension),

		registerMcpServer(name, config) {
			act("registerMcpServer", { name, config });
			serversChanged();
		},
		unregisterMcpServer(name) {
			act("unregisterMcpServer", { name });
			serversChanged();
		},
		getMcpServers: () => act("mcpServers"),
		registerVirtualModel(definition) {
			const number = keep({ extension, kind: "router", definition });
			const { provider, id, name, thinkingLevels, contextWindow, maxTokens, input } = definition;
			act("registerVirtualModel", { number, definition: { provider, id, name, thinkingLevels, contextWindow, maxTokens, input } });
		},
		unregisterVirtualModel: (provider, id) => void act("unregisterVirtualModel", { provider, id }),
	};
}
