"""Reads a tool call's arguments while they arrive: chosen strings in JSON that is not complete yet.

Each character is read once. Parsing everything again for each piece would take quadratic time.
"""

from __future__ import annotations

import re

from msgspec import Struct

from fairlead.core import lenient
from fairlead.core.tool import KeyPath

_UP_TO_STRUCTURE = re.compile(r'[^"{}\[\],:]*')
_HEX = "[0-9a-fA-F]"
_HIGH_SURROGATE = rf"u[dD][89abAB]{_HEX}{{2}}"
#: The characters of a string that can be decoded. The first half of a surrogate pair has to wait for what follows it.
_CHARACTERS = re.compile(
    r'(?:[^"\\]+|\\(?:["\\/bfnrt]|'
    rf"(?!{_HIGH_SURROGATE})u{_HEX}{{4}}|{_HIGH_SURROGATE}(?=[^\\]|\\u{_HEX}{{4}}|\\[^u])))*"
)
_UNFINISHED = re.compile(rf"\\(?:u{_HEX}{{0,3}}|{_HIGH_SURROGATE}(?:\\(?:u{_HEX}{{0,3}})?)?)?$")
#: Key paths are shorter than this, so values that are nested more deeply are skipped.
_DEEPEST = 4


class Piece(Struct, frozen=True):
    """A piece of a string that has arrived. `ended` marks the last piece."""

    key_path: KeyPath
    text: str
    ended: bool


class ArgumentReader:
    """Reads the strings at `key_paths`. `inside` is the key path of the JSON itself, if it is a string in other JSON.

    Invalid JSON ends the reading without an error: running the call reports what is wrong with it.
    """

    def __init__(self, key_paths: frozenset[KeyPath], inside: KeyPath = ()) -> None:
        self._key_paths = key_paths
        #: The current key of each open container; None for a list.
        self._keys: list[str | None] = list(inside)
        self._key_comes = False
        self._in_string = False
        #: The key path of the current string; None if it is a key or not one of the chosen strings.
        self._key_path: KeyPath | None = None
        self._key_parts: list[str] | None = None
        #: The beginning of an escape sequence whose end has not arrived.
        self._rest = ""
        self._broken = False

    def feed(self, delta: str) -> list[Piece]:
        """Read `delta` and return the pieces of the chosen strings in it."""
        pieces: list[Piece] = []
        text, self._rest = self._rest + delta, ""
        at = 0
        while at < len(text) and not self._broken:
            if not self._in_string:
                at = self._read_structure(text, at)
                continue
            start, at = at, _past(_CHARACTERS, text, at)
            ended = text[at : at + 1] == '"'
            characters = self._unescaped(text[start:at])
            if self._key_parts is not None:
                self._key_parts.append(characters)
            elif self._key_path is not None and (characters or ended):
                pieces.append(Piece(self._key_path, characters, ended))
            if ended:
                self._end_string()
                at += 1
            elif at < len(text):
                self._rest = text[at:]
                self._broken = not _UNFINISHED.match(self._rest)
                break
        return pieces

    def _unescaped(self, characters: str) -> str:
        if "\\" not in characters:
            return characters
        try:
            return str(lenient.decode(f'"{characters}"'))
        except ValueError:
            self._broken = True
            return ""

    def _read_structure(self, text: str, at: int) -> int:
        at = _past(_UP_TO_STRUCTURE, text, at)
        match text[at : at + 1]:
            case '"':
                self._begin_string()
            case "{":
                self._keys.append("")
                self._key_comes = True
            case "[":
                self._keys.append(None)
                self._key_comes = False
            case "}" | "]":
                if self._keys:
                    self._keys.pop()
                self._key_comes = False
            case ",":
                self._key_comes = bool(self._keys) and self._keys[-1] is not None
            case _:  # a colon, or the end of what has arrived
                self._key_comes = False if text[at : at + 1] else self._key_comes
        return at + 1

    def _begin_string(self) -> None:
        self._in_string = True
        if self._key_comes:
            self._key_parts = []
        elif len(self._keys) <= _DEEPEST:
            key_path = tuple(key for key in self._keys if key is not None)
            self._key_path = key_path if key_path in self._key_paths else None

    def _end_string(self) -> None:
        self._in_string = False
        self._key_path = None
        if self._key_parts is not None:
            self._keys[-1] = "".join(self._key_parts)
            self._key_parts = None
            self._key_comes = False


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of the match at `at` of a pattern that always matches."""
    found = pattern.match(text, at)
    return found.end() if found else at
