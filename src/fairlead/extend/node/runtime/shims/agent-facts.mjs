// What the modules for extensions know about the agent: its folders, and the version of pi that it stands in for.

export const facts = { agentDir: "", configDirName: ".pi", version: "", cwd: process.cwd() };

export function configure(given) {
	Object.assign(facts, given);
}
