// The models of providers that extensions register: described at once, asked for later, or changed after a login.

import { askNow, notify } from "./channel.mjs";
import { registered } from "./api.mjs";

/** Milliseconds that loading an extension waits for the models of its providers, and that a provider has to name them. */
const LOAD_MS = 2_000;
const REFRESH_MS = 15_000;

const isOffline = () => /^(1|true|yes)$/i.test(process.env.PI_OFFLINE ?? "");

/** The description of a provider in the form with a name. A complete provider of pi-ai has objects in some of its fields. */
export function plainForm(given) {
	const { api, auth } = given;
	if (typeof api !== "object" || api === null) return given;
	const own = api.api === undefined && typeof api.streamSimple === "function" ? { streamSimple: api.streamSimple.bind(api) } : {};
	const login = auth?.oauth ? { oauth: plainLogin(auth.oauth) } : {};
	return Object.assign(Object.create(given), { ...given, api: api.api ?? given.id, resolveKey: auth?.apiKey?.resolve, ...own, ...login });
}

/** The login of a complete provider in the form of `oauth` in a description with a name. */
function plainLogin(native) {
	return {
		name: native.name,
		login: ({ onAuth, onDeviceCode, onProgress, onPrompt, onManualCodeInput, onSelect, signal }) => {
			const told = { auth_url: onAuth, device_code: onDeviceCode };
			const asked = { select: onSelect, manual_code: onManualCodeInput };
			return native.login({
				notify: (news) => (told[news.type] ?? ((each) => onProgress(each.message)))(news),
				prompt: (question) => (asked[question.type] ?? onPrompt)(question),
				signal,
			});
		},
		refreshToken: (credentials, signal) => native.refresh(credentials, signal),
		toAuth: (credentials) => native.toAuth(credentials),
	};
}

/** The stored login at a provider. */
const credentialOf = (name) => askNow("loginEntry", { name }) ?? undefined;

function plain(config) {
	const { models, streamSimple, refreshModels, oauth, auth, ...rest } = config;
	return JSON.parse(JSON.stringify(rest));
}

/** Tell the agent about a provider. Without `models`, it has those of its description; without `credential`, the stored login counts. */
export function announce(number, models, credential) {
	const { extension, name, config } = registered.get(number);
	let chat = (models ?? config.getModels?.() ?? config.models)?.filter((model) => (model.type ?? "chat") === "chat");
	if (chat && config.filterModels) chat = config.filterModels(chat, credential ?? credentialOf(name)) ?? chat;
	const streams = typeof config.streamSimple === "function";
	const logsIn = typeof config.oauth?.login === "function";
	askNow("registerProvider", { extension, number, name, config: { ...plain(config), models: chat }, streams, logsIn });
}

/** Ask a provider for its models and its key, and tell the agent. */
export async function refreshProvider(number, signal = AbortSignal.timeout(REFRESH_MS)) {
	const entry = registered.get(number);
	if (entry === undefined) return;
	const { config, name } = entry;
	const credential = credentialOf(name);
	const publish = async ({ update, persist } = {}) => {
		if (signal.aborted || !registered.has(number)) return false;
		update?.();
		if (persist !== undefined) askNow("storeModels", { name, entry: persist });
		return true;
	};
	const stored = askNow("storedModels", { name }) ?? undefined;
	const asked = { credential, stored, allowNetwork: !isOffline(), force: false, signal, publish };
	const found = await config.refreshModels?.(asked);
	const resolved = await config.resolveKey?.({ credential, signal });
	if (!registered.has(number)) return;
	if (resolved?.auth?.apiKey) config.apiKey = resolved.auth.apiKey;
	entry.found = found ?? undefined;
	changeModels(number, credential);
}

/** Tell the agent about a provider's models, as the provider changes them for a login. */
export function changeModels(number, credential) {
	const { config, name, found } = registered.get(number);
	announce(number, found, credential);
	if (credential && config.oauth?.modifyModels) {
		const models = askNow("models", { all: true }).filter((model) => model.provider === name);
		announce(number, config.oauth.modifyModels(models, credential), credential);
	}
}

/** Whether the models of a provider depend on a login. */
export const changesWithLogin = ({ config }) => Boolean(config.oauth?.modifyModels || config.filterModels);

const isDynamic = (entry) => Boolean(entry.config.refreshModels || entry.config.resolveKey || changesWithLogin(entry));

async function refreshOrLog(number) {
	try {
		await refreshProvider(number);
	} catch (error) {
		notify("log", { text: `The models of the provider ${registered.get(number)?.name} are not known: ${error?.message ?? error}` });
		throw error;
	}
}

/** The work that is under way, by extension, while these are loaded. */
const loading = new Map();

/** Whether an extension is being loaded. */
export const isLoading = () => loading.size > 0;

/** Ask for the models of a provider that was just registered, if they can change. */
export function refreshSoon(number) {
	const entry = registered.get(number);
	if (!isDynamic(entry)) return;
	const work = Promise.resolve()
		.then(() => refreshOrLog(number))
		.catch(() => {});
	loading.get(entry.extension)?.push(work);
}

/** Load an extension, and wait a while for the models of the providers that it registers. */
export async function withModels(extension, load) {
	const work = [];
	loading.set(extension, work);
	try {
		await load();
	} finally {
		loading.delete(extension);
	}
	if (work.length) await Promise.race([Promise.all(work), new Promise((resolve) => setTimeout(resolve, LOAD_MS).unref())]);
}

/** Ask for the models of all providers that can change. */
export async function refreshAll({ signal, providers } = {}) {
	const errors = new Map();
	const wanted = [...registered].filter(([, each]) => each.kind === "provider" && isDynamic(each) && (providers?.includes(each.name) ?? true));
	await Promise.all(
		wanted.map(([number, { name }]) => refreshProvider(number, signal).catch((error) => errors.set(name, error))),
	);
	return { aborted: signal?.aborted ?? false, errors };
}
