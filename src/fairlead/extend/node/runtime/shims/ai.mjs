// Stands in for `@earendil-works/pi-ai`.

import { randomBytes } from "node:crypto";
import { completeModel, modelRegistry, streamModel } from "../models.mjs";
import { AssistantMessageEventStream, EventStream } from "./event-stream.mjs";

export { AssistantMessageEventStream, EventStream };
export const createAssistantMessageEventStream = () => new AssistantMessageEventStream();

/** A JSON schema for one of several texts. Some providers accept no other form. */
export const StringEnum = (values, options = {}) => ({ type: "string", enum: [...values], ...options });

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/** The thinking levels of a model. The highest ones have to be in its map, and null there takes one away. */
export function getSupportedThinkingLevels({ reasoning, thinkingLevelMap = {} }) {
	if (!reasoning) return ["off"];
	const needsEntry = (level) => level === "xhigh" || level === "max";
	return LEVELS.filter((level) => thinkingLevelMap[level] !== null && (!needsEntry(level) || thinkingLevelMap[level] !== undefined));
}

/** The level itself if a model has it, else the next higher one, else the next lower one. */
export function clampThinkingLevel(model, level) {
	const supported = getSupportedThinkingLevels(model);
	const wanted = LEVELS.indexOf(level);
	const has = (each) => supported.includes(each);
	return LEVELS.slice(Math.max(wanted, 0)).find(has) ?? LEVELS.slice(0, Math.max(wanted, 0)).findLast(has) ?? "off";
}

export const supportsXhigh = (model) => getSupportedThinkingLevels(model).includes("xhigh");
export const modelsAreEqual = (left, right) => Boolean(left && right) && left.id === right.id && left.provider === right.provider;

/** The variables whose names do not follow from the name of the provider. */
const VARIABLES = {
	...{ google: "GEMINI_API_KEY", "google-vertex": "GOOGLE_CLOUD_API_KEY", "github-copilot": "COPILOT_GITHUB_TOKEN", huggingface: "HF_TOKEN" },
	...{ "azure-openai-responses": "AZURE_OPENAI_API_KEY", "vercel-ai-gateway": "AI_GATEWAY_API_KEY", moonshotai: "MOONSHOT_API_KEY" },
	...{ "moonshotai-cn": "MOONSHOT_API_KEY", "opencode-go": "OPENCODE_API_KEY", "kimi-coding": "KIMI_API_KEY" },
	...{ "cloudflare-workers-ai": "CLOUDFLARE_API_KEY", "cloudflare-ai-gateway": "CLOUDFLARE_API_KEY" },
	"qwen-token-plan-individual": "QWEN_TOKEN_PLAN_API_KEY",
};
const USUAL = new Set(
	"anthropic ant-ling qwen-token-plan qwen-token-plan-cn openai nvidia deepseek groq cerebras xai radius openrouter zai zai-coding-cn mistral minimax minimax-cn fireworks together baseten opencode xiaomi xiaomi-token-plan-cn xiaomi-token-plan-ams xiaomi-token-plan-sgp".split(
		" ",
	),
);

/** The variable of the environment that has the key of a provider. */
export const envVariable = (provider) => VARIABLES[provider] ?? (USUAL.has(provider) ? `${provider.toUpperCase().replaceAll("-", "_")}_API_KEY` : undefined);

/** The variables of the environment that have a key of a provider. */
export function findEnvKeys(provider, env = process.env) {
	const names = provider === "anthropic" ? ["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"] : [envVariable(provider)];
	const found = names.filter((name) => name && env[name]);
	return found.length ? found : undefined;
}

/** The key of a provider in the environment. */
export function getEnvApiKey(provider, env = process.env) {
	// This token goes into another header than keys do.
	const name = findEnvKeys(provider, env)?.find((each) => each !== "ANTHROPIC_AUTH_TOKEN");
	return name && env[name];
}

export const stream = streamModel;
export const streamAnthropic = streamModel;
export const streamSimpleAnthropic = streamModel;
export const streamOpenAICompletions = streamModel;
export const streamSimpleOpenAICompletions = streamModel;
export const streamOpenAIResponses = streamModel;
export const streamSimpleOpenAIResponses = streamModel;
export const streamGoogle = streamModel;
export const streamSimpleGoogle = streamModel;
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
