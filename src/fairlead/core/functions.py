"""Functions as tools: their name and description, the JSON Schema of their parameters, and calls with JSON arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from fairlead.core.lenient import json_data, scrub
from fairlead.core.messages import ImageContent, TextContent, UserBlock
from fairlead.core.tool import ToolResult
from fairlead.errors import ToolError

#: The names that every provider accepts.
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_ARGUMENTS = "Arguments"
_SECTIONS = "Args|Arguments|Parameters|Params|Returns?|Raises|Yields?|Examples?|Notes?|Attributes|See Also"
#: Where the sections of a docstring begin: `Args:` (Google), `Parameters` with a line below (NumPy), `:param x:` (reST).
_FIRST_SECTION = re.compile(rf"^(?:(?:{_SECTIONS}):[ \t]*$|(?:{_SECTIONS})[ \t]*\n-{{3,}}|:\w+[^:\n]*:)", re.MULTILINE)
_GOOGLE_SECTION = re.compile(r"^(?:Args|Arguments|Parameters|Params):[ \t]*\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
_GOOGLE_PARAMETER = re.compile(r"^(\w+)(?: *\([^)]*\))?:[ \t]*(.*(?:\n[ \t]+.+)*)", re.MULTILINE)
_NUMPY_SECTION = re.compile(r"^Parameters[ \t]*\n-{3,}[ \t]*\n((?:(?!.+\n-{3,}).*\n?)*)", re.MULTILINE)
_NUMPY_PARAMETER = re.compile(r"^(\w+)(?:[ \t]*:.*)?\n((?:[ \t]+.+\n?)+)", re.MULTILINE)
_REST_PARAMETER = re.compile(r"^:param(?: [^:\n]*?)? (\w+):[ \t]*(.*(?:\n[ \t]+.+)*)", re.MULTILINE)


class FunctionTool:
    """A function that the model can call.

    The name and the description come from the function and its docstring. The type hints of the parameters make the schema.
    `Annotated[str, "text"]` describes a parameter, and so does the docstring, in the style of Google, NumPy or reST. A parameter
    whose type is one of `contexts` is not part of the schema: it gets the context of the call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        contexts: Sequence[type],
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        """Read the function. Raises TypeError if it cannot be a tool."""
        if isinstance(function, type) or not callable(function):
            raise TypeError(f"A tool must be a function, not {_format_callable(function)}.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"A tool must return its result, and {_format_callable(function)} yields. ToolContext reports progress."
            )
        self.function = function
        self.name = str(getattr(function, "__name__", "")) if name is None else name
        if TOOL_NAME.fullmatch(self.name) is None:
            raise TypeError(
                f"A tool needs a name of 1 to 64 letters, digits, _ and -, and {_format_callable(function)} has "
                f"{repr(self.name) if self.name else 'none'}. Pass `name`."
            )
        self.description = description or summary(function)
        if not self.description:
            raise TypeError(f"The tool {self.name} needs a description for the model: write a docstring, or pass `description`.")
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 (an object may have an async __call__)
        )
        #: The parameters that get the context of the call.
        self.context_parameters: list[str] = []
        self._arguments = self._struct(self._parameters(), _read_descriptions(inspect.getdoc(function) or ""), tuple(contexts))
        self.parameters = self._schema()

    def arguments(self, given: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return the keyword arguments of one call: what the model gave, as the declared types, and the context.

        Raises ToolError with a text for the model if `given` does not match the type hints.
        """
        try:
            converted = msgspec.convert(given, self._arguments, dec_hook=_decode)
        except msgspec.ValidationError as error:
            raise ToolError(f"Invalid arguments for {self.name}: {error}") from None
        values = {name: getattr(converted, name) for name in self._arguments.__struct_fields__}
        return values | dict.fromkeys(self.context_parameters, context)

    def _parameters(self) -> list[tuple[inspect.Parameter, Any]]:
        """Return each parameter with its type."""
        try:
            signature = inspect.signature(self.function)
            hints = get_type_hints(_find_annotated(self.function), include_extras=True)
        except Exception as error:  # evaluating a hint can raise anything
            raise TypeError(
                f"The type hints of the tool {self.name} cannot be read: {error}. Define the types at module level."
            ) from error
        found: list[tuple[inspect.Parameter, Any]] = []
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(
                    f"The tool {self.name} cannot have the parameter {parameter}: arguments are passed by name, each to its own."
                )
            if parameter.name not in hints:
                raise TypeError(f"The parameter {parameter.name} of the tool {self.name} needs a type hint.")
            found.append((parameter, hints[parameter.name]))
        return found

    def _struct(
        self, parameters: list[tuple[inspect.Parameter, Any]], documented: dict[str, str], contexts: tuple[type, ...]
    ) -> type[Struct]:
        fields: list[Any] = []
        for parameter, kind in parameters:
            if kind in contexts or any(each in contexts for each in get_args(kind)):
                self.context_parameters.append(parameter.name)
                continue
            field = (parameter.name, _add_description(kind, documented.get(parameter.name)))
            fields.append(field if parameter.default is parameter.empty else (*field, _default(parameter.default)))
        try:
            return msgspec.defstruct(_ARGUMENTS, fields, kw_only=True, forbid_unknown_fields=True, module=__name__)
        except (TypeError, ValueError) as error:
            raise TypeError(f"The parameters of the tool {self.name} cannot be used: {error}") from error

    def _schema(self) -> dict[str, Any]:
        nested: dict[str, Any] = {}

        def schema_of(kind: type) -> dict[str, Any]:
            schema = _schema_of(kind)
            nested.update(schema.pop("$defs", {}))
            return schema

        try:
            _, definitions = msgspec.json.schema_components(
                [self._arguments], schema_hook=schema_of, ref_template="#/$defs/{name}"
            )
            with suppress(msgspec.ValidationError):  # a required argument is missing
                msgspec.convert({}, self._arguments, dec_hook=_decode)  # some types fail only when they are used
        except TypeError as error:
            raise TypeError(f"The parameters of the tool {self.name} have no JSON Schema: {error}") from error
        whole = {key: value for key, value in definitions.pop(_ARGUMENTS).items() if key != "title"}
        definitions = {**nested, **definitions}
        return {**whole, "$defs": definitions} if definitions else whole


def summary(function: Any) -> str:
    """Return the docstring of a function up to its sections, or an empty string."""
    text = inspect.getdoc(function) or ""
    section = _FIRST_SECTION.search(text)
    return (text if section is None else text[: section.start()]).strip()


def as_tool_result(value: Any) -> ToolResult:
    """Return a result for the model. Text and content blocks stay as they are, None becomes an empty text, all else JSON.

    Raises ToolError if the value cannot be written as JSON.
    """
    try:
        if value is None or isinstance(value, str):
            return ToolResult.text(value or "")
        if isinstance(value, TextContent | ImageContent):
            value = ToolResult([value])
        elif _are_blocks(value):
            value = ToolResult(list(cast("list[UserBlock]", value)))
        if type(value) is ToolResult:  # its parts may have any type, because the function is not ours
            try:
                plain = scrub(msgspec.to_builtins(replace(value, details=None), str_keys=True, enc_hook=_encode))
                return replace(msgspec.convert(plain, ToolResult), details=_details(value.details))
            except (TypeError, ValueError, OverflowError, RecursionError):
                return value  # the loop turns it into text, and leaves out what has the wrong type
        if isinstance(value, ToolResult):
            return value
        try:
            plain = scrub(msgspec.to_builtins(value, str_keys=True, enc_hook=_encode))
            return ToolResult.text(msgspec.json.encode(plain).decode())
        except (OverflowError, RecursionError):  # it is JSON, but too deep or too large to be sent as it is
            return ToolResult.text(msgspec.json.encode(json_data(value)).decode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"The tool returned something that cannot be sent to the model: {error}") from None


def _details(value: Any) -> Any:
    try:
        return scrub(msgspec.to_builtins(value, str_keys=True, enc_hook=_encode))
    except Exception:  # the details are for the host alone: the model gets the result without them
        return json_data(value)


def _are_blocks(value: Any) -> bool:
    blocks = cast("list[Any]", value) if isinstance(value, list) else []
    return bool(blocks) and all(isinstance(each, TextContent | ImageContent) for each in blocks)


def _find_annotated(function: Any) -> Any:
    """Return what carries the annotations of a callable: the function itself, or the method of an object."""
    inner = inspect.unwrap(function)
    return inner if inspect.isroutine(inner) else type(inner).__call__


def _default(value: Any) -> Any:
    """Return a default in the form that msgspec knows. One that JSON does not know is missing from the schema."""
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=cast("Any", value).copy)
    try:
        msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError):
        return msgspec.field(default_factory=lambda: value)
    return value


# Types that msgspec does not know


def _schema_of(kind: Any) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    if hasattr(kind, "model_json_schema"):  # a Pydantic model
        return kind.model_json_schema()
    raise NotImplementedError  # tells msgspec that there is no schema for it


def _decode(kind: Any, value: Any) -> Any:
    if issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
        return kind(value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind.__name__} cannot be made from JSON")


def _encode(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(value, "model_dump", None)  # a Pydantic model
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


# Descriptions


def _add_description(kind: Any, documented: str | None) -> Any:
    """Return the type with its description in the form that msgspec knows."""
    metas: list[Meta] = []
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        documented = next((note for note in notes if isinstance(note, str)), documented)
        metas = [note for note in notes if isinstance(note, Meta)]
    if documented and not any(meta.description for meta in metas):
        metas.append(Meta(description=documented))
    for meta in metas:
        kind = Annotated[kind, meta]
    return kind


def _read_descriptions(text: str) -> dict[str, str]:
    """Return the descriptions of parameters in a docstring."""
    found: list[tuple[str, str]] = _REST_PARAMETER.findall(text)
    if google := _GOOGLE_SECTION.search(text):
        found += _GOOGLE_PARAMETER.findall(inspect.cleandoc(f"\n{google[1]}"))
    if numpy := _NUMPY_SECTION.search(text):
        found += _NUMPY_PARAMETER.findall(numpy[1])
    return {name: " ".join(described.split()) for name, described in found if described.strip()}


def _format_callable(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value) if callable(value) else f"{value!r}, which cannot be called"
