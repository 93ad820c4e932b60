// Keeps one extension from ending the process that all of them share, and the process from outliving its agent.

import { Worker } from "node:worker_threads";
import { described, notify } from "./channel.mjs";

/** Ends the process for real. Extensions get another `process.exit`. */
export const exit = process.exit.bind(process);

const folders = new Map();

/** Remember where an extension comes from, to recognise it in a stack trace. */
export function rememberExtension(id, folder) {
	folders.set(folder, id);
}

function report(error) {
	const shown = described(error);
	const folder = [...folders.keys()].find((each) => shown.stack.includes(each));
	try {
		notify("failed", { extension: folder === undefined ? null : folders.get(folder), error: shown });
	} catch {
		// The agent has ended, and this process ends soon.
	}
}

export function installGuards() {
	process.exit = (code) => {
		throw new Error(`process.exit(${code ?? ""}) was called, which does not end the agent.`);
	};
	listen();
	const { removeAllListeners } = process;
	process.removeAllListeners = (...given) => {
		removeAllListeners.apply(process, given);
		listen();
		return process;
	};
}

const ignore = () => {};

/** Listen to what would end the process, unless that is done already. */
function listen() {
	const listeners = { uncaughtException: report, unhandledRejection: report, SIGINT: ignore, SIGHUP: ignore };
	for (const [event, listener] of Object.entries(listeners)) {
		if (!process.listeners(event).includes(listener)) process.on(event, listener);
	}
}

/**
 * Kill this process a while after the agent is gone, even if an extension blocks it: a thread watches the parent process.
 * An extension that does not block it has `graceMs` to finish.
 */
export function endWithParent(graceMs) {
	const watch = `
		const parent = ${process.ppid};
		let goneSince;
		setInterval(() => {
			if (process.ppid === parent) return;
			goneSince ??= Date.now();
			if (Date.now() - goneSince > ${graceMs}) process.kill(process.pid, "SIGKILL");
		}, 500);`;
	new Worker(watch, { eval: true, env: {}, execArgv: [] }).unref();
}
