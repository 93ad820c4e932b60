"""Reads front matter: the YAML between two `---` lines at the top of a Markdown file.

All of YAML's block and flow styles are understood, with these limits. A plain value is always a text, as it was written:
`version: 1.10` is "1.10" and `name: on` is "on"; the caller converts what should be a number or a flag. Aliases and tags are
refused, so nothing grows and nothing is constructed. Keys are texts and appear once.

Many files hold plain texts that YAML refuses, such as `globs: [*.ts]` or `description: Use when: ...`. They are read as texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import yaml

if TYPE_CHECKING:
    from yaml import Event, Mark

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

_LONGEST = 64 * 1024
_DEEPEST = 32
#: A plain value on the line of its key or of its `-`. The next line decides whether it continues there.
_PLAIN_LINE = re.compile(r"([ \t]*-[ \t]+|[A-Za-z_][\w-]*[ \t]*:[ \t]+)([^\s'\"\[{|>#].*|[|>][ \t]+[^\s#].*)")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*[ \t]*:(?:\s|$)")
#: A list on the line of its key, and what is between two of its commas.
_LIST_LINE = re.compile(r"([A-Za-z_][\w-]*[ \t]*:[ \t]+)\[(.*)\][ \t]*+(?:#.*)?")
_LIST_ITEM = re.compile(r"[ \t]*+('(?:[^']|'')*+'[ \t]*+|\"(?:[^\"\\]|\\.)*+\"[ \t]*+|[^,\[\]{}'\"][^,\[\]{}]*+|)(?:,|$)")
#: The first line of a text in quotes or in a block. Lines below it that are indented belong to it.
_LONG_TEXT = re.compile(r"[A-Za-z_][\w-]*[ \t]*:[ \t]+(?:['\"].*|[|>][-+0-9]*[ \t]*+(?:#.*)?)")
_ANCHOR = re.compile(r"&(\w+)")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_COMMENT = re.compile(r"\s#.*")


class FrontMatterError(ValueError):
    """The front matter cannot be read; the text says in which line, and why."""


def split(text: str) -> tuple[dict[str, Value], str]:
    """Split a file into the fields of its front matter and the text after it.

    Returns no fields and the whole text if there is no front matter. A key without a value has the empty text. Raises
    FrontMatterError.
    """
    lines, body = _parts(text)
    return _fields(lines), body


def pick(text: str, keys: Collection[str]) -> tuple[dict[str, str], str]:
    """Return the texts of some keys, as far as they are there, and the text after the front matter.

    If other programs wrote something under other keys that cannot be read, it is passed over. Raises FrontMatterError.
    """
    lines, body = _parts(text)
    try:
        fields = _fields(lines)
    except FrontMatterError:
        fields = _fields(list(_only(lines, keys)))
    found: dict[str, str] = {}
    for key in keys:
        if key in fields:
            try:
                found[key] = as_text(fields[key])
            except ValueError as error:
                raise FrontMatterError(f"{key}: {error}") from None
    return found, body


def as_text(value: Value) -> str:
    """Return a value that has to be a text. Raises ValueError."""
    if isinstance(value, str):
        return value.strip()
    raise ValueError(f"expected a text, found {_kind(value)}.")


def as_texts(value: Value) -> list[str]:
    """Return a value that has to be a text or a list of texts, as a list. Raises ValueError."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            where = " in a list" if isinstance(value, list) else ""
            raise ValueError(f"expected a text or a list of texts, found {_kind(item)}{where}.")
    return [as_text(item) for item in items]


def _kind(value: Value) -> str:
    return "an object" if isinstance(value, dict) else "a list"


def _parts(text: str) -> tuple[list[str], str]:
    """The lines of the front matter, and the text after it."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return [], text.strip()
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return lines[1:end], "\n".join(lines[end + 1 :]).strip()
    raise FrontMatterError("line 1: the front matter that begins here has no end. Put a line --- after it.")


def _fields(lines: Sequence[str]) -> dict[str, Value]:
    if not any(line.strip() for line in lines):
        return {}
    written = "\n".join(lines)
    if len(written) > _LONGEST:
        raise FrontMatterError(f"line 1: the front matter is longer than {_LONGEST:,} characters.")
    try:
        return _read(written)
    except FrontMatterError:
        quoted = "\n".join(_quote(lines))
        if quoted == written:
            raise
        try:
            return _read(quoted)
        except FrontMatterError:
            pass
        raise


def _only(lines: Sequence[str], keys: Collection[str]) -> Iterator[str]:
    """The lines of some keys. All others are empty, so that errors name the right line."""
    wanted = False
    for line in lines:
        if _PLAIN_KEY.match(line):
            wanted = line.partition(":")[0].rstrip() in keys
        yield line if wanted else ""


def _quote(lines: Sequence[str]) -> Iterator[str]:
    """The lines with quotes around plain values. All of them are texts, so this changes no meaning.

    Values with an anchor, an alias of one, or a tag are left for YAML to judge.
    """
    anchors = {name for line in lines for name in _ANCHOR.findall(line)}
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if plain := _PLAIN_LINE.fullmatch(line):
            of_key = not plain[1].lstrip().startswith("-")
            while end < len(lines) and _continues(lines[end], of_key):
                end += 1
            texts = [_COMMENT.sub("", text).strip() for text in (plain[2], *lines[at + 1 : end])]
            # A text over several lines is only read if its first line is what YAML refuses: below another one,
            # `key: value` is rather a key that was indented by mistake.
            if not _for_yaml(texts[0], anchors) and (end == at + 1 or (of_key and _is_refused(texts))):
                quoted = "\n  ".join(texts).replace("'", "''")
                yield from (plain[1].replace("\t", " ") + f"'{quoted}'").split("\n")
                at = end
                continue
        elif (listed := _LIST_LINE.fullmatch(line)) and (items := _list_items(listed[2], anchors)) is not None:
            line = listed[1].replace("\t", " ") + "[" + ", ".join(items) + "]"
        elif _LONG_TEXT.fullmatch(line):
            while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
                end += 1
            yield from lines[at:end]
            at = end
            continue
        yield line
        at += 1


def _continues(line: str, of_key: bool) -> bool:
    """Whether a line continues the plain text before it."""
    text = line.strip()
    return line[:1].isspace() and bool(text) and not text.startswith("#") and (of_key or not text.startswith("-"))


def _is_refused(texts: Sequence[str]) -> bool:
    first, *rest = texts
    refused = ": " in first or first.endswith(":") or first[0] in "*&!%@`|>"
    return refused and not any(_PLAIN_KEY.match(text) for text in rest)


def _for_yaml(value: str, anchors: Collection[str]) -> bool:
    """Whether a value has an anchor, is an alias of one, or has a tag."""
    anchor = _ANCHOR.match(value)
    return (anchor is not None and value[anchor.end() :][:1] in ("", " ")) or value.startswith("!!") or value[1:] in anchors


def _list_items(written: str, anchors: Collection[str]) -> list[str] | None:
    """The items of a list with quotes around them, or None if they are not all texts."""
    items: list[str] = []
    at = 0
    while at < len(written):
        found = _LIST_ITEM.match(written, at)
        if found is None:
            return None
        item = found[1].strip()
        if not item and found.end() < len(written):
            return None
        if item and item[0] not in "'\"":
            if _for_yaml(item, anchors):
                return None
            item = "'" + item.replace("'", "''") + "'"
        if item:
            items.append(item)
        at = found.end()
    return items


def _read(written: str) -> dict[str, Value]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    parse = cast("Callable[..., Iterator[Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]
    try:
        return _Reader(parse(written, Loader=loader)).document()
    except yaml.MarkedYAMLError as error:
        # What was never closed is best named by where it was opened.
        opened = error.context is not None and any(word in error.context for word in ("quoted", "flow", "simple key"))
        where = (error.context_mark if opened else error.problem_mark) or error.context_mark
        said = f"{error.context}: {error.problem}" if opened else error.problem
        raise _error(where, f"{said}. Put texts with special characters in single quotes.") from None
    except yaml.YAMLError as error:  # a control character, for which there is no mark
        raise FrontMatterError(f"the front matter is not text: {str(error).partition(chr(10))[0]}.") from None


def _error(where: Mark | None, said: str) -> FrontMatterError:
    return FrontMatterError(said if where is None else f"line {where.line + 2}: {said}")


class _Reader:
    """Builds a value from the events of a YAML parser. It knows neither types nor references, so it can only build texts,
    lists and maps, and never more of them than were written."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events

    def document(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _error(event.start_mark, "a second document begins here.")
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, 0)
                if not isinstance(value, dict):
                    raise _error(event.start_mark, "expected `key: value`.")
                found = value
        return found

    def _value(self, event: Event, depth: int) -> Value:
        if depth > _DEEPEST:
            raise _error(event.start_mark, f"values are nested more than {_DEEPEST} deep.")
        if isinstance(event, yaml.AliasEvent):
            raise _error(event.start_mark, f"*{event.anchor} refers to another value. Write the value here.")
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None and event.tag != "!":
            raise _error(
                event.start_mark, f"the tag {event.tag} is not supported. Put a text that begins with ! in single quotes."
            )
        if isinstance(event, yaml.ScalarEvent):
            if _LONE_SURROGATE.search(event.value):
                raise _error(event.start_mark, "an escape in the text stands for half a character.")
            return event.value
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Value] = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                items.append(self._value(inner, depth + 1))
            return items
        fields: dict[str, Value] = {}
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            key = self._value(inner, depth + 1)
            if not isinstance(key, str):
                raise _error(inner.start_mark, f"expected a text as the key, found {_kind(key)}.")
            if key in fields:
                raise _error(inner.start_mark, f"{key} is there twice.")
            fields[key] = self._value(next(self._events), depth + 1)
        return fields
