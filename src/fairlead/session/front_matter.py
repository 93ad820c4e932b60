"""Front matter: the few lines of YAML between two `---` at the top of a Markdown file.

Understood is what such files hold: `key: value`, lists as `[a, b]` or as `- a` lines, texts in single or double quotes,
comments. Every value is a text or a list of texts; who asks for a key knows what it should be. Whatever else
YAML has is refused with the number of the line, never read as something it does not mean.

Files that were written for other programs too hold more than that. `pick` reads a few texts out of them, and passes over
the rest.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeAlias

Value: TypeAlias = str | list[str]

_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*-(?:\s+(.*))?$")
_BLOCK_TEXT = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")
_COMMENT = re.compile(r"\s#")
_SPACE = re.compile(r"\s*")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SINGLE_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_LIST_TEXT = re.compile(r"[^,\[\]{}]*")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
}


class FrontMatterError(ValueError):
    """The front matter cannot be read; the text says in which line, and why."""


def split(text: str) -> tuple[dict[str, Value], str]:
    """The fields of the front matter, and what comes after it. Without any, no fields and the whole text.

    A key without a value has the empty text. Raises FrontMatterError.
    """
    lines, body = _parts(text)
    return _fields(lines), body


def pick(text: str, keys: Collection[str]) -> tuple[dict[str, str], str]:
    """The texts of some keys, and what comes after the front matter.

    A text may go on over several lines, as YAML has it. What other keys hold is not looked at. Raises FrontMatterError.
    """
    lines, body = _parts(text)
    found: dict[str, str] = {}
    open_key: str | None = None
    written: list[str] = []
    for line in [*lines, "end:"]:
        if line[:1].isspace() or not line or not (field := _KEY.match(line)):
            written.append(line)
            continue
        if open_key is not None and open_key in keys and open_key not in found:
            found[open_key] = _long_text(open_key, written)
        open_key, written = field[1], [(field[2] or "").strip()]
    return found, body


def _parts(text: str) -> tuple[list[str], str]:
    """The lines of the front matter, and what comes after it."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return [], text.strip()
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return lines[1:end], "\n".join(lines[end + 1 :]).strip()
    raise FrontMatterError("line 1: the front matter that begins here has no end. Put a line --- after it.")


def _long_text(key: str, written: list[str]) -> str:
    """A text that is written on the line of its key, below it, or both."""
    first, *rest = written
    if _BLOCK_TEXT.match(first):
        lines = [line.strip() for line in rest]
        return "\n".join(lines).strip() if first[0] == "|" else " ".join(line for line in lines if line)
    if first[:1] in ("'", '"'):
        return _text(key, " ".join(line.strip() for line in written).strip())
    plain = [_without_comment(f" {line.strip()}").strip() for line in written]
    joined = " ".join(line for line in plain if line)
    if joined.startswith(("[", "- ")):
        raise FrontMatterError(f"{key}: expected a text, found a list.")
    return _text(key, joined)


def _fields(lines: list[str]) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    open_key: str | None = None
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            if item := _ITEM.match(line):
                _add_item(fields, open_key, item[1] or "")
            elif field := _KEY.match(line):
                open_key = _add_field(fields, field[1], (field[2] or "").strip())
            else:
                raise FrontMatterError("expected `key: value`. A text goes on one line; nested keys have no meaning here.")
        except FrontMatterError as error:
            raise FrontMatterError(f"line {number}: {error}") from None
    return fields


def _add_field(fields: dict[str, Value], key: str, written: str) -> str | None:
    """Add a field; its key, if a list may follow on the next lines."""
    if key in fields:
        raise FrontMatterError(f"{key} is there twice.")
    if not written or written.startswith("#"):
        fields[key] = ""
        return key
    fields[key] = _list(key, written) if written.startswith("[") else _text(key, written)
    return None


def _add_item(fields: dict[str, Value], key: str | None, written: str) -> None:
    if key is None:
        raise FrontMatterError("an item of a list, and no list. Put `key:` on a line of its own before it.")
    written = written.strip()
    if written.startswith("["):
        raise FrontMatterError(f"{key}: lists in lists have no meaning here. Put a text that begins with [ in quotes.")
    items = fields[key]
    if not isinstance(items, list):
        items = fields[key] = []
    items.append(_text(key, written))


def _text(key: str, written: str) -> str:
    if written[:1] in ("'", '"'):
        text, end = _quoted(key, written, 0)
        if rest := _without_comment(written[end:]).strip():
            raise FrontMatterError(f"{key}: {rest} after the closing quote. Put the whole text in one pair of quotes.")
        return text
    if _BLOCK_TEXT.match(written) or written.startswith("{"):
        raise FrontMatterError(f"{key}: expected a text on this line. Put a text that begins with {written[0]} in quotes.")
    return _without_comment(written)


def _without_comment(written: str) -> str:
    comment = _COMMENT.search(written)
    return written[: comment.start()].rstrip() if comment else written


def _list(key: str, written: str) -> list[str]:
    items: list[str] = []
    at = 1
    while True:
        at = _past(_SPACE, written, at)
        if written[at : at + 1] in ("'", '"'):
            item, at = _quoted(key, written, at)
        else:
            start, at = at, _past(_LIST_TEXT, written, at)
            item = written[start:at].strip()
            if not item and written[at : at + 1] == "]":  # an empty list, or a comma after the last item
                break
        items.append(item)
        at = _past(_SPACE, written, at)
        if written[at : at + 1] != ",":
            break
        at += 1
    if written[at : at + 1] != "]":
        raise FrontMatterError(f"{key}: the list has no ] on this line. Put texts that contain [ ] {{ }} or a comma in quotes.")
    if rest := _without_comment(written[at + 1 :]).strip():
        raise FrontMatterError(f"{key}: {rest} after the list. Put a text that begins with [ in quotes.")
    return items


def _past(pattern: re.Pattern[str], written: str, at: int) -> int:
    """Where a pattern that always matches ends."""
    found = pattern.match(written, at)
    return found.end() if found else at


def _quoted(key: str, written: str, start: int) -> tuple[str, int]:
    """The text in quotes that begins at `start`, and where it ends."""
    double = written[start] == '"'
    found = (_DOUBLE_QUOTED if double else _SINGLE_QUOTED).match(written, start)
    if found is None:
        raise FrontMatterError(f"{key}: the quote at its beginning is never closed.")
    if not double:
        return found[1].replace("''", "'"), found.end()

    def unescaped(escape: re.Match[str]) -> str:
        name = escape[1]
        if len(name) > 1 and (code := int(name[1:], 16)) <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return chr(code)
        if name not in _ESCAPES:
            raise FrontMatterError(
                f"{key}: {escape[0]} means nothing in double quotes. Write \\\\ for a backslash, or use single quotes."
            )
        return _ESCAPES[name]

    return _ESCAPE.sub(unescaped, found[1]), found.end()
