"""What the adapters share to build a request.

Requests of one conversation repeat its messages. `EncodedMessages` and `PrefixCache` keep the results of earlier work, so that
each request only encodes what is new. `provider_level` gives a thinking level the provider's name.

Some providers keep the arguments of a call to its schema while the model writes it ("strict" tools). Such a schema names every
property of an object as required and allows no others. So a property that may be left out becomes one that may be null.
`core.calls.arguments` removes the nulls again before the tool runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from fairlead.core import lenient
from fairlead.core.messages import ImageContent, ModelMessage, ToolResultMessage
from fairlead.core.model import THINKING_LEVELS, Model, ThinkingLevel, ToolSpec
from fairlead.errors import ProviderError

#: Says whether an API refuses a keyword with this value in a strict schema.
Refuses: TypeAlias = Callable[[str, Any], bool]

#: Keywords that no API takes in a strict schema, and those that Anthropic does not take.
_UNSUPPORTED = frozenset(
    {
        *("$ref", "$defs", "definitions", "allOf", "oneOf", "not", "if", "then", "else", "contains", "prefixItems"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "dependentSchemas", "dependencies"),
    }
)
_UNSUPPORTED_BY_ANTHROPIC = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "uniqueItems"),
        *("minContains", "maxContains", "minProperties", "maxProperties"),
    }
)
_FORMATS_OF_ANTHROPIC = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


class NotStrict(Exception):
    """A schema has no strict form. The message is the reason."""


def strict_parameters(tool: ToolSpec, api: str, *, supported: bool) -> dict[str, Any] | None:
    """Return the strict schema for the arguments of a tool. None: send the tool as it is, and not as strict.

    Raises ProviderError if the tool requires what the server or a strict schema does not support.
    """
    try:
        if not supported:
            raise NotStrict("the model's server is not known to support strict tools")
        return strict_schema(tool.parameters, _refused_by_anthropic if api == "anthropic-messages" else _refused_by_none)
    except NotStrict as error:
        if tool.strict == "prefer":
            return None
        raise ProviderError(f"The tool {tool.name} requires a provider that enforces its schema, but {error}.") from None


def strict_schema(schema: dict[str, Any], refuses: Refuses) -> dict[str, Any]:
    """Return the strict form of a schema for an object. Raises NotStrict if it has none."""
    if schema.get("type") != "object":
        raise NotStrict("its schema is not for an object")
    return _strict(schema, refuses)


def _refused_by_none(key: str, value: Any) -> bool:
    return False


def _refused_by_anthropic(key: str, value: Any) -> bool:
    if key == "minItems":
        return value not in (0, 1)
    if key == "format":
        return value not in _FORMATS_OF_ANTHROPIC
    return key in _UNSUPPORTED_BY_ANTHROPIC


def _strict(schema: Any, refuses: Refuses) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise NotStrict("its schema contains a part that is not an object")
    schema = dict(cast("dict[str, Any]", schema))
    for key, value in schema.items():
        if key in _UNSUPPORTED or refuses(key, value):
            raise NotStrict(f"its schema uses {key}")
    if "anyOf" in schema:
        schema["anyOf"] = list(_variants(schema["anyOf"], refuses))
    if "items" in schema:
        schema["items"] = _strict(schema["items"], refuses)
    if schema.get("type") == "object":
        return _close_schema(schema, refuses)
    if "properties" in schema:
        raise NotStrict("its schema has properties without the type object")
    return schema


def _variants(variants: Any, refuses: Refuses) -> Iterable[dict[str, Any]]:
    if not isinstance(variants, list) or not variants:
        raise NotStrict("its schema has an anyOf without variants")
    for variant in cast("list[Any]", variants):
        strict = _strict(variant, refuses)
        if {"properties", "items"} & strict.keys() or any(each in ("object", "array") for each in _types(strict)):
            raise NotStrict("its schema has a choice between objects or arrays")
        yield strict


def _close_schema(schema: dict[str, Any], refuses: Refuses) -> dict[str, Any]:
    """Return the schema of an object without optional and further properties."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise NotStrict("its schema has properties of the wrong form")
    if schema.get("additionalProperties", False) is not False:
        raise NotStrict("its schema allows additional properties")
    if any(name not in properties for name in cast("list[Any]", required)):
        raise NotStrict("its schema requires a property that it does not describe")
    strict = {name: _strict(each, refuses) for name, each in cast("dict[str, Any]", properties).items()}
    for name, each in strict.items():
        if name not in required and not _allows_null(each):
            strict[name] = {"anyOf": [each, {"type": "null"}]}
    return {**schema, "properties": strict, "required": list(strict), "additionalProperties": False}


def _types(schema: dict[str, Any]) -> list[Any]:
    types = schema.get("type")
    return cast("list[Any]", types) if isinstance(types, list) else [types]


def _allows_null(schema: dict[str, Any]) -> bool:
    if "null" in _types(schema) or schema.get("const", 0) is None or None in schema.get("enum", ()):
        return True
    return any(map(_allows_null, schema.get("anyOf", ())))


T = TypeVar("T")
M = TypeVar("M", bound=ModelMessage)

_encoder = msgspec.json.Encoder()


class EncodedMessages(Generic[M]):
    """Remembers how messages were encoded, for as long as they appear in requests."""

    def __init__(self) -> None:
        # Holding the messages keeps another object from getting the same id.
        self._messages: list[M] = []
        self._parts: list[bytes] = []

    def parts(self, messages: Sequence[M], encode: Callable[[M], bytes]) -> list[bytes]:
        """Return the encoding of each message. Calls `encode` for messages that the last call did not have."""
        same = min(len(messages), len(self._messages))
        known: dict[int, bytes] = {}
        if messages[:same] != self._messages[:same]:  # messages were removed or reordered
            known = {id(message): part for message, part in zip(self._messages, self._parts, strict=True)}
            same = 0
        parts = self._parts[:same]
        parts += [known.get(id(message)) or encode(message) for message in messages[same:]]
        self._messages, self._parts = list(messages), list(parts)
        return parts


def encode_json(value: Any) -> bytes:
    """Encode plain data or structs as JSON. Lone surrogates, which UTF-8 cannot express, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(lenient.scrub(msgspec.to_builtins(value)))


def build_parameters(tool: ToolSpec, api: str, *, supports_strict: bool) -> tuple[dict[str, Any], bool]:
    """Return the schema to send for the arguments of a tool, and whether the provider is to enforce it.

    Raises ProviderError if the tool requires that and the provider cannot.
    """
    if tool.strict is None:
        return tool.parameters, False
    strict = strict_parameters(tool, api, supported=supports_strict)
    return (tool.parameters, False) if strict is None else (strict, True)


class PrefixCache(Generic[T]):
    """Remembers what the first messages of a conversation became, so that the next request only adds what is new.

    Messages are compared by identity, which takes a few nanoseconds each. After a compaction, or a move to another branch,
    the cache starts again.
    """

    __slots__ = ("_made", "_messages")

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._made: list[T] = []

    def resume(self, messages: Sequence[ModelMessage]) -> tuple[int, list[T]]:
        """Return how many of the messages the cache covers, and what they became, in a list that the caller may change."""
        count = len(self._messages)
        if messages[:count] == self._messages:
            return count, list(self._made)
        return 0, []

    def keep(self, messages: Sequence[ModelMessage], made: list[T]) -> None:
        """Remember that `messages` became `made`."""
        self._messages, self._made = list(messages), made


def results_with_images(messages: Iterable[ModelMessage]) -> list[ToolResultMessage]:
    """Return the tool results that have images. Most APIs want images after the result and not in it."""
    return [
        message
        for message in messages
        if isinstance(message, ToolResultMessage) and any(isinstance(block, ImageContent) for block in message.content)
    ]


#: The first GPT-5 generation: the only models that accept "minimal" and think by default.
_FIRST_GPT_5 = frozenset({"gpt-5", "gpt-5-mini", "gpt-5-nano"})

_EFFORTS: Mapping[str, str | None] = {
    "off": None,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def provider_level(model: Model, level: ThinkingLevel, names: Mapping[str, str | None]) -> str | None:
    """Return the provider's name for a thinking level.

    Args:
        model: the model, whose `thinking_level_map` wins over `names`.
        level: the level that the user wants. If the model lacks it, the nearest lower level is used, else the nearest higher.
        names: the provider's name for each level.

    Returns:
        The name; None to send nothing, so that the provider's default applies.
    """
    called = {**names, **(model.thinking_level_map or {})}
    if level == "off":
        return called.get("off")
    at = THINKING_LEVELS.index(level)
    nearest = (*reversed(THINKING_LEVELS[1 : at + 1]), *THINKING_LEVELS[at + 1 :])
    return next((name for candidate in nearest if (name := called.get(candidate)) is not None), None)


def openai_efforts(model: Model) -> Mapping[str, str | None]:
    """Return OpenAI's reasoning effort for each thinking level: only efforts that every such model accepts.

    Most models refuse "minimal", "xhigh" and "none"; a model's `thinking_level_map` can allow them.
    """
    undated = model.id.rpartition("/")[2].partition("-20")[0]
    if undated in _FIRST_GPT_5:
        return {**_EFFORTS, "off": "minimal", "minimal": "minimal"}
    return _EFFORTS
