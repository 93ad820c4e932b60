"""Answers as values: asks the model for JSON of a given type, finds it in the answer, and checks it.

See docs/decisions/023-output-types.md for why the model is asked in words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecoder
from typing import Any, cast, get_args

import jsonschema_rs
import msgspec

from fairlead.core.calls.arguments import fit_arguments, problems
from fairlead.errors import BadOption

#: How many characters of a problem the model is told.
_LONGEST_PROBLEM = 2000
#: How many braces and brackets that start no JSON are tried in one answer.
_MOST_TRIES = 200
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_KINDS = (
    "a dataclass, a msgspec Struct, a Pydantic model, a TypedDict, another type that JSON can hold, or a JSON Schema as a dict"
)


class NotReadable(Exception):
    """An answer has no value of the type. The text tells the model why."""


class OutputType:
    """Turns answers into values of one type.

    Attributes:
        schema: The JSON Schema of the type.
    """

    def __init__(self, wanted: Any) -> None:
        """Read a type. Raises BadOption if answers cannot have it."""
        self.schema: dict[str, Any]
        self._decode: Callable[[str], Any]
        if isinstance(wanted, Mapping):
            self.schema, self._decode = _from_schema(cast("Mapping[str, Any]", wanted))
        elif _is_pydantic(wanted):
            self.schema, self._decode = _from_pydantic(wanted)
        else:
            self.schema, self._decode = _from_type(wanted)

    def instructions(self) -> str:
        """Return what the model is told after the prompt."""
        return (
            "Use your tools first if you need them. When you are done, reply with one JSON value and nothing else: no other"
            f" text before or after it, and no code fence. It must match this JSON Schema:\n\n{self._format_schema()}"
        )

    def correction(self, problem: str) -> str:
        """Return what the model is told after an answer that cannot be used."""
        return (
            f"That answer cannot be used. {problem}\n\nReply with the corrected JSON value and nothing else."
            f" It must match this JSON Schema:\n\n{self._format_schema()}"
        )

    def read(self, text: str) -> Any:
        """Return the value in an answer. If there are several, the last that fits counts. Raises NotReadable."""
        problem = "It contains no JSON value."
        for number, candidate in enumerate(self._candidates(text)):
            try:
                return self._decode(candidate)
            except Exception as error:  # each library has its own errors, and the caller's types can raise any
                if not number:
                    problem = f"Its JSON does not match the schema: {_explain(error)}"
        raise NotReadable(problem)

    def _format_schema(self) -> str:
        return msgspec.json.encode(self.schema).decode()

    def _candidates(self, text: str) -> Iterator[str]:
        """The JSON values in a text, the likeliest first: the whole text, blocks of code, values between other text."""
        whole = text.strip()
        blocks = [match[1].strip() for match in _FENCE.finditer(text)]
        for part in (whole, *reversed(blocks)):
            if _is_json(part):
                yield part
        yield from reversed(_values_in(text))
        if self._is_text:  # a single word, without quotes
            yield msgspec.json.encode(whole).decode()

    @property
    def _is_text(self) -> bool:
        """Whether the type itself, not a part of it, is a string or one of several names."""
        name = str(self.schema.get("$ref", "")).removeprefix("#/$defs/")
        schema = self.schema.get("$defs", {}).get(name, self.schema)
        return schema.get("type") == "string" or "enum" in schema


def _from_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str], Any]]:
    def refuse(uri: str) -> Any:
        raise ValueError(f"references outside the schema are not followed: {uri}")

    copy = dict(schema)
    try:
        validator = jsonschema_rs.validator_for(copy, retriever=refuse)
    except Exception as error:  # the library raises several kinds, which all mean the same here
        raise BadOption(f"output_type: expected a valid JSON Schema, found one that is not: {error}") from error

    def decode(text: str) -> Any:
        value: Any = msgspec.json.decode(text)
        if validator.is_valid(value):
            return value
        if isinstance(value, dict) and validator.is_valid(fitting := fit_arguments(copy, cast("dict[str, Any]", value))):
            return fitting
        raise ValueError("; ".join(problems(validator, copy, cast("Any", value))))

    return copy, decode


def _is_pydantic(wanted: Any) -> bool:
    """Whether a type is a Pydantic model, or has one inside, as a list of models does."""
    return hasattr(wanted, "__pydantic_validator__") or any(map(_is_pydantic, get_args(wanted)))


def _from_pydantic(model: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    """Read a Pydantic type. Its module is loaded already, or the type would not exist."""
    adapter = sys.modules["pydantic"].TypeAdapter(model)
    return adapter.json_schema(), adapter.validate_json


def _from_type(wanted: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    try:
        schema = msgspec.json.schema(wanted)
        strict, lax = msgspec.json.Decoder(wanted), msgspec.json.Decoder(wanted, strict=False)
    except (TypeError, NameError, RecursionError) as error:
        raise BadOption(f"output_type: expected {_KINDS}, found {wanted!r}: {error}") from error

    def decode(text: str) -> Any:
        try:
            return strict.decode(text)
        except msgspec.ValidationError as error:
            try:
                return lax.decode(text)  # models often write a number as a string
            except msgspec.ValidationError:
                raise error from None

    return schema, decode


def _explain(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if callable(errors):  # Pydantic's: its text has addresses and repeats the input
        found = cast("list[dict[str, Any]]", errors())
        text = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in found)
    else:
        text = str(error)
    text = text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"
    return text if text.endswith(".") else f"{text}."


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _values_in(text: str) -> list[str]:
    """The objects and lists in a text, in its order."""
    decoder, found, at, tries = JSONDecoder(), list[str](), 0, 0
    while tries < _MOST_TRIES and (match := re.compile(r"[{\[]").search(text, at)):
        try:
            _, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at, tries = match.start() + 1, tries + 1
        else:
            found.append(text[match.start() : end])
            at = end
    return found
