// Uses pi's SDK as packages do, and shows the host what each name gives. It runs in pi and in fairlead.

import * as ai from "@earendil-works/pi-ai";
import * as compat from "@earendil-works/pi-ai/compat";
import * as sdk from "@earendil-works/pi-coding-agent";
import path from "node:path";

const [s, a, c]: any[] = [sdk, ai, compat];
const usage = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
const user = (text: string): any => ({ role: "user", content: text, timestamp: 1 });
const assistant = (text: string): any => ({
	...{ role: "assistant", content: [{ type: "text", text }], api: "x", provider: "p", model: "m", usage },
	...{ stopReason: "stop", timestamp: 2 },
});
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A value as text, without what is different each time. */
function shape(value: any): string {
	const text = JSON.stringify(value, (_key, each) => (typeof each === "function" ? "function" : each)) ?? String(value);
	return text
		.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "UUID")
		.replace(/\d{4}-\d\d-\d\dT[\d:.-]+Z/g, "TIME")
		.replace(/"timestamp":\d+/g, '"timestamp":0')
		.replace(/"(id|parentId|firstKeptEntryId|leafId)":"[0-9a-f]{8}"/g, '"$1":"ID"');
}

function conversation(): any[] {
	const manager = s.SessionManager.inMemory();
	for (let at = 0; at < 6; at++) {
		manager.appendMessage(user("question ".repeat(50)));
		manager.appendMessage(assistant("answer ".repeat(50)));
	}
	return manager.getEntries();
}

const bare = (type: string, more: object) => ({ type, id: "a", parentId: null, timestamp: "2026-01-01T00:00:00Z", ...more });

function uses(ctx: any): Record<string, () => any> {
	const { cwd, model } = ctx;
	const entries = conversation();
	const models = [
		...[{ reasoning: false }, { reasoning: true }, { reasoning: true, thinkingLevelMap: { xhigh: "x", minimal: null } }],
		{ reasoning: true, thinkingLevelMap: { max: "m", off: null } },
	];
	const key = () => ctx.modelRegistry.getApiKeyAndHeaders(model);
	return {
		"SettingsManager.inMemory": () => {
			const m = s.SettingsManager.inMemory({ compaction: { enabled: false }, retry: { maxRetries: 9 } });
			return [
				...[m.getCompactionEnabled(), m.getCompactionSettings(), m.getRetrySettings(), m.getSteeringMode(), m.getFollowUpMode()],
				...[m.getTheme(), m.getDefaultProvider(), m.getDefaultModel(), m.getDefaultThinkingLevel(), m.getShellPath()],
				...[m.getEnabledModels(), m.getHideThinkingBlock(), m.getQuietStartup(), m.getImageAutoResize(), m.getBlockImages()],
				...[m.getExtensionPaths(), m.getPackages()],
			];
		},
		"SettingsManager setters": async () => {
			const m = s.SettingsManager.inMemory();
			m.setDefaultModelAndProvider("p", "m");
			m.setSteeringMode("all");
			m.setCompactionEnabled(false);
			m.applyOverrides({ retry: { enabled: false } });
			await m.flush();
			return [m.getDefaultProvider(), m.getDefaultModel(), m.getSteeringMode(), m.getCompactionEnabled(), m.getRetryEnabled(), m.getGlobalSettings()];
		},
		"SettingsManager.create": () => s.SettingsManager.create(cwd).getDefaultModel(),
		"SessionManager.inMemory": () => {
			const m = s.SessionManager.inMemory(cwd);
			const one = m.appendMessage(user("hi"));
			m.appendMessage(assistant("yo"));
			m.appendCustomEntry("mine", { a: 1 });
			m.appendThinkingLevelChange("high");
			m.appendModelChange("p", "m");
			m.appendCustomMessageEntry("t", "words", true, { d: 1 });
			m.appendLabelChange(one, "here");
			m.appendSessionInfo("name");
			return [
				...[m.isPersisted(), m.getSessionFile(), m.getCwd() === cwd, m.getSessionName(), m.getLabel(one), m.getHeader()],
				...[m.getEntries().map((each: any) => each.type), m.buildSessionContext(), m.getTree().length, m.getBranch().length],
			];
		},
		"SessionManager.branch": () => {
			const m = s.SessionManager.inMemory();
			const one = m.appendMessage(user("1"));
			m.appendMessage(user("2"));
			m.branch(one);
			m.appendMessage(user("3"));
			m.branchWithSummary(one, "sum");
			const messages = m.buildSessionContext().messages.map((each: any) => [each.role, each.content ?? each.summary]);
			return [m.getEntries().map((each: any) => each.type), messages, m.getChildren(one).length];
		},
		"SessionManager.open": async () => {
			const dir = path.join(cwd, "sessions");
			const m = s.SessionManager.create(cwd, dir);
			m.appendMessage(user("hi"));
			m.appendMessage(assistant("yo"));
			const again = s.SessionManager.open(m.getSessionFile());
			const same = [again.getSessionId() === m.getSessionId(), again.getSessionDir() === dir, again.getCwd() === cwd];
			const [found] = await s.SessionManager.list(cwd, dir);
			const listed = [Object.keys(found).sort(), found.messageCount, found.firstMessage];
			return [again.getEntries().length, ...same, again.buildSessionContext().messages.length, listed];
		},
		"SessionManager.open without a file": () => {
			const m = s.SessionManager.open(path.join(cwd, "nope", "a.jsonl"));
			return [m.getEntries().length, m.getSessionFile().endsWith("a.jsonl"), m.getSessionDir().endsWith("nope")];
		},
		buildSessionContext: () => {
			const { messages, thinkingLevel, model: chosen, ...more } = s.buildSessionContext(entries);
			const other = [entries[3].id, null].map((leaf) => s.buildSessionContext(entries, leaf).messages.length);
			return [messages.length, thinkingLevel, chosen, Object.keys(more).sort(), other];
		},
		findCutPoint: () => [300, 100_000, 0].map((keep) => s.findCutPoint(entries, 0, entries.length, keep)),
		sessionEntryToContextMessages: () =>
			[
				...[entries[0], bare("custom_message", { customType: "t", content: "c", display: true }), bare("label", { targetId: "x" })],
				...[bare("compaction", { summary: "s", firstKeptEntryId: "x", tokensBefore: 5 }), bare("branch_summary", { summary: "s", fromId: "x" })],
			].map((each) => s.sessionEntryToContextMessages(each)),
		DefaultResourceLoader: async () => {
			const none = { cwd, agentDir: s.getAgentDir(), noExtensions: true, noSkills: true };
			const l = new s.DefaultResourceLoader({ ...none, systemPrompt: "You are.", appendSystemPrompt: ["more"] });
			await l.reload();
			const own = new s.DefaultResourceLoader({
				...none,
				systemPromptOverride: () => "mine",
				agentsFilesOverride: () => ({ agentsFiles: [{ path: "/x", content: "y" }] }),
				extensionFactories: [(pi: any) => pi.registerCommand("zz", { handler() {} })],
			});
			await own.reload();
			const made = own.getExtensions().extensions.map((each: any) => [each.path, [...each.commands.keys()]]);
			return [
				...[l.getSystemPrompt(), l.getAppendSystemPrompt(), l.getExtensions().extensions.length, l.getExtensions().errors],
				...[l.getSkills(), l.getPrompts(), l.getThemes().themes.length, l.getAgentsFiles(), own.getSystemPrompt(), own.getAgentsFiles(), made],
			];
		},
		DefaultPackageManager: async () => {
			const m = new s.DefaultPackageManager({ cwd, agentDir: s.getAgentDir(), settingsManager: s.SettingsManager.inMemory() });
			return [await m.listConfiguredPackages(), Object.keys(await m.resolve()).sort()];
		},
		ModelRegistry: async () => {
			const r = new s.ModelRegistry(await s.ModelRuntime.create());
			const found = r.find("scripted", "one");
			return [found?.id, r.find("no", "no"), r.getAvailable().map((each: any) => each.id), r.hasConfiguredAuth(found)];
		},
		ModelRuntime: async () => {
			const r = await s.ModelRuntime.create();
			const available = (await r.getAvailable()).map((each: any) => each.id);
			return [r.getModel("scripted", "one")?.id, available, r.getModel("no", "no"), r.hasConfiguredAuth("scripted"), r.getProviders().length > 0];
		},
		createExtensionRuntime: () => {
			const runtime = s.createExtensionRuntime();
			runtime.registerProvider("p", {});
			const waiting = runtime.pendingProviderRegistrations.map((each: any) => each.name);
			try {
				runtime.sendMessage({});
			} catch (error: any) {
				return [Object.keys(runtime).sort(), waiting, error.message];
			}
		},
		createAgentSession: async () => {
			const settingsManager = s.SettingsManager.inMemory();
			const { session } = await s.createAgentSession({ cwd, model, sessionManager: s.SessionManager.inMemory(cwd), tools: ["read"], settingsManager });
			const seen = new Set<string>();
			session.subscribe((event: any) => seen.add(event.type));
			await session.prompt("hi there");
			const roles = session.messages.map((each: any) => each.role).filter((each: any) => each !== "system");
			const result = [
				...[session.getLastAssistantText(), [...seen].filter((each) => !each.endsWith("_update")).sort(), session.isStreaming, roles],
				...[session.model?.id, session.thinkingLevel, session.getActiveToolNames(), session.getAllTools().map((each: any) => each.name).sort()],
				...[session.sessionFile, session.pendingMessageCount, session.getSessionStats().userMessages],
			];
			session.dispose();
			return result;
		},
		"createAgentSession without tools": async () => {
			const sessionManager = s.SessionManager.inMemory(cwd);
			const { session, extensionsResult, modelFallbackMessage } = await s.createAgentSession({ cwd, model, sessionManager, noTools: "all" });
			const result = [session.getActiveToolNames(), Object.keys(extensionsResult).sort(), modelFallbackMessage];
			session.dispose();
			return result;
		},
		compact: async () => {
			const preparation = {
				...{ firstKeptEntryId: entries[8].id, messagesToSummarize: entries.slice(0, 8).map((each) => each.message) },
				...{ turnPrefixMessages: [], isSplitTurn: false, tokensBefore: 3 },
				fileOps: { read: new Set(["a"]), written: new Set(), edited: new Set(["b"]) },
				settings: { enabled: true, reserveTokens: 10, keepRecentTokens: 300 },
			};
			const { apiKey, headers } = await key();
			const { summary, firstKeptEntryId, details, tokensBefore } = await s.compact(preparation, model, apiKey, headers);
			return [firstKeptEntryId === entries[8].id, summary.startsWith("An answer."), details, tokensBefore];
		},
		resizeImage: async () => [await s.resizeImage({ data: PIXEL }), await s.resizeImage(Buffer.from(PIXEL, "base64"), "image/png")],
		truncateToVisualLines: () => {
			const text = "one two three four\nfive";
			return [s.truncateToVisualLines(text, 2, 8), s.truncateToVisualLines("", 2, 8), s.truncateToVisualLines("a\tb", 3, 8, 1), s.truncateToVisualLines(text, 2, 8, 0, "start")];
		},
		getSupportedThinkingLevels: () => models.map((each) => a.getSupportedThinkingLevels(each)),
		clampThinkingLevel: () =>
			models.map((each) => ["off", "minimal", "low", "medium", "high", "xhigh", "max", "bogus"].map((level) => a.clampThinkingLevel(each, level))),
		getEnvApiKey: () => {
			Object.assign(process.env, { OPENAI_API_KEY: "o", ANTHROPIC_OAUTH_TOKEN: "t", GH_TOKEN: "h", GEMINI_API_KEY: "g" });
			return ["openai", "anthropic", "google", "github-copilot", "groq", "no-such", "google-vertex", "amazon-bedrock"].map((each) => c.getEnvApiKey(each));
		},
		"a provider without a key": async () => {
			const r = ctx.modelRegistry;
			const known = r.getAll().find((each: any) => each.provider === "groq");
			const { ok, apiKey } = await r.getApiKeyAndHeaders(known);
			const keys = [await r.getApiKeyForProvider("groq"), await r.getApiKeyForProvider("no-such"), await r.getProviderAuth("groq")];
			return [ok, apiKey, keys, r.find("groq", "nope"), r.hasConfiguredAuth(known)];
		},
		streamSimpleAnthropic: async () => {
			const { apiKey } = await key();
			const stream = c.streamSimpleAnthropic(model, { messages: [user("hello")] }, { apiKey, maxTokens: 50 });
			const kinds: string[] = [];
			for await (const event of stream) kinds.push(event.type);
			const { content, stopReason, provider, model: answered } = await stream.result();
			return [kinds.filter((each) => !each.endsWith("delta")), content, stopReason, provider, answered];
		},
	};
}

export default function (pi: any) {
	pi.registerCommand("/", { handler: async (_args: any, ctx: any) => ctx.ui.notify("a command named /", "success") });
	pi.registerCommand("names", {
		handler: async (_args: any, ctx: any) => {
			for (const [name, use] of Object.entries(uses(ctx))) {
				const said = await Promise.resolve().then(use).then(shape, (error) => `failed: ${error?.message}`);
				ctx.ui.notify(`${name}: ${said}`);
			}
		},
	});
}
