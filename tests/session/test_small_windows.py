"""Sessions whose model remembers less than they need: what is sent, what is kept, and that they go on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.session.scene import file_of
from tests.support.windows import APIS, STYLES, SmallServer, an_agent, longest_answer, size_of

from fairlead import Agent
from fairlead.core import events as e
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ProviderError
from fairlead.models.context_windows import ContextWindows
from fairlead.testing import SCRIPTED_MODEL

WINDOW = 2048
HUGE = "begin " + "word " * 6_000 + "the end"


def conversation_of(body: Any) -> str:
    return json.dumps(body.get("messages") or body.get("input") or body.get("contents"), ensure_ascii=False)


async def said(agent: Agent, *prompts: str) -> list[str]:
    async with asyncio.timeout(50):
        return [(await agent.ask(prompt)).text for prompt in prompts]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("api", APIS)
async def test_a_session_that_overflows_a_small_window_continues(tmp_path: Path, api: str, style: str) -> None:
    async with SmallServer(WINDOW, style) as server, an_agent(tmp_path, server.url, api) as agent:
        answers = await said(agent, "hello", HUGE, "and now?", "still there?")
        assert answers == ["understood"] * 4
        assert "still there?" in conversation_of(server.answered[-1])
        (sent,) = [body for body in server.answered if "and now?" not in (text := conversation_of(body)) and "begin" in text]
        assert "characters left out because they do not fit the model's context window" in conversation_of(sent)
        assert "the end" in conversation_of(sent), "only the middle is missing"
        assert server.refused <= 8, "it does not take many attempts"
        kept = file_of(agent.session).read_text()
        assert HUGE in kept, "the file has everything"


async def test_a_prompt_that_alone_is_too_large_is_shortened(tmp_path: Path) -> None:
    async with SmallServer(WINDOW) as server, an_agent(tmp_path, server.url) as agent:
        assert await said(agent, HUGE) == ["understood"]
        assert server.refused == 1


@pytest.mark.parametrize("declared", [{}, {"contextWindow": 200_000, "maxTokens": 8_192}], ids=["undeclared", "declared"])
async def test_an_unknown_window_is_found_in_few_requests(tmp_path: Path, declared: Any) -> None:
    enormous = "begin " + "word " * 200_000
    async with SmallServer(WINDOW, "mute") as server, an_agent(tmp_path, server.url, model=declared) as agent:
        assert await said(agent, "hello", enormous, "and now?", "still there?") == ["understood"] * 4
        assert server.refused <= 12, "each attempt was a good deal smaller than the one before"


@pytest.mark.parametrize("text", ["思" * 9_000, "🙂" * 9_000, "0123456789abcdef" * 2_000])
async def test_text_that_is_denser_than_estimated_is_shortened_further(tmp_path: Path, text: str) -> None:
    async with SmallServer(500) as server, an_agent(tmp_path, server.url) as agent:
        assert await said(agent, text, "next") == ["understood"] * 2


async def test_a_huge_result_of_a_tool_is_shortened_for_the_model(tmp_path: Path) -> None:
    def reply(body: Any) -> dict[str, Any]:
        is_first = not any(message["role"] == "tool" for message in body["messages"])
        return {"toolCalls": [{"name": "look", "arguments": {}}]} if is_first else {"text": "seen"}

    async def look(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text(HUGE)

    tool = Tool("look", "Look.", {"type": "object"}, look)
    async with SmallServer(WINDOW, reply=reply) as server, an_agent(tmp_path, server.url, extra_tools=[tool]) as agent:
        assert await said(agent, "look", "go on") == ["seen", "seen"]
        (result,) = [message for message in server.answered[1]["messages"] if message["role"] == "tool"]
        assert result["content"].startswith("begin") and "characters left out" in result["content"]
        assert HUGE in file_of(agent.session).read_text()


async def test_many_messages_in_a_small_window_become_summaries(tmp_path: Path) -> None:
    async with SmallServer(WINDOW) as server, an_agent(tmp_path, server.url) as agent:
        compactions: list[e.CompactionEnd] = []
        agent.session.subscribe(lambda event: compactions.append(event) if isinstance(event, e.CompactionEnd) else None)
        prompts = [f"prompt {number} " + "x" * 500 for number in range(40)]
        assert await said(agent, *prompts) == ["understood"] * 40
        assert server.refused <= 2, "once the window is known it is not overflowed again"
        assert all(end.error is None for end in compactions) and 2 < len(compactions) < 40
        assert all(prompt in file_of(agent.session).read_text() for prompt in prompts)


@pytest.mark.parametrize("api", APIS)
async def test_the_answer_that_is_asked_for_leaves_room_for_the_question(tmp_path: Path, api: str) -> None:
    async with SmallServer(WINDOW, "vllm") as server, an_agent(tmp_path, server.url, api) as agent:
        heard: list[e.Event] = []
        agent.session.subscribe(heard.append)
        assert await said(agent, "hello", "again") == ["understood"] * 2
        assert server.refused == 1, "the declared window is wrong; the error tells the true one"
        assert not any(isinstance(event, e.CompactionStart) for event in heard)
        for body in server.answered:
            assert 256 <= longest_answer(body) <= WINDOW - size_of(body)


@pytest.mark.parametrize("api", APIS)
async def test_the_declared_limit_is_sent_and_a_declared_window_caps_it(tmp_path: Path, api: str) -> None:
    async with SmallServer(10**6) as server:
        async with an_agent(tmp_path, server.url, api, model={"maxTokens": 777}) as agent:
            await said(agent, "hello")
        async with an_agent(tmp_path, server.url, api, model={"contextWindow": 4096}) as agent:
            await said(agent, "hello")
    assert longest_answer(server.answered[0]) == 777
    assert 1024 < longest_answer(server.answered[1]) < 4096


async def test_the_window_is_learnt_from_the_list_of_models_if_the_error_does_not_tell_it(tmp_path: Path) -> None:
    async with SmallServer(WINDOW, "mute", listed=True) as server, an_agent(tmp_path, server.url) as agent:
        await said(agent, HUGE)
        model = agent.session.model
        assert model is not None and model.context_window == 128_000, "hosts see what is declared"
        assert agent.session.models.window(model) == WINDOW


@pytest.mark.parametrize("style", STYLES)
async def test_a_model_that_writes_no_summaries_does_not_stop_a_session(tmp_path: Path, style: str) -> None:
    async with SmallServer(WINDOW, style, summary={"text": ""}) as server, an_agent(tmp_path, server.url) as agent:
        prompts = ["hello", HUGE, "and now?", *(f"{number} " + "x" * 900 for number in range(12)), "bye"]
        assert await said(agent, *prompts) == ["understood"] * len(prompts)
        assert "bye" in conversation_of(server.answered[-1])


async def test_a_session_that_overflowed_continues_when_reopened(tmp_path: Path) -> None:
    async with SmallServer(WINDOW) as server:
        async with an_agent(tmp_path, server.url) as agent:
            await said(agent, "hello", HUGE)
            file = file_of(agent.session)
        async with an_agent(tmp_path, server.url, session=file) as agent:
            assert await said(agent, "back again", HUGE, "more") == ["understood"] * 3


async def test_a_window_smaller_than_the_system_prompt_is_explained(tmp_path: Path) -> None:
    async with SmallServer(300) as server, an_agent(tmp_path, server.url, system_prompt="Rule. " * 400) as agent:
        errors: list[str] = []
        agent.session.subscribe(
            lambda event: errors.append(event.error) if isinstance(event, e.CompactionEnd) and event.error else None
        )
        for prompt in ("hello", "again"):
            with pytest.raises(ProviderError, match="The system prompt and the tools alone take about"):
                await said(agent, prompt)
        assert server.refused <= 12
        assert "300 tokens" in errors[0] and "The system prompt and the tools alone take about" in errors[0]


async def test_switched_off_an_overflow_changes_nothing(tmp_path: Path) -> None:
    settings = {"compaction": {"enabled": False}}
    async with SmallServer(WINDOW) as server, an_agent(tmp_path, server.url, settings=settings) as agent:
        for _ in range(2):
            with pytest.raises(ProviderError, match="exceeds the available context size"):
                await said(agent, HUGE)
        assert server.refused == 2 and not server.answered


def test_a_window_that_was_misread_is_forgotten_once_a_larger_request_is_answered() -> None:
    windows, model = ContextWindows(), replace(SCRIPTED_MODEL, context_window=100_000)
    windows.learn(model, 4_096)
    assert windows.of(model) == 4_096
    windows.prove(model, 9_000)
    assert windows.of(model) == 100_000
    windows.learn(model, 4_096)  # the same text once more
    assert windows.of(model) == 100_000
    windows.learn(model, 16_384)
    assert windows.of(model) == 16_384
