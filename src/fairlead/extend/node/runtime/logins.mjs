// Logins at providers of extensions. The agent asks the user, and stores what the extension gets.

import { ask, notify } from "./channel.mjs";
import { registered } from "./api.mjs";
import { changeModels, changesWithLogin } from "./provider-models.mjs";

const oauthOf = (number) => registered.get(number).config.oauth;

/** Milliseconds that a provider has to renew a login. */
const RENEW_MS = 30_000;

function callbacks(call, signal) {
	const news = (message) => notify("loginNews", { call, ...message });
	const question = async (params) => {
		const answer = await ask("loginAsk", { call, ...params }, signal);
		if (answer === undefined) throw new Error("Login cancelled");
		return answer;
	};
	return {
		onAuth: ({ url, instructions }) => news({ url, instructions }),
		onDeviceCode: ({ userCode, verificationUri }) => news({ url: verificationUri, instructions: `Enter the code ${userCode}` }),
		onProgress: (message) => news({ message }),
		onPrompt: ({ message, placeholder }) => question({ message, placeholder }),
		onManualCodeInput: () => question({ message: "Paste the authorization code" }),
		onSelect: async ({ message, options }) => {
			const answer = await question({ message, options: options.map((option) => option.label) });
			return options.find((option) => option.label === answer)?.id;
		},
		signal,
	};
}

/** Let a provider change its models for a login. If that fails, the login still holds. */
function loggedIn(number, credentials) {
	try {
		if (changesWithLogin(registered.get(number))) changeModels(number, credentials);
	} catch (error) {
		notify("log", { text: `The provider did not change its models for the login: ${error?.message ?? error}` });
	}
	return credentials;
}

export async function login({ number }, call) {
	return loggedIn(number, await oauthOf(number).login(callbacks(call, new AbortController().signal)));
}

export async function renewLogin({ number, credentials }) {
	return loggedIn(number, await oauthOf(number).refreshToken(credentials, AbortSignal.timeout(RENEW_MS)));
}

/** The key, the headers and the address for requests with a login. A provider that is described with a name has a key only. */
export async function loginAuth({ number, credentials }) {
	const oauth = oauthOf(number);
	if (!oauth.toAuth) return { apiKey: await oauth.getApiKey(credentials) };
	const { apiKey, headers, baseUrl } = await oauth.toAuth(credentials);
	return { apiKey, headers, baseUrl };
}
