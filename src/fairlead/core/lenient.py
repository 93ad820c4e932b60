"""Reads JSON that msgspec refuses but other parsers accept: escaped lone surrogates, invalid UTF-8, numbers that are too large.

What cannot be written as valid UTF-8 becomes U+FFFD, so that output is always valid.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from fairlead.errors import BadCommand

#: How many characters an error shows before and after the mistake.
_AROUND = 40
_KINDS: dict[type, str] = {str: "a string", list: "a list", bool: "true or false", type(None): "null"}


def decode(data: bytes | str) -> Any:
    """Decode a JSON text. Raises ValueError with a readable message if it is invalid or nested too deeply."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError):
        pass
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return scrub(json.loads(text, parse_int=read_integer, parse_constant=_reject_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def repair_json(data: bytes) -> bytes:
    """Return a JSON text with U+FFFD in place of lone surrogates and invalid UTF-8. Everything else stays as it was written.

    The text is not checked: what is not JSON does not become JSON.
    """

    def keep_pair(found: re.Match[str]) -> str:
        return found[0] if found["pair"] or not found["lone"] else "\\ufffd"

    text = data.decode("utf-8", "replace")
    low = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    pattern = rf"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{{2}}{low})|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{{2}})|\\[^u]"
    return re.sub(pattern, keep_pair, text).encode()


def json_problem(text: str) -> str:
    """Why `text` is not a JSON object, and where, with a short excerpt."""
    try:
        value: object = json.loads(text, parse_int=read_integer, parse_constant=_reject_constant)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        before, after = text[max(0, error.pos - _AROUND) : error.pos], text[error.pos : error.pos + _AROUND]
        if not after.strip() or error.msg.startswith("Unterminated string"):
            return f"it breaks off after {len(text)} characters, with {_quote(text[-_AROUND:])}"
        place = f"line {error.lineno} column {error.colno}"
        return f"{error.msg} at {place}, between {_quote(before)} and {_quote(after)}"
    except ValueError as error:
        return str(error)
    return f"it is {next((name for kind, name in _KINDS.items() if isinstance(value, kind)), 'a number')}"


def scrub(value: Any) -> Any:
    """A JSON value whose strings are all valid Unicode."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list):
        return [scrub(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {scrub_text(key): scrub(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return value


#: How deep data may be nested. Every reader of JSON accepts this depth.
_DEEPEST = 100
_TOO_DEEP = "[nested too deeply to be kept]"


#: How many levels a line may have: those that `json_data` keeps, and those of the messages around the data.
_DEEPEST_LINE = 150
#: What divides a JSON text into levels: its brackets, and the texts in which others do not count.
_BRACKET = r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]'


def cut_deep_json(line: bytes) -> bytes:
    """Return a JSON text that every reader can decode. What is nested too deeply in it becomes a text in its place."""
    if line.count(b"[") + line.count(b"{") <= _DEEPEST_LINE:
        return line
    text = line.decode("utf-8", "replace")
    kept: list[str] = []
    depth = start = 0
    for found in re.finditer(_BRACKET, text):
        match found[0]:
            case "[" | "{":
                depth += 1
                if depth == _DEEPEST_LINE + 1:
                    kept += text[start : found.start()], f'"{_TOO_DEEP}"'
            case "]" | "}":
                if depth == _DEEPEST_LINE + 1:
                    start = found.end()
                depth -= 1
            case _:
                pass
    return "".join((*kept, text[start:])).encode("utf-8", "replace") if kept else line


def json_data(value: object) -> Any:
    """Return a value as data that JSON can hold, whatever it is: what JSON cannot hold becomes a text in its place.

    Raises nothing. A value that contains itself ends where it begins again.
    """
    return _json_data(value, ())


def _json_data(value: Any, above: tuple[int, ...]) -> Any:
    if type(value) is str and value.isascii():  # most values are
        return value
    match value:
        case None | bool():
            return value
        case str():
            return scrub_text(str(value))
        case int():
            # What is larger has no digits that readers of JSON agree about. JavaScript reads it as infinite.
            return int(value) if -(2**63) <= value < 2**64 else float(value) if value.bit_length() < 1024 else None
        case float():
            return value if math.isfinite(value) else None
        case _ if len(above) >= _DEEPEST or id(value) in above:
            return _TOO_DEEP
        case list() | tuple() | set() | frozenset():
            below = (*above, id(value))  # pyright: ignore[reportUnknownArgumentType]
            return [_json_data(item, below) for item in cast("Iterable[Any]", value)]
        case dict():
            below = (*above, id(value))  # pyright: ignore[reportUnknownArgumentType]
            fields = cast("dict[Any, Any]", value)
            return {_json_key(key): _json_data(item, below) for key, item in fields.items()}
        case _:
            return _object_data(value, above)


def _json_key(key: Any) -> str:
    return key if type(key) is str and key.isascii() else scrub_text(str(key))


def _object_data(value: object, above: tuple[int, ...]) -> Any:
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
    except Exception:  # the object is not ours: it may raise anything
        return f"[{type(value).__name__}]"
    return f"[{type(value).__name__}]" if type(plain) is type(value) else _json_data(plain, (*above, id(value)))


def scrub_text(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def visible(text: str) -> str:
    """`text` for a terminal, with escapes for characters that would control it or change the order of others.

    These are C0 except line feed and tab, DEL, C1, the bidirectional controls, and lone surrogates, which may stand for control
    bytes.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text

    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
        lambda found: found[0].encode("unicode_escape").decode("ascii"),
        text,
    )


def one_line(text: str) -> str:
    """`text` as `visible` returns it, in one line: for names of files, which may contain line ends."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _quote(text: str) -> str:
    return repr(scrub_text(text))


def read_integer(digits: str) -> int | float:
    """Return an integer, or infinity if Python refuses to read that many digits."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def to_json_data(value: Any) -> Any:
    """Return data of an extension as it is when read back from a session file. Raises BadCommand if JSON cannot hold it."""
    try:
        return msgspec.json.decode(msgspec.json.encode(scrub(msgspec.to_builtins(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadCommand(f"An extension can keep only JSON data in a session: {error}") from None
