"""Answers as values: `output_type`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypedDict, assert_type

import msgspec
import pydantic
import pytest

from fairlead import Agent, Discovery
from fairlead.agent.prompting import OutputType
from fairlead.errors import BadOption, LimitReached, OutputError, RunAborted
from fairlead.messages import ToolCall, user_text
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


@dataclass
class Fruit:
    name: str
    count: int


class FruitStruct(msgspec.Struct):
    name: str
    count: int


class Color(Enum):
    RED = "red"


class FruitDict(TypedDict):
    name: str
    count: int


class FruitModel(pydantic.BaseModel):
    name: str
    count: int


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name", "count"],
}
GOOD = '{"name": "apple", "count": 3}'
BAD = '{"name": "apple", "count": "many"}'


def an_agent(model: Scripted, cwd: Path, **options: Any) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=model, cwd=cwd, isolated=True, **options)


async def types_that_a_checker_knows(agent: Agent) -> None:
    """Not called: the type checker reads it."""
    assert_type((await agent.ask("x")).output, str)
    assert_type((await agent.ask("x", output_type=Fruit)).output, Fruit)
    assert_type((await agent.ask("x", output_type=FruitDict)).output, FruitDict)
    assert_type((await agent.ask("x", output_type=list[FruitModel])).output, list[FruitModel])
    assert_type((await agent.ask("x", output_type=SCHEMA)).output, Any)
    assert_type(agent.ask_sync("x").output, str)
    assert_type(agent.ask_sync("x", output_type=FruitStruct).output, FruitStruct)


def prompts(model: Scripted) -> list[str]:
    """The last message of each request."""
    return [user_text(request.messages[-1]) for request in model.requests if request.messages[-1].role == "user"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Fruit, Fruit("apple", 3)),
        (FruitStruct, FruitStruct("apple", 3)),
        (FruitDict, {"name": "apple", "count": 3}),
        (FruitModel, FruitModel(name="apple", count=3)),
        (SCHEMA, {"name": "apple", "count": 3}),
    ],
)
async def test_the_output_has_the_type_that_was_asked_for(tmp_path: Path, kind: Any, value: Any) -> None:
    model = Scripted([Turn(text=GOOD)])
    async with an_agent(model, tmp_path) as agent:
        result = await agent.ask("Which fruit?", output_type=kind)
    assert result.output == value and type(result.output) is type(value)
    assert result.text == GOOD
    (prompt,) = prompts(model)
    assert prompt.startswith("Which fruit?\n\n") and '"count"' in prompt


@pytest.mark.parametrize("kind", [Fruit, FruitModel, SCHEMA])
async def test_an_answer_that_does_not_fit_is_corrected_by_the_model(tmp_path: Path, kind: Any) -> None:
    model = Scripted([Turn(text="I like apples."), Turn(text=BAD), Turn(text=GOOD)])
    async with an_agent(model, tmp_path) as agent:
        result = await agent.ask("Which fruit?", output_type=kind)
    assert result.text == GOOD and len(result.messages) == 6
    assert result.usage.input == 300  # what the corrections cost counts
    _, first, second = prompts(model)
    assert first.startswith("That answer cannot be used. It contains no JSON value.")
    assert second.startswith("That answer cannot be used. Its JSON does not match the schema: ") and "count" in second
    assert "https://" not in second


async def test_the_number_of_corrections_is_bounded_and_the_text_is_kept(tmp_path: Path) -> None:
    model = Scripted([Turn(text=BAD)])
    async with an_agent(model, tmp_path) as agent:
        with pytest.raises(
            OutputError, match=r"^The answer does not have the type .*, not even after 2 corrections\. "
        ) as caught:
            await agent.ask("Which fruit?", output_type=Fruit)
        assert (caught.value.result.text, len(model.requests)) == (BAD, 3)
        with pytest.raises(OutputError, match=r"asked for\. Its JSON") as caught:
            await agent.ask("Which fruit?", output_type=Fruit, output_retries=0)
        assert len(model.requests) == 4


async def test_tools_run_before_the_output(tmp_path: Path) -> None:
    call = ToolCall("1", "bash", {"command": "echo 3"})
    model = Scripted([Turn(text='{"name": "draft", "count": 0}', tool_calls=[call]), Turn(text=GOOD)])
    async with an_agent(model, tmp_path) as agent:
        assert (await agent.ask("Count them.", output_type=Fruit)).output == Fruit("apple", 3)


async def test_a_template_is_expanded_before_the_type_is_added(tmp_path: Path) -> None:
    (tmp_path / "count.md").write_text("Count the $ARGUMENTS!")
    model = Scripted([Turn(text="3")])
    async with an_agent(model, tmp_path, discovery=Discovery(prompt_templates=["count.md"])) as agent:
        assert (await agent.ask("/count apples", output_type=int)).output == 3
    assert prompts(model)[0].startswith("Count the apples!\n\nUse your tools")


async def test_limits_hold_for_corrections_too(tmp_path: Path) -> None:
    async with an_agent(Scripted([Turn(text=BAD)]), tmp_path) as agent:
        with pytest.raises(LimitReached, match="all of its 2 turns") as caught:
            await agent.ask("Which fruit?", output_type=Fruit, max_turns=2)
        assert caught.value.result.text == BAD
        with pytest.raises(LimitReached, match="max_cost"):
            await agent.ask("Which fruit?", output_type=Fruit, max_cost=0.001)


async def test_an_abort_ends_the_corrections(tmp_path: Path) -> None:
    second = asyncio.Event()

    async def forever() -> None:
        second.set()
        await asyncio.Event().wait()

    model = Scripted([Turn(text=BAD), Turn(text=GOOD, pause=forever)])
    async with an_agent(model, tmp_path) as agent, asyncio.timeout(20):
        asking = asyncio.create_task(agent.ask("Which fruit?", output_type=Fruit))
        await second.wait()
        await agent.session.abort()
        with pytest.raises(RunAborted):
            await asking


@pytest.mark.parametrize("kind", [object(), lambda: None, {"type": "nonsense"}, Path, complex])
async def test_a_type_that_answers_cannot_have_is_refused(tmp_path: Path, kind: Any) -> None:
    model = Scripted([Turn(text=GOOD)])
    async with an_agent(model, tmp_path) as agent:
        with pytest.raises(BadOption, match=r"^output_type: expected "):
            await agent.ask("Which fruit?", output_type=kind)
        with pytest.raises(BadOption, match=r"^output_retries: expected a whole number of at least 0, found -1\.$"):
            await agent.ask("Which fruit?", output_type=Fruit, output_retries=-1)
        with pytest.raises(BadOption, match=r"^output_retries: "):
            await agent.ask("Which fruit?", output_retries=-1)
    assert model.requests == []


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (f"Here it is:\n```json\n{GOOD}\n```\nAnything else?", FruitDict, {"name": "apple", "count": 3}),
        (f"First I thought {BAD}, but then {GOOD}.", Fruit, Fruit("apple", 3)),
        (f"<think>{{maybe}} [1, 2</think>{GOOD}", Fruit, Fruit("apple", 3)),
        ('{"name": "apple", "count": "3"}', Fruit, Fruit("apple", 3)),
        ('{"name": "apple", "count": "3"}', SCHEMA, {"name": "apple", "count": 3}),
        (f"[{GOOD}]", list[Fruit], [Fruit("apple", 3)]),
        (f"Both: [{GOOD}]", list[FruitModel], [FruitModel(name="apple", count=3)]),
        ("42", int, 42),
        ("yes", Literal["yes", "no"], "yes"),
        ("red", Color, Color.RED),
        ('"no"', Literal["yes", "no"], "no"),
        (GOOD, Fruit | None, Fruit("apple", 3)),
    ],
)
def test_values_are_found_in_what_models_write(text: str, kind: Any, value: Any) -> None:
    assert OutputType(kind).read(text) == value


def test_text_full_of_braces_costs_little() -> None:
    with pytest.raises(Exception, match="no JSON"):
        OutputType(Fruit).read("{[" * 500_000)
