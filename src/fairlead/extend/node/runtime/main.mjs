// Runs pi's extensions for fairlead. Its arguments are the file descriptors of two sockets, and a folder for compiled code.

import module from "node:module";
import { serve } from "./channel.mjs";
import { endWithParent, exit, installGuards, rememberExtension } from "./guards.mjs";

/** Milliseconds that handlers of the agent's end have left when the agent itself is gone. */
const LAST_MS = 5000;

const cache = process.argv[4];
if (cache) module.enableCompileCache?.(cache);
installGuards();

const { createApi, forget } = await import("./api.mjs");
const calls = await import("./calls.mjs");
const { abortSignal } = await import("./context.mjs");
const { configure } = await import("./shims/agent-facts.mjs");
const logins = await import("./logins.mjs");
const { callOption } = await import("./models.mjs");
const { route, streamProvider } = await import("./providers.mjs");

const factories = new Map();
let busy = 0;
let gone = false;

function counted(method) {
	return async (...given) => {
		busy += 1;
		try {
			return await method(...given);
		} finally {
			busy -= 1;
			if (gone && busy === 0) exit(0);
		}
	};
}

const methods = {
	async load({ extension, file, facts }) {
		configure(facts);
		const { loadFactory } = await import("./loader.mjs");
		rememberExtension(extension, file);
		if (factories.size === 0) endWithParent(LAST_MS);
		// In another session the extension runs again, from the code that was loaded before.
		if (!factories.has(file)) factories.set(file, await loadFactory(file, cache));
		await factories.get(file)(createApi(extension));
	},
	handle: counted(calls.handle),
	tool: counted(calls.runTool),
	prepare: counted(calls.prepareArguments),
	command: counted(calls.runCommand),
	complete: calls.complete,
	stream: counted(streamProvider),
	route: counted(route),
	login: counted(logins.login),
	renewLogin: counted(logins.renewLogin),
	loginKey: logins.loginKey,
	option: counted(callOption),
	ping: () => busy,
	version: () => process.version,
	abort: ({ signal }) => abortSignal(signal),
	forget,
};

serve(methods, () => {
	gone = true;
	if (busy === 0) exit(0);
	setTimeout(exit, LAST_MS, 0);
});
