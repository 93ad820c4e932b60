"""Providers that extensions written for pi register: models that they look up, complete providers, and their own streams."""

from __future__ import annotations

import json
from pathlib import Path

from tests.extend.extended import notes, scripted
from tests.extend.test_node_models import HELLO, served

MODEL = """
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const model = (id: string, more = {}) => ({ id, name: id, reasoning: false, input: ["text"], cost, contextWindow: 9000, maxTokens: 100, ...more });
  const known = (ctx: any, provider: string) => ctx.modelRegistry.getAll().filter((each: any) => each.provider === provider);
"""  # noqa: E501


async def test_models_that_a_provider_looks_up_are_known_after_loading(tmp_path: Path) -> None:
    body = (
        MODEL
        + """
  let round = 0;
  pi.registerProvider("live", { baseUrl: "http://127.0.0.1:9/v1", apiKey: "local", api: "openai-completions",
    async refreshModels({ signal, allowNetwork }: any) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      note([signal.aborted, allowNetwork]);
      return [model(`m${++round}`), model("picture", { type: "image" })] as any;
    } } as any);
  pi.registerCommand("again", { handler: async (args, ctx) => {
    const { aborted, errors } = (await ctx.modelRegistry.refresh()) as any;
    note([aborted, errors.size, known(ctx, "live").map((each: any) => each.id)]);
  } });
"""
    )
    async with scripted(tmp_path, body) as it:
        await it.command("/again")
        assert it.errors == []
    assert notes(tmp_path) == [[False, True], [False, True], [False, 0, ["m2"]]]


async def test_a_provider_stores_its_models_for_the_next_start(tmp_path: Path) -> None:
    body = (
        MODEL
        + """
  pi.registerProvider("remote", { baseUrl: "http://127.0.0.1:9/v1", apiKey: "k", api: "openai-completions",
    async refreshModels({ stored, publish }: any) {
      note(stored ?? "nothing");
      const count = (stored?.models.length ?? 0) + 1;
      await publish({ persist: count > 2 ? null : { models: Array(count).fill(model("m")), checkedAt: count } });
      return stored?.models ?? [];
    } } as any);
  pi.registerCommand("again", { handler: async (args, ctx) => void (await ctx.modelRegistry.refresh()) });
"""
    )
    async with served(tmp_path, body) as (agent, _):
        await agent.extensions.load()
        store = tmp_path / "home" / "models-store.json"
        store.write_text(store.read_text().replace('"checkedAt": 1', '"checkedAt": 7'))
        await agent.ask("/again")
        await agent.ask("/again")
    first, second, third = notes(tmp_path)
    assert (first, second["checkedAt"], third["checkedAt"]) == ("nothing", 7, 2)
    assert json.loads(store.read_text()) == {}


async def test_a_provider_that_never_names_its_models_holds_up_nothing(tmp_path: Path) -> None:
    body = (
        MODEL
        + """
  const silent = { baseUrl: "http://127.0.0.1:9/v1", apiKey: "k", api: "openai-completions" };
  pi.registerProvider("silent", { ...silent, models: [model("first")], refreshModels: () => new Promise(() => {}) } as any);
  pi.registerProvider("broken", { ...silent, models: [model("first")], refreshModels: async () => { throw new Error("down"); } } as any);
  pi.registerCommand("look", { handler: async (args, ctx) => note([...known(ctx, "silent"), ...known(ctx, "broken")].map((each: any) => each.id)) });
"""  # noqa: E501
    )
    async with scripted(tmp_path, body) as it:
        await it.command("/look")
        assert it.errors == []
    assert notes(tmp_path) == [["first", "first"]]


async def test_registering_a_provider_again_keeps_what_is_not_mentioned(tmp_path: Path) -> None:
    body = (
        MODEL
        + """
  pi.registerProvider("twice", { baseUrl: "http://one", apiKey: "k", api: "openai-completions", models: [model("m")] } as any);
  pi.registerProvider("twice", { baseUrl: "http://two", models: undefined } as any);
  pi.registerCommand("look", { handler: async (args, ctx) => {
    note(known(ctx, "twice").map((each: any) => [each.id, each.baseUrl]));
    pi.unregisterProvider("twice");
    note(known(ctx, "twice"));
  } });
"""
    )
    async with scripted(tmp_path, body) as it:
        await it.command("/look")
        assert it.errors == []
    assert notes(tmp_path) == [[["m", "http://two"]], []]


async def test_a_complete_provider_resolves_its_key_and_publishes_its_models(tmp_path: Path) -> None:
    body = (
        MODEL
        + """
  const { createProvider, openAICompletionsApi } = await import("@earendil-works/pi-ai/compat");
  let found: any[] = [];
  pi.registerProvider({ ...createProvider({
    id: "whole", name: "Whole", baseUrl: "http://127.0.0.1:9/v1", models: [], api: openAICompletionsApi(),
    auth: { apiKey: { name: "Whole", async resolve() { return { auth: { apiKey: "found" }, source: "here" }; } } },
  } as any), getModels: () => found,
    async refreshModels(context: any) { await context.publish({ update: () => { found = [model("m")]; } }); },
  } as any);
  pi.registerCommand("look", { handler: async (args, ctx) => {
    const [m] = known(ctx, "whole");
    note([m.id, m.api, await ctx.modelRegistry.getApiKeyForProvider("whole")]);
  } });
"""
    )
    async with served(tmp_path, body) as (agent, _):
        await agent.ask("/look")
    assert notes(tmp_path) == [["m", "openai-completions", "found"]]


async def test_a_call_uses_the_key_in_its_options(tmp_path: Path) -> None:
    body = f"""
  pi.registerCommand("ask", {{ handler: async (args, ctx) => {{
    for (const apiKey of ["other", undefined])
      note(((await ctx.modelRegistry.complete(ctx.model!, {HELLO}, {{ apiKey }} as any)).content[0] as any).text);
  }} }});
"""
    async with served(tmp_path, body, {"text": "one"}, {"text": "two"}) as (agent, server):
        await agent.ask("/ask")
        assert [request.headers["x-api-key"] for request in server.requests] == ["other", "sk"]
    assert notes(tmp_path) == ["one", "two"]


OWN_STREAM = (
    MODEL
    + """
  const { createAssistantMessageEventStream } = await import("@earendil-works/pi-ai");
  pi.registerProvider("own", { baseUrl: "http://own", apiKey: "configured", api: "own-api", models: [model("m")],
    streamSimple(m: any, context: any, options: any) {
      const stream = createAssistantMessageEventStream();
      (async () => {
        const payload = (await options.onPayload?.({ q: 1 }, m)) ?? { q: 1 };
        await options.onResponse?.({ status: 201, headers: { "x-a": "b" } }, m);
        note([payload, options.apiKey]);
        const message = { role: "assistant", content: [{ type: "text", text: "own" }], api: m.api,
          provider: m.provider, model: m.id,
          usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { ...cost, total: 0 } },
          stopReason: "stop", timestamp: Date.now() };
        stream.push({ type: "done", reason: "stop", message } as any);
        stream.end();
      })();
      return stream;
    } } as any);
"""
)


async def test_handlers_see_and_change_events_of_a_custom_stream(tmp_path: Path) -> None:
    body = (
        OWN_STREAM
        + """
  pi.on("before_provider_request", (event: any) => ({ ...event.payload, added: true }));
  pi.on("after_provider_response", (event: any) => note([event.status, event.headers]));
  pi.registerCommand("use", { handler: async (args, ctx) => void (await pi.setModel(ctx.modelRegistry.find("own", "m")!)) });
"""
    )
    async with served(tmp_path, body) as (agent, _):
        await agent.ask("/use")
        assert str(await agent.ask("hi")) == "own"
    assert notes(tmp_path) == [[201, {"x-a": "b"}], [{"q": 1, "added": True}, "configured"]]


async def test_an_own_stream_gets_the_options_of_a_call(tmp_path: Path) -> None:
    body = (
        OWN_STREAM
        + f"""
  pi.registerCommand("ask", {{ handler: async (args, ctx) => {{
    const options: any = {{ apiKey: "other", onPayload: (payload: any) => ({{ ...payload, mine: 1 }}) }};
    note((await ctx.modelRegistry.complete(ctx.modelRegistry.find("own", "m")!, {HELLO}, options)).stopReason);
  }} }});
"""
    )
    async with served(tmp_path, body) as (agent, _):
        await agent.ask("/ask")
    assert notes(tmp_path) == [[{"q": 1, "mine": 1}, "other"], "stop"]


async def test_a_provider_of_the_user_is_changed_and_keeps_its_models(tmp_path: Path) -> None:
    body = """
  pi.registerProvider("fake", { headers: { "x-team": "mine" } });
  pi.registerCommand("more", { handler: async (_args, ctx) => {
    note(ctx.modelRegistry.getAvailable().filter((each) => each.provider === "fake").map((each) => each.id));
    pi.unregisterProvider("fake");
    note(ctx.modelRegistry.find("fake", "m")?.id ?? null);
  } });
"""
    async with served(tmp_path, body, {"text": "Hello."}, {"text": "Hello."}) as (agent, server):
        await agent.ask("hi")
        assert server.requests[0].headers["x-team"] == "mine"
        await agent.ask("/more")
        await agent.ask("hi")
        assert "x-team" not in server.requests[1].headers
    assert notes(tmp_path) == [["m"], "m"]
