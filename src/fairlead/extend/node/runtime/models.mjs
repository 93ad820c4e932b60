// `ctx.modelRegistry`: the models that the agent knows, and calls of them.

import { plainSchema, registered } from "./api.mjs";
import { ask, askNow } from "./channel.mjs";
import { refreshAll } from "./provider-models.mjs";
import { AssistantMessageEventStream } from "./shims/event-stream.mjs";

/** The options of the calls that are running, whose functions the agent calls. */
const running = new Map();
let nextCall = 1;

/** Call a model through the agent. Returns a stream with the events of the answer, as they arrive. */
export function streamModel(model, context, options = {}) {
	const stream = new AssistantMessageEventStream();
	const { signal, onPayload, onResponse, onProviderStreamEvent, ...plain } = options;
	if (signal?.aborted) {
		stream.fail(undefined, model, true);
		return stream;
	}
	const number = nextCall++;
	const hooks = { payload: onPayload, response: onResponse, event: onProviderStreamEvent };
	const wanted = Object.keys(hooks).filter((kind) => hooks[kind]);
	running.set(number, { model, hooks });
	const tools = context?.tools?.map((tool) => ({ ...tool, parameters: plainSchema(tool.parameters) }));
	ask("streamModel", { number, model, context: tools ? { ...context, tools } : context, options: plain, wanted }, signal, relay(stream))
		.then(
			(message) => stream.finish(message),
			(error) => stream.fail(error, model, signal?.aborted),
		)
		.finally(() => running.delete(number));
	return stream;
}

/** Call a function in the options of a call that is running. */
export async function callOption({ number, kind, value }) {
	const { model, hooks } = running.get(number);
	return hooks[kind](value, model);
}

const KINDS = { text: "text", thinking: "thinking", toolCall: "toolcall" };

/** Turn what the agent reports about an answer into pi's events. */
function relay(stream) {
	let partial;
	return (pieces) => {
		for (const { type, index: contentIndex, message, block, delta } of pieces) {
			if (type === "start") {
				partial = message;
				stream.push({ type: "start", partial });
				continue;
			}
			const at = { contentIndex, partial };
			if (type === "block") partial.content[contentIndex] = block;
			const open = partial.content[contentIndex];
			const kind = KINDS[open.type];
			if (type === "block") {
				stream.push({ type: `${kind}_start`, ...at });
			} else if (type === "delta") {
				if (open.type !== "toolCall") open[kind] += delta;
				stream.push({ type: `${kind}_delta`, delta, ...at });
			} else {
				Object.assign(open, block);
				stream.push({ type: `${kind}_end`, ...(kind === "toolcall" ? { toolCall: open } : { content: open[kind] }), ...at });
			}
		}
	};
}

export const completeModel = (model, context, options) => streamModel(model, context, options).result();

const registeredProviders = () => [...registered.values()].filter((each) => each.kind === "provider");
const registeredConfig = (provider) => registeredProviders().findLast(({ name }) => name === provider)?.config;

/** The result of a call of a model for images or classification. Like pi's, it reports a problem instead of throwing it. */
const notAvailable = ({ provider, id }) => ({
	...{ provider, model: id, stopReason: "error", timestamp: Date.now() },
	errorMessage: `fairlead has no models for images or classification: ${provider}/${id}`,
});

/** Ask the user of a program for the key of a provider. */
const askForKey = (provider) => async ({ prompt }) => ({ type: "api_key", key: await prompt({ type: "secret", message: `API key for ${provider}` }) });

export const modelRegistry = {
	getAll: () => askNow("models", { all: true }),
	getAvailable: () => askNow("models", {}),
	find: (provider, id) => askNow("models", { all: true }).find((model) => model.provider === provider && model.id === id),
	hasConfiguredAuth: (model) => askNow("models", {}).some((each) => each.provider === model.provider),
	getApiKeyAndHeaders: async (model) => askNow("modelAuth", { model }),
	getApiKey: async (model) => askNow("modelAuth", { model }).apiKey,
	getApiKeyForProvider: async (provider) => askNow("providerKey", { provider })?.apiKey,
	getProviderAuth: async (provider) => {
		const auth = askNow("providerKey", { provider });
		return auth && { auth, source: "fairlead" };
	},
	getProviderAuthStatus: (provider) => ({ configured: askNow("models", {}).some((model) => model.provider === provider) }),
	getProviderDisplayName: (provider) => registeredConfig(provider)?.name ?? provider,
	getRegisteredProviderIds: () => [...new Set(registeredProviders().map(({ name }) => name))],
	getRegisteredProviderConfig: registeredConfig,
	getProvider: (id) => {
		const models = askNow("models", { all: true }).filter((model) => model.provider === id);
		return models.length ? { id, name: id, models, auth: { apiKey: { name: "API key", login: askForKey(id) } }, getModels: () => models } : undefined;
	},
	isUsingOAuth: () => false,
	refresh: (options) => refreshAll(options),
	getError: () => undefined,
	getModelsOfType: () => [],
	getAvailableOfType: () => [],
	findOfType: () => undefined,
	getModelOfType: () => undefined,
	classify: async (model) => ({ ...notAvailable(model), answers: {} }),
	generateImages: async (model) => ({ ...notAvailable(model), output: [] }),
	stream: streamModel,
	streamSimple: streamModel,
	complete: completeModel,
	completeSimple: completeModel,
};
