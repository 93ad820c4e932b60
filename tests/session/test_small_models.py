"""Models with a small context window: few tools, a short system prompt that says when to stop, short results, a small reserve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.windows import an_agent

from fairlead import Agent
from fairlead.models.context_windows import SMALL_WINDOW, largest_reserve, longest_tool_output
from fairlead.session.behaviour import Behaviour
from fairlead.session.run.turns import shorten
from fairlead.testing import ProviderServer

CORE = ["read", "bash", "edit", "write"]
NINE = [*CORE, "grep", "find", "ls", "todo_write", "task"]
STOP = "answer in one or two sentences without a tool call."


def asks(root: Path, server: ProviderServer, window: int, **options: Any) -> Agent:
    given: dict[str, Any] = {"tools": None, "behaviour": Behaviour(default_tools=NINE), **options}
    return an_agent(root, server.url, model={"contextWindow": window}, **given)


def tools_of(body: Any) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


@pytest.mark.parametrize(
    ("window", "options", "expected"),
    [
        (SMALL_WINDOW, {}, CORE),
        (SMALL_WINDOW + 1, {}, NINE),
        (SMALL_WINDOW, {"tools": ["read", "grep"]}, ["read", "grep"]),
        (SMALL_WINDOW, {"behaviour": Behaviour(default_tools=NINE, small_model_tools=[*CORE, "grep"])}, [*CORE, "grep"]),
    ],
)
async def test_a_small_model_gets_the_core_tools(tmp_path: Path, window: int, options: Any, expected: list[str]) -> None:
    async with ProviderServer([{"text": "ok"}]) as server, asks(tmp_path, server, window, **options) as agent:
        await agent.ask("hi")
        assert sorted(tools_of(server.requests[-1].body)) == sorted(expected)


async def test_its_system_prompt_is_short_and_ends_with_when_to_stop(tmp_path: Path) -> None:
    prompts: list[str] = []
    for number, window in enumerate((SMALL_WINDOW, SMALL_WINDOW + 1)):
        root = tmp_path / str(number)
        root.mkdir()
        async with (
            ProviderServer([{"text": "ok"}]) as server,
            asks(root, server, window, behaviour=Behaviour(default_tools=CORE)) as agent,
        ):
            await agent.ask("hi")
            prompts.append(server.requests[-1].body["messages"][0]["content"])
    small, large = prompts
    assert small.endswith(STOP) and STOP not in large
    assert len(small) < len(large)
    assert str(tmp_path / "0") in small


async def test_a_system_prompt_of_the_user_stays_as_it_is(tmp_path: Path) -> None:
    async with ProviderServer([{"text": "ok"}]) as server, asks(tmp_path, server, 4096, system_prompt="Mine.") as agent:
        await agent.ask("hi")
        content = server.requests[-1].body["messages"][0]["content"]
        assert content.startswith("Mine.") and STOP not in content


@pytest.mark.parametrize(("window", "is_cut"), [(4096, True), (SMALL_WINDOW + 1, False)])
async def test_results_take_at_most_a_quarter_of_the_window(tmp_path: Path, window: int, is_cut: bool) -> None:
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(1500)))
    turns = [{"toolCalls": [{"name": "read", "arguments": {"path": "long.txt"}}]}, {"text": "ok"}]
    async with ProviderServer(turns) as server, asks(tmp_path, server, window) as agent:
        await agent.ask("read it")
        result = server.requests[-1].body["messages"][-1]
    assert result["role"] == "tool"
    assert ("characters left out" in result["content"]) is is_cut
    assert not is_cut or len(result["content"]) <= window + 200
    assert "line 0\n" in result["content"] and "line 1499" in result["content"]


def test_the_parts_of_a_window() -> None:
    assert longest_tool_output(8192) == 8192  # characters: a quarter of the tokens, four characters each
    assert longest_tool_output(200_000) is None and longest_tool_output(0) is None
    assert largest_reserve(8192) == 2048


@pytest.mark.parametrize(("window", "reserve"), [(16_384, 4096), (SMALL_WINDOW, 8192), (200_000, 16_384)])
async def test_a_small_window_keeps_a_quarter_free(tmp_path: Path, window: int, reserve: int) -> None:
    async with ProviderServer([]) as server, asks(tmp_path, server, window) as agent:
        model = agent.session.model
        assert model is not None
        assert agent.session._budget.reserve(window) == reserve  # pyright: ignore[reportPrivateUsage]


def test_the_beginning_and_the_end_are_kept() -> None:
    text = shorten("a" * 500 + "b" * 500, 100)
    assert text.startswith("a" * 60 + "\n\n[900 characters left out") and text.endswith("]\n\n" + "b" * 40)
