"""Functions as tools: the JSON Schema of their parameters, and calls with JSON arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import msgspec

from fairlead.core.tool import ToolResult
from fairlead.errors import ToolError


class FunctionTool:
    """A function that the model can call.

    The name and the description come from the function and its docstring. The type hints of the parameters make the schema;
    `Annotated[str, "text"]` describes a parameter, and so does a line `name: text` under `Args:` in the docstring. A parameter
    whose type is `context` is not part of the schema: it gets the context of the call.
    """

    def __init__(
        self, function: Callable[..., Any], context: type, *, name: str | None = None, description: str | None = None
    ) -> None:
        """Read the function. Raises TypeError if its parameters have no schema."""
        self.function = function
        self.name = name or str(getattr(function, "__name__", ""))
        text = inspect.getdoc(function) or ""
        self.description = description or _summary(text)
        if not self.name.isidentifier() or self.name == "<lambda>":
            raise TypeError(f"A tool needs a name, and {function!r} has none. Pass `name`.")
        if not self.description:
            raise TypeError(f"The tool {self.name} needs a description for the model: write a docstring, or pass `description`.")
        self.is_async = inspect.iscoroutinefunction(function)
        self.context_parameter: str | None = None
        self._arguments = self._struct(_parameters(function), _documented(text), context)
        self.parameters = self._schema()

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Convert JSON arguments to the values that the function takes. Raises ToolError if they do not match."""
        try:
            converted = msgspec.convert(given, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f"Invalid arguments for {self.name}: {error}") from None
        return {name: getattr(converted, name) for name in self._arguments.__struct_fields__}

    def _struct(self, parameters: list[tuple[str, Any, Any]], documented: dict[str, str], context: type) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for name, kind, default in parameters:
            if kind is context or context in get_args(kind):
                self.context_parameter = name
                continue
            if isinstance(default, list | dict | set):
                default = msgspec.field(default_factory=cast("Any", default).copy)
            described = _described(kind, documented.get(name))
            fields.append((name, described) if default is inspect.Parameter.empty else (name, described, default))
        return msgspec.defstruct(self.name, fields, kw_only=True, module=__name__)

    def _schema(self) -> dict[str, Any]:
        try:
            schema = msgspec.json.schema(self._arguments)
        except TypeError as error:
            raise TypeError(f"The parameters of the tool {self.name} have no JSON Schema: {error}") from error
        others: dict[str, Any] = schema["$defs"]
        whole = others.pop(schema["$ref"].rpartition("/")[2])
        whole.pop("title", None)
        return {**whole, "$defs": others} if others else whole


def as_tool_result(value: Any) -> ToolResult:
    """Make a result for the model: a text as it is, None as an empty text, a `ToolResult` as it is, all else as JSON."""
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult.text("")
    if isinstance(value, str):
        return ToolResult.text(value)
    return ToolResult.text(msgspec.json.encode(value).decode())


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """The name, type and default of each parameter."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"The type hints of {function!r} cannot be read: {error}. Define the types at module level.") from error
    found: list[tuple[str, Any, Any]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"The parameter {parameter} of a tool must be one that can be passed by name.")
        found.append((name, hints.get(name, Any), parameter.default))
    return found


def _described(kind: Any, documented: str | None) -> Any:
    """The type with its description in the form that msgspec knows."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        texts = [note for note in notes if isinstance(note, str)]
        rest = [note for note in notes if isinstance(note, msgspec.Meta)]
        for note in rest:
            inner = Annotated[inner, note]
        return Annotated[inner, msgspec.Meta(description=texts[0])] if texts else _described(inner, documented)
    return Annotated[kind, msgspec.Meta(description=documented)] if documented else kind


def _summary(text: str) -> str:
    """The docstring up to its sections."""
    return re.split(r"\n\s*(?:Args|Arguments|Parameters|Returns|Raises|Yields):", text)[0].strip()


def _documented(text: str) -> dict[str, str]:
    """The descriptions of parameters under `Args:`."""
    section = re.search(r"^(?:Args|Arguments|Parameters):\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    if section is None:
        return {}
    found = re.findall(r"^[ \t]+(\w+)(?: \([^)]*\))?: (.+(?:\n[ \t]{6,}.+)*)", section[1], re.MULTILINE)
    return {name: " ".join(description.split()) for name, description in found}
