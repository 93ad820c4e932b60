// Keeps one extension from ending the process that all of them share.

import { described, notify } from "./channel.mjs";

/** Ends the process for real. Extensions get another `process.exit`. */
export const exit = process.exit.bind(process);

const folders = new Map();

/** Remember where an extension comes from, to recognise it in a stack trace. */
export function rememberExtension(id, folder) {
	folders.set(folder, id);
}

function report(error) {
	const stack = String(error?.stack ?? "");
	const folder = [...folders.keys()].find((each) => stack.includes(each));
	try {
		notify("failed", { extension: folder === undefined ? null : folders.get(folder), error: described(error) });
	} catch {
		// The agent has ended, and this process ends soon.
	}
}

export function installGuards() {
	process.exit = (code) => {
		throw new Error(`process.exit(${code ?? ""}) was called, which does not end the agent.`);
	};
	process.on("uncaughtException", report);
	process.on("unhandledRejection", report);
	for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {});
}
