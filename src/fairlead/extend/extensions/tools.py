"""Makes a tool from a Python function: its parameters from the type hints, its description from the docstring."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError


class ToolDraft(Struct, frozen=True):
    """What an extension passed to `register_tool`."""

    function: Callable[..., Any]
    name: str
    description: str
    label: str = ""
    #: A JSON Schema for the arguments. If it is None, one is made from the function's type hints.
    parameters: dict[str, Any] | None = None
    snippet: str = ""
    guidelines: tuple[str, ...] = ()
    exclusive: bool = False
    timeout: float | None = None


#: Calls a function of an extension with a context, and returns its result.
Invoke = Callable[[Callable[[Any], Any], ToolContext], Awaitable[Any]]


def make_tool(draft: ToolDraft, context_types: tuple[type[Any], ...], invoke: Invoke) -> Tool:
    """Make a tool from a draft. Raises ConfigError if that is not possible.

    A parameter whose type is one of `context_types` gets the context of the call. The model does not see it.
    """
    hints = _hints(draft)
    signature = inspect.signature(draft.function)
    contexts = [name for name, hint in hints.items() if name != "return" and hint in context_types]
    given = [parameter for name, parameter in signature.parameters.items() if name not in contexts]
    if draft.parameters is None:
        arguments_type = _arguments_type(draft, given, hints)
        parameters = _schema(draft, arguments_type)
    else:
        arguments_type, parameters = None, draft.parameters
        if len(given) != 1:
            raise ConfigError(f"The tool {draft.name} has its own schema, so its function must take one dict with the arguments.")

    def bound(arguments: dict[str, Any], context: Any) -> Any:
        extra = dict.fromkeys(contexts, context)
        if arguments_type is None:
            return draft.function(arguments, **extra)
        return draft.function(**_converted(draft, arguments, arguments_type), **extra)

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return as_result(await invoke(lambda mine: bound(arguments, mine), context))

    tool = Tool(
        name=draft.name,
        description=draft.description,
        parameters=parameters,
        run=run,
        label=draft.label,
        snippet=draft.snippet,
        guidelines=draft.guidelines,
        exclusive=draft.exclusive,
        timeout=draft.timeout,
    )
    try:
        tool.check_schema()
    except ToolError as error:
        raise ConfigError(f"The tool {draft.name}: {error}") from None
    return tool


def as_result(value: Any) -> ToolResult:
    """Convert what a function returned to the result of a tool. Text and blocks stay, everything else becomes JSON.

    Raises ToolError if it cannot be converted.
    """
    from fairlead.extend.extensions.values import converted

    try:
        if isinstance(value, ToolResult):
            return converted(ToolResult, value, "ToolResult")
        if isinstance(value, TextContent | ImageContent):
            return converted(ToolResult, ToolResult([value]), type(value).__name__)
        if _are_blocks(value):
            return converted(ToolResult, ToolResult(value), "blocks")
        if value is None or isinstance(value, str):
            return ToolResult.text(value or "")
        return ToolResult.text(msgspec.json.encode(converted(Any, value, type(value).__name__)).decode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"The tool returned something that cannot be sent to the model: {error}") from None


def _are_blocks(value: Any) -> bool:
    return bool(value) and isinstance(value, list) and all(isinstance(each, TextContent | ImageContent) for each in value)  # pyright: ignore[reportUnknownVariableType]


def _hints(draft: ToolDraft) -> dict[str, Any]:
    try:
        return get_type_hints(draft.function, include_extras=True)
    except Exception as error:  # a name in a hint cannot be resolved, for one of many reasons
        raise ConfigError(f"The type hints of the tool {draft.name} cannot be read: {error}") from error


def _arguments_type(draft: ToolDraft, given: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[Struct]:
    fields: list[Any] = []
    for parameter in given:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigError(f"The tool {draft.name}: its function can have named parameters only, not {parameter}.")
        if parameter.name not in hints:
            raise ConfigError(f"The tool {draft.name}: its parameter {parameter.name} needs a type hint.")
        field = (parameter.name, hints[parameter.name])
        fields.append(field if parameter.default is parameter.empty else (*field, msgspec.field(default=parameter.default)))
    try:
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The tool {draft.name}: {error}") from error


def _schema(draft: ToolDraft, arguments_type: type[Struct]) -> dict[str, Any]:
    try:
        (_, definitions) = msgspec.json.schema_components([arguments_type], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise ConfigError(f"The tool {draft.name}: a parameter has a type that JSON has no schema for: {error}") from error
    schema = {key: value for key, value in definitions.pop("Arguments").items() if key != "title"}
    return {**schema, "$defs": definitions} if definitions else schema


def _converted(draft: ToolDraft, arguments: dict[str, Any], arguments_type: type[Struct]) -> dict[str, Any]:
    try:
        values = msgspec.convert(arguments, arguments_type)
    except msgspec.ValidationError as error:
        raise ToolError(f'Validation failed for tool "{draft.name}": {error}') from None
    return {name: getattr(values, name) for name in values.__struct_fields__}
