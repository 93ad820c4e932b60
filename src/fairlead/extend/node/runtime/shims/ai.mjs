// Stands in for `@earendil-works/pi-ai`.

import { randomBytes } from "node:crypto";
import { completeModel, modelRegistry, streamModel } from "../models.mjs";
import { AssistantMessageEventStream, EventStream } from "./event-stream.mjs";

export { AssistantMessageEventStream, EventStream };
export const createAssistantMessageEventStream = () => new AssistantMessageEventStream();

/** A JSON schema for one of several texts. Some providers accept no other form. */
export const StringEnum = (values, options = {}) => ({ type: "string", enum: [...values], ...options });

export const stream = streamModel;
export const streamSimple = streamModel;
export const complete = completeModel;
export const completeSimple = completeModel;

export const getModel = (provider, id) => modelRegistry.find(provider, id);
export const getModels = (provider) => modelRegistry.getAll().filter((model) => model.provider === provider);
export const getProviders = () => [...new Set(modelRegistry.getAll().map((model) => model.provider))];

/** A UUID that begins with the time, so that later ones sort after earlier ones. */
export function uuidv7() {
	const bytes = randomBytes(16);
	bytes.writeUIntBE(Date.now(), 0, 6);
	bytes[6] = (bytes[6] & 0x0f) | 0x70;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	const hex = bytes.toString("hex");
	return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** Fill in the cost of a model call from the prices of the model, in dollars per million tokens. */
export function calculateCost(model, usage) {
	const cost = usage.cost;
	for (const kind of ["input", "output", "cacheRead", "cacheWrite"]) cost[kind] = ((model.cost?.[kind] ?? 0) / 1e6) * usage[kind];
	cost.total = cost.input + cost.output + cost.cacheRead + cost.cacheWrite;
	return cost;
}

// A transcript may begin with messages of the role system, which hold the prompt and the tools.
const systemMessages = (messages) => messages.filter((message) => message.role === "system");

export function getCurrentSystemMessage(messages) {
	return systemMessages(messages).at(-1);
}

export function getCurrentSystemPrompt(messages) {
	return systemMessages(messages)
		.map((message) => (typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join("")))
		.filter(Boolean)
		.join("\n\n");
}

export function getCurrentTools(messages) {
	return systemMessages(messages).flatMap((message) => message.tools ?? []);
}

export function collapseSystemMessages(messages) {
	const head = getCurrentSystemPrompt(messages);
	const rest = messages.filter((message) => message.role !== "system");
	return head ? [{ role: "system", content: head, tools: getCurrentTools(messages), timestamp: Date.now() }, ...rest] : rest;
}

/** Collects the pieces of a tool call's arguments. */
export class ToolCallArgumentsStream {
	constructor() {
		this.text = "";
	}

	push(piece) {
		this.text += piece;
		return this.value();
	}

	append(piece) {
		return this.push(piece);
	}

	value() {
		try {
			return JSON.parse(this.text);
		} catch {
			return {};
		}
	}

	finish() {
		return this.value();
	}
}

export const isContextOverflow = (message) => /context|too long|maximum.*tokens/i.test(message?.errorMessage ?? "");
export const registerApiProvider = () => {};
export const unregisterApiProviders = () => {};

const api = (name) => () => ({ api: name, stream: streamModel, streamSimple: streamModel });

export const anthropicMessagesApi = api("anthropic-messages");
export const openAICompletionsApi = api("openai-completions");
export const openAIResponsesApi = api("openai-responses");
export const googleGenerativeAIApi = api("google-generative-ai");
export const createProvider = (definition) => ({ ...definition, getModels: () => definition.models ?? [] });
