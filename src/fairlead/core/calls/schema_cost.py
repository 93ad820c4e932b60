"""Counts how much work a JSON Schema can cause, without doing it.

Schemas come from hosts, MCP servers and extensions. A few lines of definitions that refer to others twice expand to billions of
checks. The validator would do them all, which takes minutes and blocks the interpreter. So the expansion is counted first: each
part of the schema once, and a reference as what it refers to.

A schema that refers to itself is common (trees) and counts as one pass: the number of passes depends on the arguments. Deciding
whether arguments match is fast even then. Listing what is wrong with them is not: the number of errors can double with each level
of nesting, and each error copies a part of the arguments. `can_explain` counts those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote, urldefrag, urljoin

from fairlead.errors import ToolError

#: The most checks that a schema may expand to. Large schemas of real servers have a few thousand.
MOST_CHECKS = 20_000
#: The most parts to visit while counting.
MOST_VISITS = 200_000
#: The most objects and lists in a schema, and their deepest nesting.
MOST_PARTS = 50_000
DEEPEST = 150
#: The most references in a chain.
LONGEST_CHAIN = 150

#: The most work for listing what is wrong with arguments: the number of errors times the size of what each one quotes.
MOST_WORK = 50_000_000
#: What each value in the arguments counts for, in addition to its characters.
_VALUE = 50
#: The most steps of one pattern with lookaround or a back-reference on one string, and the checks that it counts for.
MOST_BACKTRACKING = 100_000
_BACKTRACKING_CHECKS = 100
_BACKTRACKS = r"\(\?(?:[=!>(]|<[=!]|P[=>])|\\[1-9kgK]|[*+?}]\+"

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
#: Keywords that hold values, not schemas.
_PLAIN = frozenset({"enum", "const", "default", "examples", "required", "description", "title"})
#: Keywords that hold schemas by name. The names may equal those of keywords.
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
#: Keywords whose schemas count only where something refers to them.
_APART = frozenset({"$defs", "definitions"})
#: Keywords that hold schemas for the parts of a value. Other schemas are for the value itself.
_OF_PARTS = frozenset(
    """properties patternProperties additionalProperties propertyNames unevaluatedProperties
    items prefixItems additionalItems unevaluatedItems contains""".split()
)
#: The most addresses that one part of a schema can have, depending on which of its names count.
_MOST_ADDRESSES = 32


def check_cost(schema: dict[str, Any]) -> None:
    """Raise ToolError, with a sentence that says why, if validating against `schema` could take too long."""
    _Expansion(schema).check()


def can_explain(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    """Whether listing how `arguments` break `schema` is cheap. `schema` has passed `check_cost`."""
    size, depth = _measure(arguments)
    most = MOST_WORK // size
    return most > 0 and _Expansion(schema).count_unrolled(depth, most) <= most


def _measure(arguments: dict[str, Any]) -> tuple[int, int]:
    """How much the errors quote if each value in the arguments is wrong once, and how deeply the values are nested."""
    size = deepest = 0
    pending: list[tuple[Any, int]] = [(arguments, 1)]
    while pending and size <= MOST_WORK:
        value, depth = pending.pop()
        own = _VALUE
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            own += sum(map(len, fields))
            pending += [(each, depth + 1) for each in fields.values()]
        elif isinstance(value, list):
            pending += [(each, depth + 1) for each in cast("list[Any]", value)]
        elif isinstance(value, str):
            own += len(value)
        # Each value that contains it quotes it too.
        size += own * depth
        deepest = max(deepest, depth)
    return size, deepest


class _Expansion:
    """A schema whose parts can be found by their addresses.

    Which names count (`id`, or `$id`, also beside a reference) depends on the version of JSON Schema, and the parts of one schema
    can have different versions. So all names count, and a reference stands for everything that it can mean.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        #: By the identity of a part, the base addresses that references in it may have.
        self._bases: dict[int, tuple[str, ...]] = {}
        self._by_address: dict[str, list[Any]] = {"": [schema]}
        self._costs: dict[int, int] = {}
        self._open: set[int] = set()
        self._visits = 0
        #: Whether a part refers back to itself for the same value.
        self._in_circle = False
        self._unrolled: dict[tuple[int, int], int] = {}
        self._parts: dict[int, list[tuple[Any, bool]]] = {}

    def check(self) -> None:
        self._find_addresses()
        if self._cost(self._schema, 0) > MOST_CHECKS:
            raise ToolError(
                f"The parameter schema is too complex: it expands to more than {MOST_CHECKS:,} checks. "
                "Refer to each definition fewer times, or split the tool."
            )

    def _find_addresses(self) -> None:
        parts = 0
        pending: list[tuple[Any, tuple[str, ...], int]] = [(self._schema, ("",), 0)]
        while pending:
            part, bases, depth = pending.pop()
            parts += 1
            if parts > MOST_PARTS or depth > DEEPEST:
                raise ToolError(
                    f"The parameter schema is too large: it has more than {MOST_PARTS:,} parts, "
                    f"or they are nested more than {DEEPEST} deep."
                )
            if isinstance(part, dict):
                fields = cast("dict[str, Any]", part)
                bases = self._bases[id(fields)] = self._name(fields, bases)
                pending += [(value, bases, depth + 1) for value in fields.values() if isinstance(value, dict | list)]
            else:
                pending += [(value, bases, depth + 1) for value in cast("list[Any]", part) if isinstance(value, dict | list)]

    def _name(self, part: dict[str, Any], bases: tuple[str, ...]) -> tuple[str, ...]:
        """Register the addresses that a part declares. Returns the base addresses that references in it may have."""
        names = [name for key in ("$id", "id") if isinstance(name := part.get(key), str)]
        if names:
            own = dict.fromkeys(_join_reference(base, name) for base in bases for name in names)
            for address in own:
                for known in {address, urldefrag(address)[0]}:
                    self._by_address.setdefault(known, []).append(part)
            bases = tuple(dict.fromkeys([*bases, *own]))
            if len(bases) > _MOST_ADDRESSES:
                raise ToolError("The parameter schema is too complex: too many nested parts have their own address.")
        for key in ("$anchor", "$dynamicAnchor"):
            name = part.get(key)
            if isinstance(name, str):
                for base in bases:
                    self._by_address.setdefault(f"{urldefrag(base)[0]}#{name}", []).append(part)
        return bases

    def _cost(self, part: Any, chain: int) -> int:
        """How many checks a part expands to, at most just over the limit. A part that refers back to it counts once."""
        key = id(part)
        known = self._costs.get(key)
        if known is not None:
            return known
        if key in self._open:
            return 1
        self._open.add(key)
        cost = self._costs[key] = self._expand(part, chain, set())
        self._open.discard(key)
        return cost

    def _expand(self, part: Any, chain: int, path: set[int]) -> int:
        """`_cost`, for one value. `path` holds the parts that lead to this one for the same value.

        It counts what the validator checks, repeatedly: the validator visits parts that refer to one another in a circle in every
        order.
        """
        key = id(part)
        if key in path:
            self._in_circle = True
            return 1
        self._visits += 1
        if chain > LONGEST_CHAIN + DEEPEST:
            raise ToolError(f"The parameter schema is too complex: more than {LONGEST_CHAIN} references lead to one another.")
        path.add(key)
        cost = 1 + _backtracking(part)
        for inner, is_deeper in self._inner(part):
            cost += self._cost(inner, chain + 1) if is_deeper else self._expand(inner, chain + 1, path)
            if cost > MOST_CHECKS or self._visits > MOST_VISITS:
                cost = MOST_CHECKS + 1
                break
        path.discard(key)
        return cost

    def count_unrolled(self, depth: int, most: int) -> int:
        """How many checks the schema expands to for arguments of that depth; more than `most` if there are too many."""
        self.check()
        try:
            return most + 1 if self._in_circle else self._unroll(self._schema, depth, most)
        except RecursionError:
            return most + 1

    def _unroll(self, part: Any, depth: int, most: int) -> int:
        key = (id(part), depth)
        known = self._unrolled.get(key)
        if known is not None:
            return known
        cost = 1
        for inner, is_deeper in self._inner(part):
            if depth > is_deeper:
                cost += self._unroll(inner, depth - is_deeper, most)
            if cost > most:
                break
        self._unrolled[key] = cost
        return cost

    def _inner(self, part: Any) -> list[tuple[Any, bool]]:
        """The schemas inside a part, and for each whether it is for a part of the value."""
        known = self._parts.get(id(part))
        if known is None:
            known = self._parts[id(part)] = list(self._find_inner(part))
        return known

    def _find_inner(self, part: Any) -> Iterator[tuple[Any, bool]]:
        if isinstance(part, list):
            yield from ((value, False) for value in cast("list[Any]", part) if isinstance(value, dict | list))
            return
        fields = cast("dict[str, Any]", part)
        for key in _REFERENCES:
            target = fields.get(key)
            if isinstance(target, str):
                yield from ((found, False) for found in self._targets(target, self._bases.get(id(fields), ("",))))
        for key, value in fields.items():
            if key in _BY_NAME and isinstance(value, dict):
                named = cast("dict[str, Any]", value)
                yield from ((each, key in _OF_PARTS) for each in named.values() if isinstance(each, dict | list))
            elif isinstance(value, dict | list) and key not in _PLAIN and key not in _APART:
                yield value, key in _OF_PARTS

    def _targets(self, reference: str, bases: tuple[str, ...]) -> list[Any]:
        """The parts of the schema that a reference can mean."""
        found: dict[int, Any] = {}
        for address in dict.fromkeys(_join_reference(base, reference) for base in bases):
            known = self._by_address.get(address)
            if known is None:
                document, fragment = urldefrag(address)
                known = [_at(place, fragment) for place in self._by_address.get(document, ())]
            found |= {id(each): each for each in known}
        return [each for each in found.values() if isinstance(each, dict | list)]


def _at(document: Any, fragment: str) -> Any:
    """The part that a JSON Pointer names."""
    found = document
    for step in unquote(fragment).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = cast("dict[str, Any]", found).get(step)
        elif isinstance(found, list) and step.isdecimal() and len(step) < 10:
            items = cast("list[Any]", found)
            found = items[int(step)] if int(step) < len(items) else None
        else:
            return None
    return found


def _backtracking(part: Any) -> int:
    """The checks that the patterns of a part count for, if they cannot be matched in linear time."""
    if not isinstance(part, dict):
        return 0
    fields = cast("dict[str, Any]", part)
    patterns: list[Any] = [fields.get("pattern"), *_keys(fields.get("patternProperties"))]
    return sum(_BACKTRACKING_CHECKS for each in patterns if isinstance(each, str) and re.search(_BACKTRACKS, each))


def _keys(value: Any) -> list[str]:
    return list(cast("dict[str, Any]", value)) if isinstance(value, dict) else []


def _join_reference(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference).removesuffix("#")
    except ValueError:
        return reference
