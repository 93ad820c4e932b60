// What the modules for extensions know about the agent: its folders, and the version of pi that it stands in for.

export const facts = { agentDir: "", cwd: process.cwd() };

// The modules are loaded before the facts arrive, so these are not constants.
export let VERSION = "";
export let CONFIG_DIR_NAME = ".pi";

export function configure({ version, configDirName, ...given }) {
	VERSION = version;
	CONFIG_DIR_NAME = configDirName;
	Object.assign(facts, given);
}
