// Runs pi's extensions for fairlead. Its arguments are the file descriptors of two sockets, and a folder for compiled code.

import module from "node:module";
import { serve } from "./channel.mjs";
import { endWithParent, exit, installGuards, rememberExtension } from "./guards.mjs";

/** Milliseconds that handlers of the agent's end have left when the agent itself is gone. */
const LAST_MS = 5000;

const cache = process.argv[4];
if (cache) module.enableCompileCache?.(cache);
installGuards();
if (process.env.FAIRLEAD_PATH !== undefined) {
	process.env.PATH = process.env.FAIRLEAD_PATH;
	delete process.env.FAIRLEAD_PATH;
}

// Together, and after the cache is on.
const [{ createApi, forget, retire }, calls, { editorChanged, pressKey, resize }, { abortSignal, setUp }, { configure }, logins, { callOption }, { route, streamProvider }, { withModels }] = await Promise.all([
	import("./api.mjs"),
	import("./calls.mjs"),
	import("./canvas.mjs"),
	import("./context.mjs"),
	import("./shims/agent-facts.mjs"),
	import("./logins.mjs"),
	import("./models.mjs"),
	import("./providers.mjs"),
	import("./provider-models.mjs"),
]);

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
		const { loadFactory } = await loader;
		rememberExtension(extension, file);
		// In another session the extension runs again, from the code that was loaded before.
		if (!factories.has(file)) factories.set(file, await loadFactory(file, cache));
		await withModels(extension, () => factories.get(file)(createApi(extension)));
	},
	handle: counted(calls.handle),
	bash: counted(calls.runBash),
	tool: counted(calls.runTool),
	prepare: counted(calls.prepareArguments),
	present: counted(calls.presentTools),
	command: counted(calls.runCommand),
	complete: counted(calls.complete),
	stream: counted(streamProvider),
	route: counted(route),
	login: counted(logins.login),
	renewLogin: counted(logins.renewLogin),
	loginAuth: logins.loginAuth,
	option: counted(callOption),
	ping: () => busy,
	version: () => process.version,
	abort: ({ signal }) => abortSignal(signal),
	setUp: counted(setUp),
	canvasKey: pressKey,
	canvasSize: resize,
	canvasEditor: editorChanged,
	forget,
	retire,
};

serve(methods, () => {
	gone = true;
	if (busy === 0) exit(0);
	setTimeout(exit, LAST_MS, 0);
});

// The agent needs time until it asks for the first extension.
const loader = import("./loader.mjs");
endWithParent(LAST_MS);
(await loader).prepare(cache);
