"""How much work a JSON Schema can make, counted without doing any of it.

Schemas come from hosts, MCP servers and extensions. A few lines of references to definitions that refer to others twice
expand to billions of checks, and the validator would do them all, for minutes, with the interpreter in its hands. So
the expansion is counted first: each part of the schema once, a reference as what it refers to.

A schema that refers to itself is common (trees) and counts as one pass through it: how often it is gone through depends
on the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote, urldefrag, urljoin

from fairlead.errors import ToolError

#: Checks to which a schema may expand. Large ones of real servers have some thousands.
MOST_CHECKS = 20_000
#: Objects and lists in a schema, and how deeply they may be nested.
MOST_PARTS = 50_000
DEEPEST = 150
#: References that may lead to one another.
LONGEST_CHAIN = 150

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
#: What holds values, not schemas.
_PLAIN = frozenset({"enum", "const", "default", "examples", "required", "description", "title"})
#: What holds schemas by names that may be those of keywords.
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
#: What holds schemas that count only where something refers to them.
_APART = frozenset({"$defs", "definitions"})


def check_cost(schema: dict[str, Any]) -> None:
    """Raises ToolError, with a sentence that says why, if checking anything against `schema` could take too long."""
    _Expansion(schema).check()


class _Expansion:
    """A schema, with its parts found by their addresses."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        #: The address that references within a part start from, by the part's identity.
        self._bases: dict[int, str] = {}
        self._by_address: dict[str, Any] = {"": schema}
        self._costs: dict[int, int] = {}
        self._open: set[int] = set()

    def check(self) -> None:
        self._find_addresses()
        if self._cost(self._schema, 0) > MOST_CHECKS:
            raise ToolError(
                f"The parameter schema is too complex: its references expand to more than {MOST_CHECKS:,} checks. "
                "Refer to each definition fewer times, or split the tool."
            )

    def _find_addresses(self) -> None:
        parts = 0
        waiting: list[tuple[Any, str, int]] = [(self._schema, "", 0)]
        while waiting:
            part, base, depth = waiting.pop()
            parts += 1
            if parts > MOST_PARTS or depth > DEEPEST:
                raise ToolError(
                    f"The parameter schema is too large: it has more than {MOST_PARTS:,} parts, "
                    f"or they are nested more than {DEEPEST} deep."
                )
            if isinstance(part, dict):
                fields = cast("dict[str, Any]", part)
                base = self._name(fields, base)
                self._bases[id(fields)] = base
                waiting += [(value, base, depth + 1) for value in fields.values() if isinstance(value, dict | list)]
            else:
                waiting += [(value, base, depth + 1) for value in cast("list[Any]", part) if isinstance(value, dict | list)]

    def _name(self, part: dict[str, Any], base: str) -> str:
        """Remember the addresses that a part gives itself; the address that references within it start from."""
        for key in ("$id", "id"):
            name = part.get(key)
            if isinstance(name, str):
                base = _joined(base, name)
                self._by_address.setdefault(urldefrag(base)[0], part)
                self._by_address.setdefault(base, part)
        for key in ("$anchor", "$dynamicAnchor"):
            name = part.get(key)
            if isinstance(name, str):
                self._by_address.setdefault(f"{urldefrag(base)[0]}#{name}", part)
        return base

    def _cost(self, part: Any, chain: int) -> int:
        """How many checks a part expands to, at most just over the limit."""
        key = id(part)
        known = self._costs.get(key)
        if known is not None:
            return known
        if key in self._open:
            return 1
        if chain > LONGEST_CHAIN + DEEPEST:
            raise ToolError(f"The parameter schema is too complex: more than {LONGEST_CHAIN} references lead to one another.")
        self._open.add(key)
        cost = 1
        for inner in self._inner(part):
            cost += self._cost(inner, chain + 1)
            if cost > MOST_CHECKS:
                break
        self._open.discard(key)
        self._costs[key] = cost
        return cost

    def _inner(self, part: Any) -> Iterator[Any]:
        """What is checked as a part of a part."""
        if isinstance(part, list):
            yield from (value for value in cast("list[Any]", part) if isinstance(value, dict | list))
            return
        fields = cast("dict[str, Any]", part)
        for key in _REFERENCES:
            target = fields.get(key)
            if isinstance(target, str):
                found = self._target(target, self._bases.get(id(fields), ""))
                if isinstance(found, dict | list):
                    yield found
        for key, value in fields.items():
            if key in _BY_NAME and isinstance(value, dict):
                named = cast("dict[str, Any]", value)
                yield from (each for each in named.values() if isinstance(each, dict | list))
            elif isinstance(value, dict | list) and key not in _PLAIN and key not in _APART:
                yield value

    def _target(self, reference: str, base: str) -> Any:
        """What a reference leads to, as far as that is in the schema."""
        address = _joined(base, reference)
        if address in self._by_address:
            return self._by_address[address]
        document, fragment = urldefrag(address)
        found = self._by_address.get(document)
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


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference).removesuffix("#")
    except ValueError:
        return reference
