"""Reads YAML that people write by hand, and changes single values in it without touching anything else.

Values are those of YAML 1.2, as omp reads them: `on` and `yes` are texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml
from yaml.nodes import CollectionNode, MappingNode, ScalarNode, SequenceNode

from fairlead.config import json_files
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from yaml.nodes import Node

SUFFIXES = (".yml", ".yaml")

#: How many values a file may have once all its aliases are replaced by what they stand for.
_MOST_VALUES = 100_000
#: How deep they may be nested.
_DEEPEST = 100
_NULL = ("", "~", "null", "Null", "NULL")
_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,300}|[0-9]{1,300}(\.[0-9]{0,300})?)([eE][-+]?[0-9]{1,5})?")


def parse_object(path: Path, data: bytes) -> dict[str, Any]:
    """Parse the mapping in `data`. An empty file is an empty mapping.

    Raises ConfigError, naming the file and the line, if it is something else.
    """
    node = _compose(path, _text(path, data), fast=True)
    value = None if node is None else _Reading(path).value(node)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a mapping, found {json_files.describe_value(value)}.")
    return cast("dict[str, Any]", value)


def change_value(path: Path, key: str, value: str | bool | float | None) -> None:
    """Set `key` (`"a"`, or `"a.b"` for b in the mapping a) in the mapping that `path` holds. None sets it to null.

    Only the characters of the value change. Raises ConfigError, leaving the file as it is, if that is not possible.
    """

    def change(data: bytes) -> bytes:
        text = _text(path, data)
        wanted = parse_object(path, data)
        changed = _with_value(path, text, key.split("."), _as_yaml(value))
        target = wanted
        *groups, name = key.split(".")
        for group in groups:
            inner = target.get(group)
            target[group] = target = cast("dict[str, Any]", dict(cast("Any", inner)) if isinstance(inner, dict) else {})
        target[name] = value
        # The file may be written in a way that the change does not fit, such as with anchors.
        if parse_object(path, changed.encode()) != wanted:
            raise ConfigError(f"{path}: {key} could not be changed without changing something else. Edit the file by hand.")
        return changed.encode()

    json_files.update_bytes(path, change)


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid YAML: it is not UTF-8.") from None


def _compose(path: Path, text: str, *, fast: bool = False) -> Node | None:
    """Return the tree of a document. The `fast` parser does not give reliable places in the text."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if fast else yaml.SafeLoader
    compose = cast("Callable[..., Node | None]", yaml.compose)  # pyright: ignore[reportUnknownMemberType]
    try:
        return compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigError(f"{path}: {where}not valid YAML: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {str(error).splitlines()[0]}.") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply.") from None


class _Reading:
    """Turns the tree of a document into values."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = _MOST_VALUES

    def value(self, node: Node, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ConfigError(f"{self._path}: nested too deeply, or too many values.")
        if isinstance(node, ScalarNode):
            return _scalar(node)
        if isinstance(node, SequenceNode):
            return [self.value(each, depth + 1) for each in cast("list[Node]", node.value)]
        if isinstance(node, MappingNode):
            return self._mapping(node, depth)
        return None

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[Node, Node]]", node.value):
            key, value = self.value(key_node, depth + 1), self.value(value_node, depth + 1)
            if key == "<<" and not cast("Any", key_node).style:
                for each in cast("list[Any]", value if isinstance(value, list) else [value]):
                    merged = {**cast("dict[str, Any]", each), **merged} if isinstance(each, dict) else merged
            else:
                found[key if isinstance(key, str) else json_files.describe_value(key)] = value
        return {**merged, **found}


def _scalar(node: ScalarNode) -> Any:
    text = cast("str", node.value)
    if cast("Any", node).style:  # it is in quotes, or a block
        return text
    if node.tag == "tag:yaml.org,2002:str" and not _differs(text):
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return int(text)
    if text[:2] in ("0x", "0o") and text[2:].isalnum():
        try:
            return int(text, 0)
        except ValueError:
            return text
    return float(text) if _FLOAT.fullmatch(text) else text


def _differs(text: str) -> bool:
    """Whether YAML 1.2 gives the text another type than YAML 1.1 does, in which it is a text."""
    return text.startswith("0o") or ("e" in text.lower() and _FLOAT.fullmatch(text) is not None)


def _as_yaml(value: str | bool | float | None) -> str:
    """Write a value so that every reader of YAML understands it alike."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*(:[\w./-]+)*", value, re.ASCII) and _is_text(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_text(text: str) -> bool:
    """Whether no version of YAML takes a plain word for something else."""
    return text.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")


def _with_value(path: Path, text: str, names: list[str], value: str) -> str:
    """Return the text of a document with another value of a key."""
    node = _compose(path, text)
    if node is None or _is_empty(node):
        end = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{end}{_block(names, value, '')}"
    for depth, name in enumerate(names):
        if not isinstance(node, MappingNode):
            raise ConfigError(f"{path}: {'.'.join(names[:depth])}: expected a mapping. Edit the file by hand.")
        entries = cast("list[tuple[ScalarNode, Node]]", node.value)
        found = next((each for key, each in entries if key.value == name), None)
        if found is None:
            return _insert_entry(text, node, names[depth:], value)
        if depth == len(names) - 1 or _is_empty(found):
            return _replace_value(path, text, found, names[depth + 1 :], value)
        node = found
    raise AssertionError("the last name has been handled")


def _insert_entry(text: str, mapping: MappingNode, names: list[str], value: str) -> str:
    """Put an entry in front of the first one of a mapping."""
    entries = cast("list[tuple[Node, Node]]", mapping.value)
    if not entries:
        start, end = mapping.start_mark.index, mapping.end_mark.index
        return f"{text[:start]}{{{_flow(names, value)}}}{text[end:]}"
    first = entries[0][0].start_mark
    if mapping.flow_style:
        return f"{text[: first.index]}{_flow(names, value)}, {text[first.index :]}"
    indent = " " * first.column
    return f"{text[: first.index]}{_block(names, value, indent).lstrip()}{indent}{text[first.index :]}"


def _replace_value(path: Path, text: str, node: Node, inner: list[str], value: str) -> str:
    """Put a value in place of another, or of nothing. `inner` are the names that lead to it from there."""
    if isinstance(node, CollectionNode) and not node.flow_style:  # it ends where the next one begins, after comments
        raise ConfigError(f"{path}: the value to change takes several lines. Edit the file by hand.")
    start, end = node.start_mark.index, node.end_mark.index
    if inner:
        value = f"{{{_flow(inner, value)}}}"
    space = " " if start == end and text[start - 1 : start] == ":" else ""
    if text[start:end].endswith("\n"):  # a text of several lines
        value += "\n"
    return f"{text[:start]}{space}{value}{text[end:]}"


def _flow(names: list[str], value: str) -> str:
    *groups, name = names
    return "".join(f"{group}: {{" for group in groups) + f"{name}: {value}" + "}" * len(groups)


def _block(names: list[str], value: str, indent: str) -> str:
    lines = [f"{indent}{'  ' * depth}{name}:" for depth, name in enumerate(names)]
    return "\n".join(lines) + f" {value}\n"


def _is_empty(node: Node) -> bool:
    """Whether nothing, or null, stands there."""
    return isinstance(node, ScalarNode) and _scalar(node) is None
