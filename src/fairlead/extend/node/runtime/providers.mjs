// Models that an extension calls itself, with a `streamSimple` of its own.

import { notify } from "./channel.mjs";
import { registered } from "./api.mjs";
import { dropSignal, signalOf } from "./context.mjs";

/** Have an extension call its model, and pass on the events of the answer as they arrive. */
export async function streamProvider({ number, model, context, options, signal }, call) {
	const { config } = registered.get(number);
	const stop = signalOf(signal);
	try {
		const stream = config.streamSimple(model, context, { ...options, signal: stop });
		for await (const event of await stream) {
			const { partial, ...plain } = event;
			notify("streamEvent", { call, event: plain });
		}
		return await (await stream).result();
	} finally {
		dropSignal(signal);
	}
}
