"""JSON Schemas of declared types. Each struct has one definition, under its name, and references to it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec import inspect as types

Schema: TypeAlias = dict[str, Any]
#: The types of fields that are declared as plain JSON, by class and name in Python, in the forms that `SchemaBuilder.of` takes.
Refinements: TypeAlias = Mapping[tuple[type, str], Any]
#: Unions that get a definition, by its name.
Unions: TypeAlias = Mapping[str, Any]

NULL: Schema = {"type": "null"}


class SchemaBuilder:
    """Builds schemas, and collects the definitions that they refer to.

    A host may send more than it receives: an optional field may be null, and a field with a default may be absent. A struct that
    goes both ways is described as a host may send it. So build the schemas of what hosts send first, then unset `accepting`.
    With `closed`, what a host receives has declared fields only, except for `open_ended` structs.
    """

    def __init__(
        self,
        refinements: Refinements | None = None,
        unions: Unions | None = None,
        *,
        closed: bool = False,
        open_ended: tuple[type[Struct], ...] = (),
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        self.accepting = True
        self._refinements = refinements or {}
        self._unions = {frozenset(get_args(union)): name for name, union in (unions or {}).items()}
        self._closed = closed
        self._open_ended = open_ended
        self._classes: dict[str, type] = {}

    def of(self, declared: Any) -> Schema:
        """The schema of a type. Also takes a tuple of structs (a union without tags), a list of one item, and a schema."""
        match declared:
            case dict():
                return cast("Schema", declared)
            case [item] if isinstance(declared, list):
                return {"type": "array", "items": self.of(item)}
            case tuple():
                return self._union([types.type_info(member) for member in cast("tuple[type[Struct], ...]", declared)])
            case _:
                return self._schema(types.type_info(declared))

    def body(self, declared: type[Struct], leave_out: Sequence[str] = ()) -> Schema:
        """The schema of a struct itself, rather than a reference to its definition."""
        info = types.type_info(declared)
        assert isinstance(info, types.StructType)
        notes = field_notes(declared)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        if info.tag_field is not None:
            properties[info.tag_field] = {"type": "string", "const": info.tag}
            required.append(info.tag_field)
        for field, given in zip(info.fields, msgspec.structs.fields(declared), strict=True):
            if field.name in leave_out:
                continue
            schema = self._field(declared, field)
            note = notes.get(field.name)
            properties[field.encode_name] = _add_description(schema, note) if note else schema
            if self._is_required(declared, field, given):
                required.append(field.encode_name)
        schema = self.object(properties, required, prose(declared))
        if issubclass(declared, self._open_ended):
            schema.pop("additionalProperties", None)
        return schema

    def object(self, properties: Mapping[str, Schema], required: Sequence[str], description: str = "") -> Schema:
        schema: Schema = {"description": description} if description else {}
        schema |= {"type": "object", "properties": dict(properties)}
        if required:
            schema["required"] = list(required)
        if self._closed and not self.accepting:
            schema["additionalProperties"] = False
        return schema

    def _field(self, declared: type[Struct], field: types.Field) -> Schema:
        refined = self._refinements.get((declared, field.name))
        if refined is not None:
            return self.of(refined)
        info = field.type
        if isinstance(info, types.UnionType) and field.default is None and not self.accepting and _omits_defaults(declared):
            members = [member for member in info.types if not isinstance(member, types.NoneType)]
            return self._union(members)
        return self._schema(info)

    def _is_required(self, declared: type[Struct], field: types.Field, given: msgspec.structs.FieldInfo) -> bool:
        if given.default is UNSET or UnsetType in get_args(given.type):
            return False
        return field.required or not (self.accepting or _omits_defaults(declared))

    def _schema(self, info: types.Type) -> Schema:
        match info:
            case types.Metadata(type=inner):
                return self._add_marks(inner, marks(info))
            case types.StructType(cls=declared):
                return self._struct(declared)
            case types.UnionType(types=members):
                return self._union(members)
            case types.ListType(item_type=item):
                return {"type": "array", "items": self._schema(item)}
            case types.DictType(value_type=types.AnyType()):
                return {"type": "object"}
            case types.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self._schema(value)}
            case types.LiteralType(values=values):
                return self._literal(values)
            case types.StrType(min_length=least, max_length=most):
                lengths = {"minLength": least, "maxLength": most}
                return {"type": "string", **{key: length for key, length in lengths.items() if length is not None}}
            case types.BoolType():
                return {"type": "boolean"}
            case types.IntType():
                return {"type": "integer"}
            case types.FloatType():
                return {"type": "number"}
            case types.NoneType():
                return NULL
            case types.AnyType() | types.RawType():
                return {}
            case _:
                raise TypeError(f"cannot make a schema of {info}")

    def _add_marks(self, info: types.Type, marks: Collection[str]) -> Schema:
        """The schema of a type with marks. Subclasses use the marks."""
        return self._schema(info)

    def _struct(self, declared: type[Struct]) -> Schema:
        name = declared.__name__
        if name not in self._classes:
            self._classes[name] = declared
            self.definitions[name] = {}  # a struct may refer to itself
            self.definitions[name] |= self.body(declared)
        if self._classes[name] is not declared:
            raise TypeError(f"{declared} and {self._classes[name]} have the same name")
        return reference(name)

    def _union(self, members: Sequence[types.Type]) -> Schema:
        name = self._unions.get(frozenset(member.cls for member in members if isinstance(member, types.StructType)))
        if name is None:
            return _any_of([self._schema(member) for member in members])
        structs = [member for member in members if isinstance(member, types.StructType)]
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] |= _any_of([self._schema(member) for member in structs])
        others = [self._schema(member) for member in members if member not in structs]
        return _any_of([reference(name), *others])

    def _literal(self, values: Sequence[Any]) -> Schema:
        return {"type": "string", "enum": list(values)}


def list_mentioned(schemas: Iterable[Schema], definitions: Mapping[str, Schema]) -> list[str]:
    """The names of all definitions that the schemas refer to, directly or through others."""
    found: set[str] = set()
    left: list[Any] = list(schemas)
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += cast("list[Any]", value)
        elif isinstance(value, dict):
            schema = cast("Schema", value)
            left += [part for key, part in schema.items() if key != "examples"]
            name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
            if name in definitions and name not in found:
                found.add(name)
                left.append(definitions[name])
    return sorted(found)


def marks(info: types.Type) -> frozenset[str]:
    """The names of the marks of a type: see `fairlead.protocol.opal.opal_objects`."""
    if not isinstance(info, types.Metadata):
        return frozenset()
    return frozenset(cast("dict[str, Any]", info.extra or {}))  # pyright: ignore[reportUnknownMemberType]


def _add_description(schema: Schema, note: str) -> Schema:
    return {"description": note, **{key: value for key, value in schema.items() if key != "description"}}


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _omits_defaults(declared: type[Struct]) -> bool:
    return declared.__struct_config__.omit_defaults


def prose(declared: type) -> str:
    """The docstring of a class, with one line per paragraph."""
    # A struct without a docstring would inherit the one of its base.
    text = inspect.cleandoc(declared.__dict__.get("__doc__") or "")
    return _of_json(re.sub(r"(?<!\n)\n(?!\n)", " ", text))


def field_notes(declared: type) -> dict[str, str]:
    """The comments above the fields of a class and its bases, by the names of the fields in Python."""
    notes: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        if base.__module__.startswith("fairlead."):
            for comment, name in re.findall(r"((?: *#: .*\n)+) *(\w+):", _sources(base.__module__)[base.__name__]):
                notes[name] = _of_json(" ".join(line.strip().removeprefix("#: ") for line in comment.splitlines()))
    return notes


@cache
def _sources(module: str) -> dict[str, str]:
    """The source of each class of a module. `inspect` would read the whole module again for each class."""
    text = inspect.getsource(sys.modules[module])
    lines = text.splitlines(keepends=True)
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {node.name: "".join(lines[node.lineno - 1 : node.end_lineno]) for node in classes}


def _of_json(text: str) -> str:
    """Replace names of Python values with those of JSON."""
    return re.sub(r"\bNone\b", "null", text)
