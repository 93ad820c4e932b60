// Models that an extension calls itself, with a `streamSimple` of its own, and models for which it chooses others.

import { ask, notify } from "./channel.mjs";
import { registered } from "./api.mjs";
import { createContext, dropSignal, signalOf } from "./context.mjs";

/** Have an extension call its model, and pass on the events of the answer as they arrive. */
export async function streamProvider({ number, model, context, options, signal, isSeen }, call) {
	const { config } = registered.get(number);
	const stop = signalOf(signal);
	try {
		const see = (kind) => (value) => ask("seen", { call, kind, value }, stop);
		const hooks = isSeen ? { onPayload: see("payload"), onResponse: see("response") } : {};
		const stream = await config.streamSimple(model, context, { ...options, ...hooks, signal: stop });
		let streamed = false;
		for await (const event of stream) {
			const { type, delta, toolCall, partial, contentIndex } = event;
			streamed ||= type.endsWith("_delta") || type === "toolcall_end";
			const signature = type === "thinking_end" ? partial?.content?.[contentIndex]?.thinkingSignature : undefined;
			notify("streamEvent", { call, event: { type, delta, toolCall, signature } });
		}
		const message = await stream.result();
		if (!streamed) for (const event of whole(message)) notify("streamEvent", { call, event });
		return message;
	} finally {
		dropSignal(signal);
	}
}

/** The events of an answer that an extension gave in one piece. */
function whole(message) {
	return (message.content ?? []).flatMap((block) => {
		if (block.type === "text") return [{ type: "text_delta", delta: block.text }];
		if (block.type === "toolCall") return [{ type: "toolcall_end", toolCall: block }];
		return [
			{ type: "thinking_delta", delta: block.thinking },
			{ type: "thinking_end", signature: block.thinkingSignature },
		];
	});
}

/** Have an extension choose the model of one request. What it wants to remember is returned only if it is new. */
export async function route({ number, request, signal }, call) {
	const { definition } = registered.get(number);
	const stop = signalOf(signal);
	const state = request.state ?? undefined;
	const given = { ...request, previous: request.previous ?? undefined, failed: request.failed ?? undefined, state, signal: stop };
	try {
		const chosen = await definition.route(given, createContext(call, { signal: stop }));
		const { provider, id } = chosen.model;
		const news = chosen.state === undefined || chosen.state === state ? {} : { state: chosen.state };
		return { provider, id, thinkingLevel: chosen.thinkingLevel, ...news };
	} finally {
		dropSignal(signal);
	}
}
