// `ctx.modelRegistry`: the models that the agent knows, and calls of them.

import { ask, askNow } from "./channel.mjs";
import { AssistantMessageEventStream } from "./shims/event-stream.mjs";

/** Call a model through the agent. Returns a stream with the events of the answer. */
export function streamModel(model, context, options = {}) {
	const stream = new AssistantMessageEventStream();
	const { signal, onPayload, onResponse, onProviderStreamEvent, ...plain } = options;
	ask("completeModel", { model, context, options: plain }, signal).then(
		(message) => stream.replay(message),
		(error) => stream.fail(error, model),
	);
	return stream;
}

export const completeModel = (model, context, options) => streamModel(model, context, options).result();

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
	getProviderDisplayName: (provider) => provider,
	getProvider: (id) => {
		const models = askNow("models", { all: true }).filter((model) => model.provider === id);
		return models.length ? { id, name: id, models, getModels: () => models } : undefined;
	},
	isUsingOAuth: () => false,
	refresh: async () => {},
	getError: () => undefined,
	getModelsOfType: () => [],
	getAvailableOfType: () => [],
	findOfType: () => undefined,
	getModelOfType: () => undefined,
	stream: streamModel,
	streamSimple: streamModel,
	complete: completeModel,
	completeSimple: completeModel,
};
