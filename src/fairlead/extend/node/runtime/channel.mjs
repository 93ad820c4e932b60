// Lines of JSON between this process and fairlead.
//
// Everything that this process says goes out through one socket, in order, with blocking writes. The answers to synchronous
// requests come back on that socket. Calls, and the answers to other requests, arrive on the other socket.

import { readSync, writeSync } from "node:fs";
import net from "node:net";

// What extensions do to these objects later must not break the connection.
const { parse, stringify } = JSON;
const { concat, from } = Buffer;

const [INBOX, OUTBOX] = process.argv.slice(2, 4).map(Number);
const NEWLINE = 10;

const pending = new Map();
const progress = new Map();
const chunk = Buffer.allocUnsafe(65536);
let nextId = 1;
let unread = Buffer.alloc(0);

function send(message) {
	const data = from(`${stringify(message)}\n`);
	for (let sent = 0; sent < data.length; ) sent += writeSync(OUTBOX, data, sent);
}

function readLine() {
	const parts = [unread];
	for (;;) {
		const last = parts[parts.length - 1];
		const end = last.indexOf(NEWLINE);
		if (end >= 0) {
			unread = from(last.subarray(end + 1));
			parts[parts.length - 1] = last.subarray(0, end);
			return concat(parts).toString("utf8");
		}
		const size = readSync(OUTBOX, chunk);
		if (size === 0) throw new Error("The agent has ended.");
		parts.push(from(chunk.subarray(0, size)));
	}
}

function failure(error) {
	return Object.assign(new Error(error.message), error.code ? { code: error.code } : {});
}

/** Ask the agent something and block until it answers. Throws what the agent reports as an error. */
export function askNow(method, params = {}) {
	send({ id: nextId++, sync: true, method, params });
	const answer = parse(readLine());
	if (answer.error) throw failure(answer.error);
	return answer.result ?? undefined;
}

/**
 * Ask the agent something that takes time. When `signal` aborts, the agent stops working on it and answers early. `onProgress`
 * gets what the agent reports meanwhile.
 */
export function ask(method, params = {}, signal = undefined, onProgress = undefined) {
	const id = nextId++;
	return new Promise((resolve, reject) => {
		const stop = () => notify("cancel", { request: id });
		if (onProgress) progress.set(id, onProgress);
		pending.set(id, (answer) => {
			progress.delete(id);
			signal?.removeEventListener("abort", stop);
			if (answer.error) reject(failure(answer.error));
			else resolve(answer.result ?? undefined);
		});
		send({ id, method, params });
		if (signal?.aborted) stop();
		else signal?.addEventListener("abort", stop, { once: true });
	});
}

/** Tell the agent something without waiting for an answer. */
export function notify(method, params = {}) {
	send({ method, params });
}

/** What goes to the agent of something that was thrown, which can be anything. */
export function described(error) {
	try {
		if (error instanceof Error || (error && typeof error.message === "string")) {
			const code = typeof error.code === "string" || typeof error.code === "number" ? error.code : undefined;
			return { message: String(error.message) || String(error.name) || "Error", stack: String(error.stack ?? ""), code };
		}
		return { message: String(error), stack: "" };
	} catch {
		return { message: "Something was thrown that cannot be shown.", stack: "" };
	}
}

async function answer(id, work) {
	let reply;
	try {
		reply = { id, result: await work };
		stringify(reply);
	} catch (error) {
		reply = { id, error: described(error) };
	}
	send(reply);
}

/** Serve the agent's calls with `methods`, and call `onEnd` when the agent has gone. */
export function serve(methods, onEnd) {
	const socket = new net.Socket({ fd: INBOX, readable: true, writable: false });
	let parts = [];
	const dispatch = (line) => {
		const { id, method, params, ...rest } = parse(line);
		if (method === undefined) {
			const done = pending.get(id);
			pending.delete(id);
			done?.(rest);
		} else if (method === "progress") {
			progress.get(params.request)?.(params.value);
		} else if (id === undefined) {
			methods[method](params);
		} else {
			answer(id, (async () => methods[method](params, id))());
		}
	};
	socket.on("data", (data) => {
		for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE)) {
			const line = parts.length ? concat([...parts, data.subarray(0, end)]) : data.subarray(0, end);
			parts = [];
			data = data.subarray(end + 1);
			dispatch(line.toString("utf8"));
		}
		if (data.length) parts.push(data);
	});
	socket.on("error", onEnd);
	socket.on("close", onEnd);
}
