// An agent in another process that speaks RPC over its standard input and output. It ends when this process ends, because its
// input ends then.

import { spawn } from "node:child_process";
import { facts } from "../shims/agent-facts.mjs";

/** The most agents at once, and how many of them may start at the same time. */
const MOST_AGENTS = 256;
const STARTING_AGENTS = 8;
/** Milliseconds that an agent has to end by itself. */
const GRACE_MS = 5000;
/** Characters of its standard error that an error repeats. */
const TAIL = 2000;
const NEWLINE = 10;

const { parse, stringify } = JSON;

let agents = 0;
let starting = 0;
const queue = [];

/** Wait until another agent may start. The returned function must be called when it has started or failed. */
async function turn() {
	if (starting >= STARTING_AGENTS) await new Promise((resolve) => queue.push(resolve));
	else starting += 1;
	return () => {
		const next = queue.shift();
		if (next) next();
		else starting -= 1;
	};
}

/**
 * Start an agent, and resolve with its answers to the commands in `opening`. `onChild` gets it before its first frame, `onFrame`
 * gets the frames, and `onEnd` the reason when it has ended.
 */
export async function startChild({ args, cwd, env, opening, onChild, onFrame, onEnd }) {
	const done = await turn();
	try {
		const child = new Child(args, cwd, env, onFrame, onEnd);
		onChild(child);
		try {
			return await Promise.all(opening.map((command) => child.request(command)));
		} catch (error) {
			child.end();
			throw error;
		}
	} finally {
		done();
	}
}

class Child {
	constructor(args, cwd, env, onFrame, onEnd) {
		if (agents >= MOST_AGENTS) throw new Error(`There are ${MOST_AGENTS} sessions already. Dispose of those that are no longer needed.`);
		const [program, ...first] = facts.command;
		if (!program) throw new Error("The launcher of fairlead could not be written, so no agent can be started.");
		Object.assign(this, { onFrame, onEnd, pending: new Map(), next: 1, held: 0, stderr: "", parts: [], ended: undefined });
		this.closed = new Promise((resolve) => (this.close = resolve));
		this.process = spawn(program, [...first, ...args], { cwd, env, stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
		agents += 1;
		this.process.on("error", (error) => this.gone(new Error(`fairlead could not be started: ${error.message}`)));
		this.process.on("close", (code, signal) => this.gone(this.reason(code, signal)));
		this.process.stdin.on("error", () => {}); // "close" says why
		this.process.stdout.on("data", (data) => this.read(data));
		this.process.stderr.setEncoding("utf8");
		this.process.stderr.on("data", (text) => (this.stderr = (this.stderr + text).slice(-TAIL)));
		this.release();
	}

	reason(code, signal) {
		const how = signal ? `was ended by ${signal}` : `has ended with code ${code}`;
		const said = this.stderr.trim();
		return new Error(`The agent of this session ${how}${said ? `: ${said}` : "."}`);
	}

	gone(error) {
		if (this.ended) return;
		agents -= 1;
		this.ended = error;
		clearTimeout(this.timer);
		for (const { reject } of this.pending.values()) reject(error);
		this.pending.clear();
		this.close();
		this.onEnd(error, this);
	}

	read(data) {
		for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE)) {
			const line = this.parts.length ? Buffer.concat([...this.parts, data.subarray(0, end)]) : data.subarray(0, end);
			this.parts = [];
			data = data.subarray(end + 1);
			if (line.length) this.dispatch(line.toString("utf8"));
		}
		if (data.length) this.parts.push(data);
	}

	dispatch(line) {
		let frame;
		try {
			frame = parse(line);
		} catch {
			return; // not from fairlead, which writes nothing else
		}
		if (frame.type !== "response") return this.onFrame(frame, this);
		const waiting = this.pending.get(frame.id);
		if (!waiting) return undefined;
		this.pending.delete(frame.id);
		this.release();
		if (!frame.success) return waiting.reject(new Error(frame.error));
		waiting.onAnswer?.(frame.data); // before the next frame
		return waiting.resolve(frame.data);
	}

	/** Send a command. Resolves with the data of its response. */
	request(command, onAnswer = undefined) {
		if (this.ended) return Promise.reject(this.ended);
		const id = `sdk-${this.next++}`;
		return new Promise((resolve, reject) => {
			const line = stringify({ id, ...command }); // throws for what is no JSON
			this.pending.set(id, { resolve, reject, onAnswer });
			this.hold();
			this.process.stdin.write(`${line}\n`);
		});
	}

	/** Send a line that has no response. */
	send(message) {
		const line = stringify(message);
		if (!this.ended) this.process.stdin.write(`${line}\n`);
	}

	// A program ends by itself when it has nothing left to do, even if it has forgotten a session. An answer is something to do.

	hold() {
		for (const each of [this.process, this.process.stdin, this.process.stdout, this.process.stderr]) each.ref?.();
	}

	release() {
		if (this.pending.size || this.busy) return;
		for (const each of [this.process, this.process.stdin, this.process.stdout, this.process.stderr]) each.unref?.();
	}

	setBusy(busy) {
		this.busy = busy;
		if (busy) this.hold();
		else this.release();
	}

	/** Let the agent end. It is killed if it does not. */
	end() {
		if (this.ended || this.timer) return this.closed;
		this.process.stdin.end();
		this.timer = setTimeout(() => this.process.kill("SIGKILL"), GRACE_MS);
		this.timer.unref();
		return this.closed;
	}
}
