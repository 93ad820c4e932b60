// An extension that passes the events of an agent to the program that has created its session, and waits for what the program's
// handlers say. If the program is gone, handlers fail: calls of tools that they would have judged are refused.

import net from "node:net";

const NEWLINE = 10;

/** Calls in both directions over a socket, as lines of JSON. */
export class Lines {
	#socket;
	#methods;
	#pending = new Map();
	#next = 1;
	#parts = [];
	#ended;

	constructor(socket, methods) {
		this.#socket = socket;
		this.#methods = methods;
		socket.on("data", (data) => this.#read(data));
		socket.on("error", (error) => this.#end(error));
		socket.on("close", () => this.#end(new Error("The other process has ended.")));
	}

	/** Call a method of the other side. */
	call(method, params) {
		if (this.#ended) return Promise.reject(this.#ended);
		const id = this.#next++;
		return new Promise((resolve, reject) => {
			this.#send({ id, method, params });
			this.#pending.set(id, { resolve, reject });
		});
	}

	notify(method, params) {
		if (!this.#ended) this.#send({ method, params });
	}

	close() {
		this.#socket.destroy();
	}

	#send(message) {
		this.#socket.write(`${JSON.stringify(message)}\n`);
	}

	#end(error) {
		this.#ended ??= error;
		for (const { reject } of this.#pending.values()) reject(this.#ended);
		this.#pending.clear();
	}

	#read(data) {
		for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE)) {
			const line = Buffer.concat([...this.#parts, data.subarray(0, end)]).toString("utf8");
			this.#parts = [];
			data = data.subarray(end + 1);
			this.#dispatch(JSON.parse(line));
		}
		if (data.length) this.#parts.push(data);
	}

	async #dispatch({ id, method, params, error, result }) {
		if (method === undefined) {
			const { resolve, reject } = this.#pending.get(id) ?? {};
			this.#pending.delete(id);
			if (error) reject?.(new Error(error));
			else resolve?.(result);
			return;
		}
		let reply;
		try {
			reply = { id, result: (await this.#methods[method](params)) ?? null };
			JSON.stringify(reply);
		} catch (thrown) {
			reply = { id, error: String(thrown?.message ?? thrown) || "Error" };
		}
		if (id !== undefined && !this.#ended) this.#send(reply);
	}
}

function takeOver(event, changed) {
	for (const [name, value] of Object.entries(changed)) {
		if (name === "type" || JSON.stringify(event[name]) === JSON.stringify(value)) continue;
		const mine = event[name];
		if (mine && value && typeof mine === "object" && typeof value === "object" && !Array.isArray(mine)) {
			for (const key of Object.keys(mine)) if (!(key in value)) delete mine[key];
			Object.assign(mine, value);
		} else {
			event[name] = value;
		}
	}
}

export default async function (pi) {
	const socket = net.connect(process.env.FAIRLEAD_SDK_RELAY);
	delete process.env.FAIRLEAD_SDK_RELAY;
	const known = new Set();
	let registered;
	const first = new Promise((resolve) => (registered = resolve));
	const updates = new Map();
	const relayed = (tool) => ({
		...tool,
		async execute(toolCallId, args, signal, onUpdate) {
			const stop = () => lines.notify("abort", { toolCallId });
			signal?.addEventListener("abort", stop, { once: true });
			updates.set(toolCallId, onUpdate);
			try {
				return await lines.call("tool", { name: tool.name, toolCallId, args });
			} finally {
				updates.delete(toolCallId);
				signal?.removeEventListener("abort", stop);
			}
		},
	});
	const lines = new Lines(socket, {
		update: ({ toolCallId, partial }) => updates.get(toolCallId)?.(partial),
		register({ events, commands, tools }) {
			for (const name of events) {
				if (known.has(name)) continue;
				known.add(name);
				pi.on(name, async (event) => {
					const { result, event: changed } = await lines.call("event", { event });
					takeOver(event, changed);
					return result ?? undefined;
				});
			}
			for (const tool of tools) {
				if (known.has(`tool ${tool.name}`)) continue;
				known.add(`tool ${tool.name}`);
				pi.registerTool(relayed(tool));
			}
			for (const { name, description } of commands) {
				if (known.has(`/${name}`)) continue;
				known.add(`/${name}`);
				pi.registerCommand(name, { description, handler: (args) => lines.call("command", { name, args }) });
			}
			registered();
		},
		api: ({ name, args }) => pi[name](...args),
	});
	await Promise.race([first, new Promise((_, reject) => socket.once("error", reject))]);
}
