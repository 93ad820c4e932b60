// `pi.exec`: runs a program without a shell. It runs here, not in the agent, so that handlers of the agent's end can use it.

import { spawn } from "node:child_process";
import { askNow } from "./channel.mjs";

const MOST_OUTPUT = 256 * 1024 * 1024;
const KILL_AFTER = 5000;

export function exec(command, args = [], options = {}) {
	return new Promise((resolve) => {
		const cwd = options.cwd ?? askNow("state").cwd;
		const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"], env: options.env ?? process.env });
		let problem = "";
		const output = { stdout: [], stderr: [] };
		let size = 0;
		let killed = false;
		let truncated = false;
		let force;
		const stop = () => {
			if (killed) return;
			killed = true;
			child.kill("SIGTERM");
			force = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER);
		};
		const timer = options.timeout > 0 ? setTimeout(stop, options.timeout) : undefined;
		if (options.signal?.aborted) stop();
		options.signal?.addEventListener("abort", stop, { once: true });
		for (const name of ["stdout", "stderr"]) {
			child[name].on("data", (data) => {
				const room = (options.maxBuffer ?? MOST_OUTPUT) - size;
				size += data.length;
				if (room > 0) output[name].push(data.subarray(0, room));
				if (data.length > room) {
					truncated = true;
					stop();
				}
			});
		}
		let ended = false;
		const end = (code) => {
			if (ended) return;
			ended = true;
			clearTimeout(timer);
			clearTimeout(force);
			options.signal?.removeEventListener("abort", stop);
			const text = (name) => Buffer.concat(output[name]).toString("utf8");
			// As in pi, a program that was ended by a signal has the code 0, unless its output was cut.
			const status = code || (truncated ? 1 : 0);
			resolve({ stdout: text("stdout"), stderr: text("stderr") || problem, code: status, killed, truncated });
		};
		child.on("error", (error) => {
			problem = error.message;
			end(1);
		});
		// A background child may keep the pipes open, so the exit of the program itself ends the wait soon.
		child.on("exit", (code) => setTimeout(end, 100, code));
		child.on("close", (code) => end(code));
	});
}
