// What the agent calls: event handlers, tools and commands of extensions.

import { askNow, notify } from "./channel.mjs";
import { changedField, fieldsRead, kept, reading, sendable } from "./answers.mjs";
import { watched } from "./changes.mjs";
import { preparedFor } from "./shims/transcript.mjs";
import { listedTools, registered } from "./api.mjs";
import { createCommandContext, createContext, createToolContext, dropSignal, signalOf } from "./context.mjs";

/** The field of an event that handlers may change in place. */
const CHANGEABLE = { tool_call: "input", before_provider_headers: "headers", before_agent_start: "systemPromptOptions" };

function found(number, kind) {
	const entry = registered.get(number);
	if (entry?.kind !== kind) throw new Error(`This ${kind} is no longer registered.`);
	return entry;
}

export async function handle({ number, event, signal }, call) {
	const entry = found(number, "handler");
	const { type } = event;
	const given = { signal: signalOf(signal), systemPrompt: event.systemPrompt === undefined ? undefined : () => event.systemPrompt };
	if (given.signal && "signal" in event) event.signal = given.signal;
	const ctx = createContext(call, given);
	if (type === "session_before_compact") Object.assign(event.preparation, preparedFor(event.preparation.messagesToSummarize));
	// Only when it is read: it is the whole conversation.
	if ("outcome" in event) {
		const { entries } = event;
		Object.defineProperty(event, "context", { get: () => askNow("boundaryContext", { entries }), enumerable: false });
	}
	const withChanges = watched(event, entry.extension);
	try {
		const returned = await entry.run(event, ctx);
		return reading(() => {
			if (type === "user_bash") return answeredBash(returned);
			const result = sendable(type, withChanges(fieldsRead(type, returned)));
			const changed = CHANGEABLE[type];
			return changed ? { result, changed: changedField(event[changed]) } : { result };
		});
	} finally {
		dropSignal(signal);
	}
}

/** The operations with which shell commands of the user are about to run. */
const offered = new Map();
let nextOffer = 1;

const isObject = (value) => typeof value === "object" && value !== null;

/** What a handler of `user_bash` returned. Everything else than pi documents is an error, so that the command does not run here. */
function answeredBash(answer) {
	if (answer === undefined) return {};
	const { operations, result } = isObject(answer) ? answer : {};
	const runs = operations !== undefined && result === undefined && typeof operations?.exec === "function";
	if (!runs && (operations !== undefined || !isOutcome(result))) {
		throw new Error(
			"Invalid user_bash handler result: return undefined for local execution or exactly one valid { operations } or { result } object",
		);
	}
	if (!runs) return { result: sendable("user_bash", { result }) };
	offered.set(nextOffer, operations);
	return { runs: nextOffer++ };
}

function isOutcome(result) {
	if (!isObject(result) || !("exitCode" in result)) return false;
	const { output, exitCode, cancelled, truncated, fullOutputPath } = result;
	const isKnown = typeof output === "string" && typeof cancelled === "boolean" && typeof truncated === "boolean";
	return isKnown && ["undefined", "number"].includes(typeof exitCode) && ["undefined", "string"].includes(typeof fullOutputPath);
}

/** Run a shell command of the user with the operations that a handler of `user_bash` has returned. */
export async function runBash({ operations, event, signal }, call) {
	const stop = signalOf(signal);
	try {
		const onData = (data) => notify("bashOutput", { call, data: Buffer.from(data).toString("base64") });
		const { exitCode } = await offered.get(operations).exec(event.command, event.cwd, { onData, signal: stop });
		return { exitCode: exitCode ?? undefined, cancelled: stop.aborted };
	} finally {
		offered.delete(operations);
		dropSignal(signal);
	}
}

export async function runTool({ number, toolCallId, args, signal }, call) {
	const { tool } = found(number, "tool");
	const stop = signalOf(signal);
	const onUpdate = (partial) => notify("toolUpdate", { call, partial: kept(partial) });
	try {
		return kept(await tool.execute(toolCallId, args, stop, onUpdate, createToolContext(call, toolCallId, stop)));
	} finally {
		dropSignal(signal);
	}
}

export async function prepareArguments({ number, args }) {
	return found(number, "tool").tool.prepareArguments(args);
}

/** Have a tool choose how the tools are declared to the model. */
export async function presentTools({ number }) {
	const { tool } = found(number, "tool");
	const tools = listedTools();
	const named = new Map(tools.map((each) => [each.name, each]));
	return tool.prepareLoadout({
		declared: tools.filter((each) => each.active),
		callable: tools.filter((each) => each.callable),
		registered: tools,
		getExposure: (name) => named.get(name)?.exposure ?? "direct",
		getNamespace: (name) => named.get(name)?.namespace,
		getPromptGuidelines: (name) => named.get(name)?.promptGuidelines ?? [],
	});
}

export async function runCommand({ number, args }, call) {
	const entry = found(number, "command");
	await entry.run(args, createCommandContext(call, entry.extension));
}

export async function complete({ number, prefix }) {
	const items = await found(number, "command").complete(prefix);
	if (!Array.isArray(items)) return [];
	return items.map(({ value, label, description }) => ({ value, label: label ?? "", description: description ?? "" }));
}
