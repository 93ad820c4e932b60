"""Reading a tool call's arguments while they arrive: the strings at chosen places in JSON that is not complete yet.

Each character is read once. (To parse all that has arrived again for each piece would take the square of its length.)
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

from fairlead.core import lenient

#: The keys that lead to a value; the lists on the way do not count: ("edits", "newText") is `{"edits": [{"newText": ...}]}`.
Place: TypeAlias = tuple[str, ...]

_NOTHING = re.compile(r'[^"{}\[\],:]*')
_HEX = "[0-9a-fA-F]"
_HALF = rf"u[dD][89abAB]{_HEX}{{2}}"
#: All that can be read at once. The first half of a surrogate pair waits for what comes after it.
_CHARACTERS = re.compile(
    r'(?:[^"\\]+|\\(?:["\\/bfnrt]|'
    rf"(?!{_HALF})u{_HEX}{{4}}|{_HALF}(?=[^\\]|\\u{_HEX}{{4}}|\\[^u])))*"
)
_UNFINISHED = re.compile(rf"\\(?:u{_HEX}{{0,3}}|{_HALF}(?:\\(?:u{_HEX}{{0,3}})?)?)?$")
#: Values that are nested more deeply are at no place anybody asks for.
_DEEPEST = 4


class Piece(Struct, frozen=True):
    """What has arrived of a string."""

    place: Place
    text: str
    ended: bool


class ArgumentReader:
    """Reads the strings at `places`. `inside` are the keys that lead to the JSON itself, if it is part of another one.

    JSON that is not valid ends the reading without an error: whoever runs the call says what is wrong with it.
    """

    def __init__(self, places: frozenset[Place], inside: Place = ()) -> None:
        self._places = places
        #: For each open container its current key; None for a list.
        self._keys: list[str | None] = list(inside)
        self._key_comes = False
        self._in_string = False
        #: Where the string that is being read is; None: it is a key, or at no place that is asked for.
        self._place: Place | None = None
        self._key_parts: list[str] | None = None
        #: The beginning of an escape whose end has not arrived.
        self._rest = ""
        self._broken = False

    def feed(self, delta: str) -> list[Piece]:
        """What `delta` brings of the strings."""
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
            elif self._place is not None and (characters or ended):
                pieces.append(Piece(self._place, characters, ended))
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
        at = _past(_NOTHING, text, at)
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
            place = tuple(key for key in self._keys if key is not None)
            self._place = place if place in self._places else None

    def _end_string(self) -> None:
        self._in_string = False
        self._place = None
        if self._key_parts is not None:
            self._keys[-1] = "".join(self._key_parts)
            self._key_parts = None
            self._key_comes = False


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a pattern that always matches ends."""
    found = pattern.match(text, at)
    return found.end() if found else at
