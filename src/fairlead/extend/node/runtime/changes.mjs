// What handlers change in an event without returning it. In pi the event holds the objects that are used afterwards, so such
// changes count. A field that a handler replaces as a whole does not.

import { notify } from "./channel.mjs";

const { stringify } = JSON;

/** The fields of each event whose objects may be changed, and the result that stands for the changed ones. */
const WATCHED = {
	context: [["messages"], (result, { messages }) => ({ messages, ...result })],
	context_with_system: [["messages"], (result, { messages }) => ({ messages, ...result })],
	before_provider_request: [["payload"], (result, { payload }) => (result === undefined ? payload : result)],
	message_end: [["message"], (result, { message }) => ({ ...result, message: result?.message || message })],
	tool_result: [
		["content", "details"],
		(result, { content, details, structuredContent }) => ({ content, details, structuredContent, ...result }),
	],
};

const LOST_PROMPT =
	"Handler removed the leading system message; the request has no prompt or initial tool declarations. Keep it at index 0 or replace a dropped prefix with getCurrentSystemMessage().";

const isLed = (messages) => messages?.[0]?.role === "system";

/** Remember what an event holds. The function that is returned adds what has changed meanwhile to a handler's result. */
export function watched(event, extension) {
	const { type } = event;
	if (!(type in WATCHED)) return (result) => result;
	const [names, changed] = WATCHED[type];
	const given = { ...event };
	const text = () => names.map((name) => stringify(given[name])).join();
	const before = text();
	const wasLed = isLed(given.messages);
	return (result) => {
		const whole = text() === before ? result : changed(result, given);
		if (type === "context_with_system" && wasLed && !isLed(whole?.messages ?? given.messages)) {
			notify("failed", { extension, event: type, error: { message: LOST_PROMPT } });
		}
		return whole;
	};
}
