// What handlers return, read as pi reads it: by the names of its fields. These may be getters, come from a prototype or a proxy, or
// be any value that JavaScript takes for true. Only what was read this way is sent, so that JSON does not change its meaning.

import { types } from "node:util";

// What extensions do to these objects later must not change what is read.
const { parse, stringify } = JSON;
const { getOwnPropertyNames, getPrototypeOf, prototype: ROOT } = Object;
const { isArray } = Array;
const { isProxy, isDate, isBoxedPrimitive } = types;
const ValueSet = Set;

/** The code of the error for an answer that cannot be read or sent. */
const UNREADABLE = "UNREADABLE_ANSWER";

/** The fields that are saved as JSON as they are, whatever their objects make of themselves there. */
const AS_JSON = new Set(["details", "structuredContent"]);

/** The fields that are looked for in objects that do not list them, such as proxies. */
const KNOWN =
	"type text data mimeType thinking thinkingSignature textSignature thoughtSignature redacted id name arguments role content timestamp customType display details toolCallId toolName isError summary firstKeptEntryId tokensBefore usage output exitCode cancelled truncated fullOutputPath command".split(
		" ",
	);

const MOST_LEVELS = 500;
/** How deep the data of a result may be that is kept whatever it is. */
const KEPT_LEVELS = 200;

/** Return a value as plain data, reading every field that its readers in pi could read. */
function plain(value, name, above = []) {
	if (typeof value === "bigint") throw new TypeError("Do not know how to serialize a BigInt");
	if (typeof value === "function" || typeof value === "symbol") return undefined;
	if (typeof value !== "object" || value === null) return value;
	if (AS_JSON.has(name)) return asJson(value);
	if (!isProxy(value)) {
		if (isBoxedPrimitive(value)) return plain(value.valueOf(), name, above);
		if (isDate(value)) return asJson(value);
	}
	if (above.includes(value)) throw new TypeError("It has a circular structure");
	if (above.length > MOST_LEVELS) throw new TypeError(`It has more than ${MOST_LEVELS} levels`);
	above.push(value);
	let read;
	if (isArray(value)) {
		read = [];
		const { length } = value;
		for (let at = 0; at < length; at++) read[at] = plain(value[at], undefined, above) ?? null;
	} else {
		read = {};
		for (const key of fieldsOf(value)) {
			const field = plain(value[key], key, above);
			if (field !== undefined && key !== "__proto__") read[key] = field;
		}
	}
	above.pop();
	return read;
}

function asJson(value) {
	const text = stringify(value);
	return text === undefined ? undefined : parse(text);
}

/** Return a value as data that can be sent, whatever it is. What cannot be sent becomes a text in its place. */
export function kept(value) {
	try {
		const data = asJson(value);
		if (!isDeeper(data, KEPT_LEVELS)) return data;
		return salvaged(data, []);
	} catch {
		return salvaged(value, []);
	}
}

const isDeeper = (value, levels) =>
	typeof value === "object" && value !== null && (levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1)));

function salvaged(value, above) {
	if (typeof value === "bigint") return String(value);
	if (typeof value !== "object" || value === null) return value;
	if (above.includes(value) || above.length >= KEPT_LEVELS) return "[nested too deeply to be kept]";
	const below = [...above, value];
	try {
		if (isArray(value)) return Array.from(value, (each) => salvaged(each, below) ?? null);
		if (isDate(value)) return asJson(value) ?? null;
		return Object.fromEntries(Object.keys(value).map((key) => [key, salvagedField(value, key, below)]));
	} catch {
		return "[cannot be read]";
	}
}

function salvagedField(value, key, above) {
	try {
		return salvaged(value[key], above);
	} catch {
		return "[cannot be read]";
	}
}

/** The names of an object's fields: its own, those of its prototypes, and known ones that it may have without listing them. */
function fieldsOf(value) {
	const prototype = getPrototypeOf(value);
	if (!isProxy(value) && (prototype === ROOT || prototype === null)) return getOwnPropertyNames(value);
	const names = new ValueSet(KNOWN);
	for (let each = value; each !== null && each !== ROOT; each = getPrototypeOf(each)) {
		for (const name of getOwnPropertyNames(each)) names.add(name);
	}
	return names;
}

const truth = (value) => (value === undefined ? undefined : Boolean(value));
const text = (value) => (value ? String(value) : undefined);
const exact = (value) => (typeof value === "string" || typeof value === "boolean" ? value : undefined);

/** The fields that pi reads in the answer to each event, and how. */
const FIELDS = {
	project_trust: { trusted: exact, remember: truth },
	resources_discover: { skillPaths: plain, promptPaths: plain },
	session_before_switch: { cancel: truth },
	session_before_fork: { cancel: truth },
	session_before_compact: { cancel: truth, compaction: plain },
	session_before_tree: { cancel: truth, summary: plain, customInstructions: plain, replaceInstructions: truth, label: plain },
	input: { action: exact, text: plain, images: plain },
	before_agent_start: { message: plain, systemPrompt: plain },
	context: { messages: plain },
	context_with_system: { messages: plain },
	tool_call: { block: truth, reason: text, terminate: exact },
	tool_result: { content: plain, details: plain, isError: truth, structuredContent: plain, usage: plain },
	message_end: { message: plain },
	user_bash: { result: plain },
	cache_warming_decision: { action: exact },
};

/** Return the fields of an answer that matter for an event, as they are. Other events get the answer itself. */
export function fieldsRead(type, answer) {
	const fields = FIELDS[type];
	if (fields === undefined) return answer;
	if (answer === undefined || answer === null) return undefined;
	const read = {};
	for (const name of Object.keys(fields)) {
		const value = answer[name];
		if (value !== undefined) read[name] = value;
	}
	return Object.keys(read).length ? read : undefined;
}

/** Return fields that were read as data that can be sent. */
export function sendable(type, fields) {
	if (type === "before_provider_request" && fields !== undefined) return asJson(fields);
	const readers = FIELDS[type];
	if (readers === undefined || fields === undefined) return fields;
	const sent = {};
	for (const [name, value] of Object.entries(fields)) {
		const read = readers[name](value, name);
		if (read !== undefined) sent[name] = read;
	}
	return sent;
}

/** Return what a handler has made of a field of its event, as data that can be sent. */
export const changedField = (value) => plain(value);

/** Do what reads an answer. What that throws says that the answer is the cause: the handler itself has not failed. */
export function reading(read) {
	try {
		return read();
	} catch (error) {
		let why = "something was thrown";
		try {
			why = String(error?.message ?? error);
		} catch {
			// It cannot be shown.
		}
		throw Object.assign(new TypeError(why), { code: UNREADABLE });
	}
}
