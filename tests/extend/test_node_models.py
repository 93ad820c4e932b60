"""Extensions written for pi that call models, and see what providers send."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import notes, script, scripted
from tests.models.asking import Answer, serving

from fairlead import Agent, AgentOptions
from fairlead.core.messages import ToolCall
from fairlead.core.model import ModelRequest, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.session.behaviour import Behaviour
from fairlead.testing import SCRIPTED_MODEL, ProviderServer, Turn

HELLO = '{ messages: [{ role: "user", content: "psst", timestamp: 1 }] }'


@asynccontextmanager
async def served(
    root: Path,
    body: str,
    *answers: Answer,
    settings: str = "{}",
    api: str = "anthropic-messages",
    keeps_model: bool = True,
    **fields: Any,
) -> AsyncGenerator[tuple[Agent, ProviderServer]]:
    """An agent with one TypeScript extension, and a model behind HTTP."""
    async with serving(*answers) as server:
        (root / "one.ts").write_text(script(root, body))
        model = {"baseUrl": f"{server.url}/v1", "api": api, "apiKey": "sk", "models": [{"id": "m", **fields}]}
        (root / "home").mkdir()
        (root / "home" / "settings.json").write_text(settings)
        (root / "home" / "models.json").write_text(json.dumps({"providers": {"fake": model}}))
        env = {**os.environ, "FAIRLEAD_HOME": str(root / "home"), "HOME": str(root)}
        behaviour = Behaviour(keeps_model=keeps_model)
        agent = Agent(AgentOptions(model="fake/m", cwd=root, env=env, extensions=[root / "one.ts"], behaviour=behaviour))
        async with agent, asyncio.timeout(30):
            yield agent, server


async def test_the_events_of_a_response_are_seen_before_the_message(tmp_path: Path) -> None:
    body = """
  pi.on("provider_stream_event", (event) => note([event.provider, event.api, event.model, (event.data as any).type]));
  pi.on("message_update", () => note("update"));
  pi.on("message_end", (event) => note(event.message.role));
"""
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, _):
        assert str(await agent.ask("hi")) == "Hello."
    said = notes(tmp_path)
    events: list[Any] = [each for each in said if isinstance(each, list)]
    assert events[0] == ["fake", "anthropic-messages", "m", "message_start"]
    assert [event[3] for event in events][-2:] == ["message_delta", "message_stop"]
    assert said.index(events[0]) < said.index("update") < said.index("assistant")


async def test_a_handler_of_raw_events_that_hangs_is_not_called_again(tmp_path: Path) -> None:
    body = 'pi.on("provider_stream_event", () => { note("called"); return new Promise(() => {}); });'
    async with served(tmp_path, body, {"text": "Hello."}, settings='{"extensionTimeoutSeconds": 3}') as (agent, _):
        assert str(await agent.ask("hi")) == "Hello."
    assert notes(tmp_path) == ["called"]


async def test_an_answer_arrives_piece_by_piece_and_can_be_aborted(tmp_path: Path) -> None:
    body = f"""
  pi.registerCommand("ask", {{ handler: async (args, ctx) => {{
    const stop = new AbortController();
    const stream = ctx.modelRegistry.streamSimple(ctx.model!, {HELLO}, {{ signal: stop.signal }});
    for await (const event of stream) {{
      note(event.type === "text_delta" ? [event.delta, (event.partial.content[0] as any).text] : event.type);
      if (event.type === "text_delta") stop.abort();
    }}
    const message = await stream.result();
    note([message.stopReason, (message.content[0] as any).text]);
  }} }});
"""

    async def half(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        """Answers the first half, and the rest never."""
        partial = PartialMessage(SCRIPTED_MODEL, 1)
        partial.start_text(1)
        partial.add(1, "half")
        yield partial.take()
        fired = asyncio.Event()
        cancel.on_fire(fired.set)
        await fired.wait()
        partial.abort()
        yield partial.take()

    (tmp_path / "one.ts").write_text(script(tmp_path, body))
    env = {**os.environ, "FAIRLEAD_HOME": str(tmp_path), "HOME": str(tmp_path)}
    options: dict[str, Any] = {"cwd": tmp_path, "env": env, "extensions": [tmp_path / "one.ts"]}
    async with Agent(model=SCRIPTED_MODEL, stream=half, **options) as agent, asyncio.timeout(30):
        await agent.ask("/ask")
    assert notes(tmp_path) == ["start", "text_start", ["half", "half"], "error", ["aborted", "half"]]


async def test_all_kinds_of_blocks_are_streamed(tmp_path: Path) -> None:
    body = f"""
  pi.registerCommand("ask", {{ handler: async (args, ctx) => {{
    for await (const event of ctx.modelRegistry.streamSimple(ctx.model!, {HELLO})) {{
      const {{ type, delta, content, toolCall }} = event as any;
      note([type, delta ?? content ?? toolCall?.arguments ?? null]);
    }}
  }} }});
"""
    turn = Turn(thinking="hm", text="ok", tool_calls=[ToolCall("c1", "bash", {"command": "x"})])
    async with scripted(tmp_path, body, turns=[turn]) as it:
        await it.command("/ask")
        assert it.errors == []
    said = notes(tmp_path)
    assert [type for type, _ in said if not type.endswith("_delta")] == [
        *("start", "thinking_start", "thinking_end", "text_start", "text_end", "toolcall_start", "toolcall_end", "done"),
    ]
    assert ["thinking_end", "hm"] in said and ["text_end", "ok"] in said and ["toolcall_end", {"command": "x"}] in said


async def test_the_options_of_a_call_see_and_change_the_request(tmp_path: Path) -> None:
    body = f"""
  pi.registerCommand("ask", {{ handler: async (args, ctx) => {{
    const message = await ctx.modelRegistry.complete(ctx.model!, {HELLO}, {{
      temperature: 0.5, maxTokens: 7, headers: {{ "x-mine": "yes" }},
      onPayload: (payload: any, model: any) => {{ note(model.id); return {{ ...payload, top_k: 3 }}; }},
      onResponse: ({{ status }}: any) => note(status),
      onProviderStreamEvent: (data: any) => note(data.type),
    }} as any);
    note((message.content[0] as any).text);
  }} }});
"""
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, server):
        await agent.ask("/ask")
        asked = server.requests[0]
        assert (asked.body["temperature"], asked.body["max_tokens"], asked.body["top_k"]) == (0.5, 7, 3)
        assert asked.headers["x-mine"] == "yes"
    said = notes(tmp_path)
    assert said[:3] == ["m", 200, "message_start"] and said[-1] == "Hello."


async def test_a_call_that_fails_is_an_error_event(tmp_path: Path) -> None:
    body = f"""
  pi.registerCommand("ask", {{ handler: async (args, ctx) => {{
    const ask = async (model: any, options: any) => {{
      const types = [];
      const stream = ctx.modelRegistry.streamSimple(model, {HELLO}, options);
      for await (const event of stream) types.push(event.type);
      const {{ stopReason, errorMessage }} = await stream.result();
      note([types, stopReason, errorMessage]);
    }};
    await ask({{ ...ctx.model!, provider: "nowhere" }}, {{}});
    await ask(ctx.model, {{ onPayload: () => {{ throw new Error("not that"); }} }});
    await ask(ctx.model, {{ signal: AbortSignal.abort() }});
  }} }});
"""
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, server):
        await agent.ask("/ask")
        assert server.requests == []
    unknown, thrown, aborted = notes(tmp_path)
    assert unknown[:2] == [["error"], "error"] and "Model not found" in unknown[2]
    assert thrown[1:] == ["error", "not that"]
    assert aborted[1:] == ["aborted", "Request was aborted"]


async def test_calls_that_an_extension_floods_do_not_hold_up_the_run(tmp_path: Path) -> None:
    body = f"""
  pi.on("agent_start", (event, ctx) => {{
    for (let n = 0; n < 200; n++) ctx.modelRegistry.complete(ctx.model!, {HELLO}).then((m) => {{ if (n === 199) note(m.stopReason); }});
  }});
"""  # noqa: E501
    async with scripted(tmp_path, body, turns=[Turn(text="ok")] * 201) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.errors == []


async def test_a_model_is_set_when_the_handlers_have_seen_it(tmp_path: Path) -> None:
    body = """
  const model = { baseUrl: "http://127.0.0.1:9", api: "openai-completions", apiKey: "k", models: [{ id: "a" }, { id: "b" }] };
  pi.registerProvider("own", model as any);
  const use = (ctx: any, id: string) => pi.setModel(ctx.modelRegistry.find("own", id)!);
  pi.on("model_select", async (event, ctx) => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    note(event.model.id);
    if (event.model.id === "a") note(["inside", await use(ctx, "b")]);
  });
  pi.registerCommand("use", { handler: async (args, ctx) => note(["set", await use(ctx, "a"), ctx.model!.id]) });
"""
    async with served(tmp_path, body) as (agent, _):
        await agent.ask("/use")
    assert notes(tmp_path) == ["a", ["inside", True], "b", ["set", True, "b"]]


ASKING = """
  pi.registerCommand("ask", { handler: async (args, ctx) => {
    const tool = { name: "t", description: "T", parameters: Type.Object({}) };
    const context = { systemPrompt: "S", messages: [{ role: "user", content: "psst", timestamp: 1 }], tools: [tool] };
    const onPayload = () => note("payload");
    const onResponse = ({ status }: any) => note(status);
    const options = { ...JSON.parse(args), onPayload, onResponse };
    const { content, stopReason, errorMessage } = await ctx.modelRegistry.complete(ctx.model!, context as any, options);
    note([stopReason, errorMessage ?? (content[0] as any).text]);
  } });
"""


def asking(**options: Any) -> str:
    return f"/ask {json.dumps(options)}"


async def test_options_of_a_call_reach_anthropic(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"reasoning": True, "maxTokens": 64_000}
    async with served(tmp_path, ASKING, {"text": "Hello."}, **fields) as (agent, server):
        headers = {"anthropic-version": None, "X-Api-Key": "other"}
        options: dict[str, Any] = {"metadata": {"user_id": "u1", "more": 2}, "toolChoice": "none", "headers": headers}
        await agent.ask(asking(cacheRetention="none", temperature=0.5, **options))
        await agent.ask(asking(cacheRetention="long", temperature=0.5, reasoning="high", thinkingBudgets={"high": 5000}))
        first, second = server.requests
        assert "cache_control" not in json.dumps(first.body) and first.body["temperature"] == 0.5
        assert (first.body["metadata"], first.body["tool_choice"]) == ({"user_id": "u1"}, {"type": "none"})
        assert "anthropic-version" not in first.headers and first.headers["x-api-key"] == "other"
        marked = [*second.body["system"], *second.body["tools"], *second.body["messages"][0]["content"]]
        assert [part["cache_control"] for part in marked] == [{"type": "ephemeral", "ttl": "1h"}] * 3
        assert second.body["thinking"]["budget_tokens"] == 5000
        assert "temperature" not in second.body, "the API refuses it while the model thinks"


@pytest.mark.parametrize("api", ["openai-responses", "openai-completions"])
async def test_options_of_a_call_reach_openai(tmp_path: Path, api: str) -> None:
    async with served(tmp_path, ASKING, {"text": "Hello."}, api=api) as (agent, server):
        options: dict[str, Any] = {"samplingParams": {"top_p": 0.5, "temperature": 1}, "temperature": 0, "toolChoice": "none"}
        await agent.ask(asking(sessionId="s1", cacheRetention="long", **options))
        await agent.ask(asking(sessionId="s1", cacheRetention="none"))
        first, second = (request.body for request in server.requests)
        assert (first["prompt_cache_key"], first["prompt_cache_retention"]) == ("s1", "24h")
        assert (first["top_p"], first["temperature"], first["tool_choice"]) == (0.5, 1, "none")
        assert not {"prompt_cache_key", "prompt_cache_retention", "temperature"} & set(second)


async def test_options_of_a_call_reach_google(tmp_path: Path) -> None:
    async with served(tmp_path, ASKING, {"text": "Hello."}, api="google-generative-ai") as (agent, server):
        await agent.ask(asking(temperature=0.5, toolChoice="none"))
        body = server.requests[0].body
        assert body["generationConfig"]["temperature"] == 0.5
        assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


async def test_a_session_of_its_own_names_the_prompt_cache(tmp_path: Path) -> None:
    async with served(tmp_path, ASKING, {"text": "Hello."}, api="openai-responses") as (agent, server):
        await agent.ask(asking(sessionId="s1"))
        await agent.ask(asking())
        assert [request.body.get("prompt_cache_key") for request in server.requests] == ["s1", None]


async def test_a_call_is_repeated_as_often_as_its_options_allow(tmp_path: Path) -> None:
    busy: dict[str, Any] = {"status": 429, "error": "busy", "headers": {"retry-after": "0"}}
    asleep: dict[str, Any] = {"status": 503, "error": "asleep", "headers": {"retry-after": "120"}}
    refused: dict[str, Any] = {"status": 400, "error": "refused"}
    answers = (busy, busy, {"text": "Hello."}, busy, refused, asleep)
    async with served(tmp_path, ASKING, *answers) as (agent, server):
        await agent.ask(asking(apiKey="sk-busy", maxRetries=2))
        assert notes(tmp_path) == ["payload", 200, ["stop", "Hello."]]
        for retries in (0, 3, 3):
            await agent.ask(asking(apiKey="sk-busy", maxRetries=retries))
        assert len(server.requests) == len(answers)
    said = notes(tmp_path)[3:]
    assert [each for each in said if isinstance(each, str)] == ["payload"] * 3
    failures: list[Any] = [each for each in said if isinstance(each, list)]
    assert [stop for stop, _ in failures] == ["error"] * 3
    assert failures[2][1].startswith("Server requested 120s retry delay (max: 60s). ")


async def test_a_server_that_does_not_begin_to_answer_in_time_is_asked_again_or_given_up(tmp_path: Path) -> None:
    silent: dict[str, Any] = {"status": 500, "firstDelayMs": 600_000}
    slow: dict[str, Any] = {"text": "Hello.", "firstDelayMs": 1300}
    async with served(tmp_path, ASKING, silent, silent, slow) as (agent, _):
        await agent.ask(asking(timeoutMs=1000))
        await agent.ask(asking(timeoutMs=1000, maxRetries=1))
    assert notes(tmp_path) == [
        *("payload", ["error", "Request timed out."]),
        *("payload", 200, ["stop", "Hello."]),
    ]


async def test_a_new_session_selects_no_model(tmp_path: Path) -> None:
    body = """
  pi.on("model_select", (event) => { note([event.source, event.model.id]); });
  pi.registerCommand("new", { handler: async (_args, ctx) => {
    await pi.setModel(ctx.modelRegistry.find("own", "m1")!);
    await ctx.newSession({ withSession: async (fresh) => note(fresh.model!.id) });
  } });
  pi.registerProvider("own", { baseUrl: "http://127.0.0.1:1", apiKey: "k", api: "anthropic-messages", models: [
    { id: "m1", name: "M1", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } },
  ] });
"""
    async with served(tmp_path, body, {"text": "Hello."}, keeps_model=False) as (agent, _):
        await agent.ask("/new")
        await agent.idle()
    assert notes(tmp_path) == [["set", "m1"], "m"]


async def test_a_call_without_a_system_prompt_has_no_system_message(tmp_path: Path) -> None:
    body = """
  const { createAssistantMessageEventStream } = await import("@earendil-works/pi-ai");
  pi.registerProvider("own", { baseUrl: "http://127.0.0.1:1", apiKey: "k", api: "own-api", models: [
    { id: "m1", name: "M1", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } },
  ], streamSimple(model, context) {
    note(context.messages.map((message) => message.role));
    const stream = createAssistantMessageEventStream();
    const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
    const message = { role: "assistant", content: [], api: model.api, provider: "own", model: "m1", usage, stopReason: "stop", timestamp: 1 } as any;
    stream.push({ type: "start", partial: message });
    stream.push({ type: "done", reason: "stop", message });
    return stream;
  } });
  pi.registerCommand("call", { handler: async (_args, ctx) => {
    const model = ctx.modelRegistry.find("own", "m1")!;
    const messages = [{ role: "user", content: "q", timestamp: 1 }] as any;
    await ctx.modelRegistry.complete(model, { messages });
    await ctx.modelRegistry.complete(model, { systemPrompt: "Be brief.", messages });
  } });
"""  # noqa: E501
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, _):
        await agent.ask("/call")
        await agent.idle()
    assert notes(tmp_path) == [["user"], ["system", "user"]]


async def test_models_are_found_with_the_functions_of_pi_ai(tmp_path: Path) -> None:
    body = """
  const { getModel, getModels, getProviders } = await import("@earendil-works/pi-ai");
  pi.registerCommand("look", { handler: async () => {
    note([getModel("fake", "m")!.id, getModel("fake", "none") ?? null]);
    note([getModels("fake").length, getProviders().includes("fake")]);
  } });
"""
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, _):
        await agent.ask("/look")
        await agent.idle()
    assert notes(tmp_path) == [["m", None], [1, True]]
