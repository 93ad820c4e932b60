// What the modules for extensions know about the agent: its folders, and the version of pi that it stands in for.

import path from "node:path";
import { askNow } from "../channel.mjs";

/** `command` starts another agent, and `homeVariable` is the name of the variable that says where its home is. */
export const facts = { agentDir: "", packageDir: "", cwd: process.cwd(), command: [], homeVariable: "FAIRLEAD_HOME" };

// The modules are loaded before the facts arrive, so these are not constants.
export let VERSION = "";
export let CONFIG_DIR_NAME = ".pi";

export function configure({ version, configDirName, launcher, ...given }) {
	// Extensions start this to get another agent.
	if (launcher !== undefined) process.argv.splice(1, Infinity, ...(launcher ? [launcher] : []));
	if (launcher) facts.packageDir = path.dirname(path.dirname(launcher));
	VERSION = version;
	CONFIG_DIR_NAME = configDirName;
	Object.assign(facts, given);
}

/** Where the agent keeps the sessions of its own working directory; nothing if that is not known, or for another directory. */
export function sessionsFolder(cwd) {
	return cwd === facts.cwd ? (askNow("session", { id: null, last: null }).folder ?? undefined) : undefined;
}

/** Stands for a function or class that is missing. It can be passed on and inherited from; calling it or reading from it throws. */
export function missing(what, name) {
	const fail = (used) => {
		throw new Error(`${used} of ${what} is not available in fairlead.`);
	};
	return new Proxy(function () {}, {
		apply: () => fail(`${name}()`),
		construct: () => fail(`new ${name}()`),
		get: (target, member) => (typeof member === "symbol" || member in target ? target[member] : fail(`${name}.${member}`)),
	});
}
