"""Functions as tools: the schema of their parameters, calls, and results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import jsonschema_rs
import pytest
from msgspec import Meta, Struct
from pydantic import BaseModel

from fairlead import ToolError, ToolResult
from fairlead.core.functions import FunctionTool, as_tool_result
from fairlead.messages import ImageContent, TextContent


class Call:
    """A context, as a program may have one."""


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Shelf:
    row: int
    label: str = ""


class Book(Struct):
    title: str


class Filter(TypedDict, total=False):
    language: str


def google(item: str, count: int = 1) -> None:
    """Find a thing.

    It looks everywhere.

    Args:
        item: what to
            look for
        count (int): how many

    Returns:
        item: not a parameter
    """


def numpy(item: str, count: int = 1) -> None:
    """Find a thing.

    It looks everywhere.

    Parameters
    ----------
    item : str
        what to
        look for
    count
        how many

    Returns
    -------
    item
        not a parameter
    """


def rest(item: str, count: int = 1) -> None:
    """Find a thing.

    It looks everywhere.

    :param item: what to
        look for
    :param int count: how many
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_a_docstring_describes_the_tool_and_its_parameters(function: Callable[..., Any]) -> None:
    tool = FunctionTool(function, [Call])
    assert tool.description == "Find a thing.\n\nIt looks everywhere."
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "item": {"type": "string", "description": "what to look for"},
            "count": {"type": "integer", "description": "how many", "default": 1},
        },
        "required": ["item"],
        "additionalProperties": False,
    }


def test_every_usual_type_has_a_schema_and_is_what_the_function_gets() -> None:
    def take(
        colour: Colour,
        shelf: Shelf,
        books: list[Book],
        only: Filter,
        path: Path,
        mode: Literal["fast", "slow"] = "fast",
        limit: int | None = None,
        tags: list[str] = [],  # noqa: B006 (a default that a user may well write)
        where: Path = Path("here"),
        lock: Annotated[int, Meta(ge=1), "how many locks"] = 1,
        call: Call | None = None,
    ) -> None:
        """Take all."""

    tool = FunctionTool(take, [Call])
    properties = tool.parameters["properties"]
    assert "call" not in properties
    assert properties["path"] == {"type": "string", "format": "path"}
    assert properties["mode"] == {"enum": ["fast", "slow"], "default": "fast"}
    assert properties["limit"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["lock"] == {"type": "integer", "minimum": 1, "description": "how many locks", "default": 1}
    assert set(tool.parameters["$defs"]) == {"Colour", "Shelf", "Book", "Filter"}
    call = Call()
    given: dict[str, Any] = {"colour": "red", "shelf": {"row": 2}, "books": [{"title": "A"}], "only": {}, "path": "/a"}
    values = tool.arguments(given, call)
    assert values == {
        "colour": Colour.RED,
        "shelf": Shelf(2),
        "books": [Book("A")],
        "only": {},
        "path": Path("/a"),
        "mode": "fast",
        "limit": None,
        "tags": [],
        "where": Path("here"),
        "lock": 1,
        "call": call,
    }
    assert values["tags"] is not tool.arguments(given, call)["tags"]
    with pytest.raises(ToolError, match="Invalid arguments for take: Object contains unknown field `other`"):
        tool.arguments(given | {"other": 1}, call)
    with pytest.raises(ToolError, match="Expected `str`, got `int`"):
        tool.arguments(given | {"path": 1}, call)


class Crate(BaseModel):
    row: int = 1


class Box(BaseModel):
    size: int
    crates: list[Crate] = []


def test_pydantic_models_can_be_parameters_and_results() -> None:
    def pack(box: Box, others: list[Box] = []) -> Box:  # noqa: B006 (a default that a user may well write)
        """Pack."""
        return box

    tool = FunctionTool(pack, [Call])
    assert tool.parameters["$defs"]["Crate"]["properties"]["row"]["type"] == "integer"
    assert tool.parameters["properties"]["box"]["required"] == ["size"]
    jsonschema_rs.validator_for(tool.parameters)
    values = tool.arguments({"box": {"size": 1, "crates": [{"row": 3}]}}, None)
    assert values == {"box": Box(size=1, crates=[Crate(row=3)]), "others": []}
    assert as_tool_result(values["box"]) == ToolResult.text('{"size":1,"crates":[{"row":3}]}')
    with pytest.raises(ToolError, match=r"(?s)Invalid arguments for pack: .*size"):
        tool.arguments({"box": {}}, None)


def test_methods_and_callable_objects_can_be_tools() -> None:
    class Shop:
        async def sell(self, item: str) -> str:
            """Sell a thing."""
            return item

        async def __call__(self, item: str) -> str:
            """Ask the shop."""
            return item

    method = FunctionTool(Shop().sell, [Call])
    assert (method.name, method.is_async, list(method.parameters["properties"])) == ("sell", True, ["item"])
    instance = FunctionTool(Shop(), [Call], name="shop", description="Ask the shop.")
    assert (instance.is_async, list(instance.parameters["properties"])) == (True, ["item"])


def _generator(item: str) -> Iterator[str]:
    """Count."""
    yield item


def _unhinted(item) -> None:  # type: ignore[no-untyped-def]  # pyright: ignore
    """Find it."""


def _spread(*items: str) -> None:
    """Find them."""


def _named(**items: str) -> None:
    """Find them."""


def _positional(item: str, /) -> None:
    """Find it."""


def _unknown(item: Nowhere) -> None:  # noqa: F821  # pyright: ignore
    """Find it."""


def _odd(item: threading.Thread) -> None:
    """Find it."""


def _silent(item: str) -> None: ...


BAD: list[Any] = [
    (_generator, "A tool must return its result, and "),
    (_unhinted, "The parameter item of the tool _unhinted needs a type hint."),
    (_spread, r"The tool _spread cannot have the parameter \*items"),
    (_named, r"The tool _named cannot have the parameter \*\*items"),
    (_positional, "The tool _positional cannot have the parameter item"),
    (_unknown, "The type hints of the tool _unknown cannot be read: name 'Nowhere' is not defined"),
    (_odd, "The parameters of the tool _odd have no JSON Schema"),
    (_silent, "The tool _silent needs a description for the model"),
    (lambda: 1, "A tool needs a name of 1 to 64 letters.* has '<lambda>'"),
    (object, "A tool must be a function, not the class object"),
    (3, "A tool must be a function, not 3, which cannot be called"),
]


@pytest.mark.parametrize(("function", "problem"), BAD)
def test_functions_that_cannot_be_tools_are_refused_with_the_reason(function: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        FunctionTool(function, [Call])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("done", "done"),
        (None, ""),
        (Shelf(1), '{"row":1,"label":""}'),
        ([Book("A")], '[{"title":"A"}]'),
        ({1: Path("/a"), "b": {Colour.RED}}, '{"1":"/a","b":["red"]}'),
        ({"a": "\ud800"}, '{"a":"\ufffd"}'),
    ],
)
def test_a_returned_value_becomes_text_for_the_model(value: object, text: str) -> None:
    assert as_tool_result(value) == ToolResult([TextContent(text)])


def test_results_and_blocks_stay_as_they_are() -> None:
    image = ImageContent("aGk=", "image/png")
    assert as_tool_result(image) == ToolResult([image])
    assert as_tool_result([TextContent("a"), image]) == ToolResult([TextContent("a"), image])
    assert as_tool_result(ToolResult.text("a", {"n": 1})) == ToolResult.text("a", {"n": 1})


def test_a_value_that_is_not_json_is_an_error_for_the_model() -> None:
    with pytest.raises(ToolError, match="The tool returned something that cannot be sent to the model"):
        as_tool_result(threading.Lock())


def test_json_that_is_very_deep_or_large_is_text_for_the_model() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert "nested too deeply" in str(as_tool_result(deep).content)
    assert as_tool_result({"a": 10**400}).content == [TextContent(f'{{"a":{10**400}}}')]


def test_a_result_with_other_parts_is_left_to_the_loop() -> None:
    odd = ToolResult([3], failed="yes")  # pyright: ignore[reportArgumentType]
    assert as_tool_result(odd) is odd
