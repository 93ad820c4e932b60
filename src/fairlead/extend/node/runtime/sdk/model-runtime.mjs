// `ModelRuntime` and `ModelRegistry`: the models that the agent knows. Calls of models run in the agent, too.

import { modelRegistry } from "../models.mjs";
import { AuthStorage } from "./settings.mjs";

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

export class ModelRuntime {
	constructor(credentials = AuthStorage.create()) {
		this.credentials = credentials;
	}

	static async create({ credentials, authPath } = {}) {
		return new ModelRuntime(credentials ?? AuthStorage.create(authPath));
	}

	get runtimeKeys() {
		return this.credentials.runtimeKeys;
	}

	getProviders = () => [...new Set(modelRegistry.getAll().map((model) => model.provider))].map((id) => modelRegistry.getProvider(id));
	getProvider = (id) => modelRegistry.getProvider(id);
	getModels = (provider) => modelRegistry.getAll().filter((model) => !provider || model.provider === provider);
	getModel = (provider, id) => modelRegistry.find(provider, id);
	getAllModels = (provider) => this.getModels(provider);
	getModelsOfType = () => [];
	getModelOfType = () => undefined;
	getAvailableSnapshot = () => modelRegistry.getAll().filter((model) => this.hasConfiguredAuth(model.provider));
	getAvailable = async (provider) => this.getAvailableSnapshot().filter((model) => !provider || model.provider === provider);
	getAllAvailable = (provider) => this.getAvailable(provider);
	getAvailableOfType = async () => [];
	hasConfiguredAuth = (provider) => this.runtimeKeys?.has(provider) || modelRegistry.hasConfiguredAuth({ provider });
	checkAuth = async (provider) => (this.hasConfiguredAuth(provider) ? { type: "api_key", source: "fairlead" } : undefined);
	getProviderAuthStatus = (provider) => ({ configured: this.hasConfiguredAuth(provider) });

	async getAuth(given) {
		const provider = typeof given === "string" ? given : given.provider;
		const key = this.runtimeKeys?.get(provider);
		return key ? { auth: { apiKey: key }, source: "runtime" } : modelRegistry.getProviderAuth(provider);
	}

	setRuntimeApiKey = async (provider, key) => void this.runtimeKeys.set(provider, key);
	removeRuntimeApiKey = async (provider) => void this.runtimeKeys.delete(provider);
	listCredentials = () => this.credentials.list();
	/** Ask for the key of a provider and store it for the user. */
	async login(provider, type, interaction) {
		const login = type === "api_key" ? this.getProvider(provider)?.auth.apiKey.login : undefined;
		if (!login) throw new Error(`${provider} has no login of the kind ${type} here. Use \`fairlead login ${provider}\`.`);
		const credential = await login(interaction);
		await this.credentials.set(provider, credential);
		return credential;
	}

	logout = (provider) => this.credentials.delete(provider);
	isUsingOAuth = (provider) => this.credentials.get?.(provider)?.type === "oauth";
	isUsingSubscription = (provider) => this.isUsingOAuth(provider);
	getError = () => undefined;
	getRegisteredProviderIds = () => modelRegistry.getRegisteredProviderIds();
	getRegisteredProviderConfig = (id) => modelRegistry.getRegisteredProviderConfig(id);
	getRegisteredNativeProvider = () => undefined;
	refresh = (options) => modelRegistry.refresh(options);
	stream = modelRegistry.stream;
	streamSimple = modelRegistry.streamSimple;
	complete = modelRegistry.complete;
	completeSimple = modelRegistry.completeSimple;
	classify = modelRegistry.classify;
	generateImages = modelRegistry.generateImages;
}

for (const name of ["registerProvider", "registerNativeProvider", "unregisterProvider", "registerVirtualModel", "unregisterVirtualModel", "streamDeferred", "fetchDeferred", "cancelDeferred"]) {
	ModelRuntime.prototype[name] = notHere("ModelRuntime", name);
}

function notHere(what, name) {
	return () => {
		throw new Error(`${name}() of ${what} is not available in fairlead. Use an extension, or \`fairlead login\`.`);
	};
}

/** The same, as extensions and older programs see it. */
export class ModelRegistry {
	constructor(runtime) {
		this.runtime = runtime instanceof ModelRuntime ? runtime : new ModelRuntime(runtime);
		this.authStorage = this.runtime.credentials;
		const { getAvailableSnapshot, hasConfiguredAuth, getProviderAuthStatus, isUsingOAuth, getAuth } = this.runtime;
		Object.assign(this, modelRegistry, {
			getAvailable: getAvailableSnapshot,
			hasConfiguredAuth: (model) => hasConfiguredAuth(model.provider),
			getProviderAuthStatus,
			isUsingOAuth: (model) => isUsingOAuth(model.provider),
			getProviderAuth: (provider) => getAuth.call(this.runtime, provider),
			getApiKeyForProvider: async (provider) => (await getAuth.call(this.runtime, provider))?.auth?.apiKey,
		});
	}

	static create = (authStorage) => new ModelRegistry(new ModelRuntime(authStorage));
	static inMemory = (authStorage) => new ModelRegistry(new ModelRuntime(authStorage ?? AuthStorage.inMemory()));
}

for (const name of ["registerProvider", "unregisterProvider", "registerVirtualModel", "unregisterVirtualModel"]) {
	ModelRegistry.prototype[name] = notHere("ModelRegistry", name);
}

/** Find the model that a command line names: `provider/id`, an id or part of one, with an optional `:level`. */
export function resolveCliModel({ cliProvider, cliModel, cliThinking, modelRuntime }) {
	const none = { model: undefined, warning: undefined, error: undefined };
	if (!cliModel) return none;
	const models = modelRuntime.getModels();
	const usable = (model) => modelRuntime.hasConfiguredAuth(model.provider);
	const find = (text) => {
		const ofProvider = models.filter((model) => !cliProvider || model.provider === cliProvider);
		const names = (model) => [`${model.provider}/${model.id}`, model.id].map((name) => name.toLowerCase());
		const wanted = text.toLowerCase();
		const exact = ofProvider.filter((model) => names(model).includes(wanted));
		const found = exact.length ? exact : ofProvider.filter((model) => names(model).some((name) => name.includes(wanted)) || model.name?.toLowerCase().includes(wanted));
		return found.find(usable) ?? found[0];
	};
	const model = find(cliModel);
	if (model) return { ...none, model, ...(cliThinking ? { thinkingLevel: cliThinking } : {}) };
	const colon = cliModel.lastIndexOf(":");
	const level = cliModel.slice(colon + 1);
	const withLevel = colon > 0 && LEVELS.includes(level) ? find(cliModel.slice(0, colon)) : undefined;
	if (withLevel) return { ...none, model: withLevel, thinkingLevel: cliThinking ?? level };
	return { ...none, error: `Model "${cliModel}" not found. Use --list-models to see the available models.` };
}
