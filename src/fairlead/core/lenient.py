"""Reads JSON that msgspec refuses but other parsers accept: escaped lone surrogates, invalid UTF-8, numbers that are too large.

What cannot be written as valid UTF-8 becomes U+FFFD, so that output is always valid.
"""

from __future__ import annotations

from typing import Any

import msgspec

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
    import json

    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return scrub(json.loads(text, parse_int=_integer, parse_constant=_no_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def repaired(data: bytes) -> bytes:
    """Return a JSON text with U+FFFD in place of lone surrogates and invalid UTF-8. Everything else stays as it was written.

    The text is not checked: what is not JSON does not become JSON.
    """
    import re

    def keep_pair(found: re.Match[str]) -> str:
        return found[0] if found["pair"] or not found["lone"] else "\\ufffd"

    text = data.decode("utf-8", "replace")
    low = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    pattern = rf"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{{2}}{low})|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{{2}})|\\[^u]"
    return re.sub(pattern, keep_pair, text).encode()


def json_problem(text: str) -> str:
    """Why `text` is not a JSON object, and where, with a short excerpt."""
    import json

    try:
        value: object = json.loads(text, parse_int=_integer, parse_constant=_no_constant)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        before, after = text[max(0, error.pos - _AROUND) : error.pos], text[error.pos : error.pos + _AROUND]
        if not after.strip() or error.msg.startswith("Unterminated string"):
            return f"it breaks off after {len(text)} characters, with {_quoted(text[-_AROUND:])}"
        place = f"line {error.lineno} column {error.colno}"
        return f"{error.msg} at {place}, between {_quoted(before)} and {_quoted(after)}"
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
    import re

    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
        lambda found: found[0].encode("unicode_escape").decode("ascii"),
        text,
    )


def one_line(text: str) -> str:
    """`text` as `visible` returns it, in one line: for names of files, which may contain line ends."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _quoted(text: str) -> str:
    return repr(scrub_text(text))


def _integer(digits: str) -> int | float:
    """Return an integer, or infinity if Python refuses to read that many digits."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
