// Models that an extension calls itself, with a `streamSimple` of its own.

import { notify } from "./channel.mjs";
import { registered } from "./api.mjs";
import { dropSignal, signalOf } from "./context.mjs";

/** Have an extension call its model, and pass on the events of the answer as they arrive. */
export async function streamProvider({ number, model, context, options, signal }, call) {
	const { config } = registered.get(number);
	const stop = signalOf(signal);
	try {
		const stream = await config.streamSimple(model, context, { ...options, signal: stop });
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
