"""Models of extensions that stand for others: pi's `registerVirtualModel`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.core.messages import AssistantMessage
from fairlead.errors import ProviderError

#: A provider whose models say their name and level, and fail for prompts that say so the first time.
PROVIDER = """
  const { createAssistantMessageEventStream } = await import("@earendil-works/pi-ai");
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const model = (id) => ({ id, name: id, reasoning: true, input: ["text"], cost, contextWindow: id === "big" ? 90000 : 5000, maxTokens: 100 });
  let failures = 1;
  pi.registerProvider("own", {
    baseUrl: "http://own", apiKey: "x", api: "own-api", models: [model("big"), model("small")],
    streamSimple(model, context, options) {
      const stream = createAssistantMessageEventStream();
      const fails = JSON.stringify(context.messages.at(-1)).includes("fail once") && failures-- > 0;
      const message = { role: "assistant", content: [{ type: "text", text: `${model.id} ${options.reasoning}` }], api: model.api, provider: model.provider, model: model.id,
        usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { ...cost, total: 0 } },
        stopReason: fails ? "error" : "stop", errorMessage: fails ? "overloaded" : undefined, timestamp: Date.now() };
      queueMicrotask(() => { stream.push({ type: "done", reason: "stop", message }); stream.end(); });
      return stream;
    },
  });
"""  # noqa: E501
SETTINGS = {"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 1}, "extensionTimeoutSeconds": 8}


@asynccontextmanager
async def agent_with(root: Path, body: str, **options: Any) -> AsyncGenerator[Agent]:
    source = root / "router.ts"
    source.write_text(
        'import { appendFileSync } from "node:fs";\n'
        f"const note = (value: any) => appendFileSync({json.dumps(str(root / 'notes'))}, JSON.stringify(value) + '\\n');\n"
        f"export default async function (pi: any) {{\n{PROVIDER}\n{body}\n}}\n"
    )
    (root / "home").mkdir(exist_ok=True)
    (root / "home" / "settings.json").write_text(json.dumps(SETTINGS))
    env = {"FAIRLEAD_HOME": str(root / "home"), "HOME": str(root), "PATH": "/usr/bin:/bin"}
    async with Agent(cwd=root, env=env, extensions=[source], **options) as agent:
        yield agent


def notes(root: Path) -> list[Any]:
    return [json.loads(line) for line in (root / "notes").read_text().splitlines()]


ROUTER = """
  pi.registerVirtualModel({
    provider: "router", id: "auto", name: "Auto", thinkingLevels: ["low", "high"], contextWindow: 1000,
    async route(request, ctx) {
      note([request.reason, request.thinkingLevel, request.previous?.model.id ?? null, request.failed?.message.errorMessage ?? null, request.state ?? null]);
      const count = (request.state?.count ?? 0) + 1;
      if (JSON.stringify(request.messages.at(-1)).includes("to nowhere")) return { model: { provider: "own", id: "none" }, thinkingLevel: "low" };
      if (JSON.stringify(request.messages.at(-1)).includes("to itself")) return { model: request.model, thinkingLevel: "low" };
      if (JSON.stringify(request.messages.at(-1)).includes("to throw")) throw new Error("no idea");
      if (JSON.stringify(request.messages.at(-1)).includes("to nothing")) return undefined;
      const id = request.reason === "retry" ? "small" : "big";
      return { model: ctx.modelRegistry.find("own", id), thinkingLevel: "medium", state: count > 2 ? request.state : { count } };
    },
  });
"""  # noqa: E501


async def test_each_request_goes_to_the_model_that_the_extension_chooses(tmp_path: Path) -> None:
    async with agent_with(tmp_path, ROUTER, model="router/auto", thinking="high") as agent:
        assert str(await agent.ask("hi")) == "big medium"
        assert str(await agent.ask("again, and fail once")) == "small medium"
        session = agent.session
        assert session.model is not None and (session.model.provider, session.model.id) == ("router", "auto")
        assert session.thinking == "high" and session.usage.context is not None
        assert session.usage.context.window == 5000  # of the model that answered
        answers = [message for message in session.messages if isinstance(message, AssistantMessage)]
        assert [(each.provider, each.model, each.thinking_level) for each in answers] == [
            ("own", "big", "medium"),
            ("own", "small", "medium"),
        ]
        log = session.history.log
        states = [entry["data"] for entry in log.plain(log.entries()) if entry.get("customType") == "pi.virtual-model-state"]
        assert states == [{"provider": "router", "modelId": "auto", "state": {"count": count}} for count in (1, 2)]
        await agent.session.compact()
    first, second, third, *summaries = notes(tmp_path)
    assert first == ["user", "high", None, None, None]
    assert second == ["user", "high", "big", None, {"count": 1}]
    assert third == ["retry", "high", "big", "overloaded", {"count": 2}]
    assert summaries and all(each == ["direct", "low", None, None, None] for each in summaries)


async def test_a_choice_that_cannot_be_used_ends_the_answer_with_an_error(tmp_path: Path) -> None:
    expected = {
        "to nowhere": "Virtual model router/auto routed to own/none, which is not a physical model.",
        "to itself": "Virtual model router/auto routed to router/auto, which is not a physical model.",
        "to throw": "no idea",
        "to nothing": "Cannot read properties of undefined (reading 'model')",
    }
    async with agent_with(tmp_path, ROUTER, model="router/auto") as agent:
        for prompt, error in expected.items():
            with pytest.raises(ProviderError, match=re.escape(error)):
                await agent.ask(prompt)
        assert str(await agent.ask("hi")) == "big medium"


async def test_a_choice_that_never_comes_ends_the_answer_or_is_aborted(tmp_path: Path) -> None:
    router = 'pi.registerVirtualModel({ provider: "own", id: "never", name: "N", route: () => new Promise(() => {}) });'
    async with agent_with(tmp_path, router, model="own/never") as agent:
        with pytest.raises(ProviderError, match="It chose no model within 8 seconds"):
            await agent.ask("hi")
        await agent.session.prompt("hi")
        await agent.session.abort()
        last = agent.session.messages[-1]
        assert isinstance(last, AssistantMessage) and last.stop_reason == "aborted"


async def test_a_resumed_session_keeps_its_virtual_model_while_that_exists(tmp_path: Path) -> None:
    async with agent_with(tmp_path, ROUTER, model="router/auto", keep=True) as agent:
        await agent.ask("hi")
        path = agent.session.history.path
    async with agent_with(tmp_path, ROUTER, session=path) as agent:
        assert str(await agent.ask("more")) == "big medium"
        assert agent.session.model is not None and agent.session.model.id == "auto"
    async with agent_with(tmp_path, "", session=path) as agent:
        assert str(await agent.ask("more")).startswith("big ")
        assert agent.session.model is not None and agent.session.model.id == "big"


async def test_a_virtual_model_is_listed_until_it_is_removed_and_takes_no_name_of_another(tmp_path: Path) -> None:
    body = (
        ROUTER
        + """
  const lists = (ctx) => ctx.modelRegistry.getAvailable().filter((m) => m.provider === "router").map((m) => [m.id, m.api, m.contextWindow]);
  pi.registerCommand("go", { handler: async (args, ctx) => {
    note(lists(ctx));
    pi.unregisterVirtualModel("router", "auto");
    note(lists(ctx));
    for (const id of ["big", ""]) {
      try { pi.registerVirtualModel({ provider: "own", id, name: "x", route() {} }); } catch (error) { note(error.message); }
    }
  } });
"""  # noqa: E501
    )
    async with agent_with(tmp_path, body, model="own/big") as agent:
        await agent.ask("/go")
    assert notes(tmp_path) == [
        [["auto", "pi-virtual", 1000]],
        [],
        "Virtual model own/big conflicts with a physical model.",
        "Virtual model provider and id must not be empty.",
    ]
