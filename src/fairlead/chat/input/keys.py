"""Key codes that prompt_toolkit does not know, and replies of the terminal that are not keys."""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.keys import Keys

from fairlead.chat.input.terminal import REPLIES

#: Stands for Shift+Enter and Ctrl+Enter. prompt_toolkit has no names for them, and no terminal sends F24.
NEW_LINE = Keys.F24
#: Stands for Alt+Enter.
QUEUE = Keys.F23

#: The reply to the question where the cursor is, and its beginning at the end of what was read.
_POSITION = re.compile(r"\x1b\[([0-9]+);[0-9]+R")
_OPEN_POSITION = re.compile(r"\x1b\[[0-9;]*$")
#: The beginning of such a reply, at the end of what was read.
_OPEN_REPLY = re.compile(r"\x1b\][0-9;:a-zA-Z/]*\x1b?$|\x1b\[\?[0-9;]*$")
_LONGEST_REPLY = 64
#: What a terminal sends before and after a paste, and how much is read at once.
_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_CHUNK = 65536
#: Modifiers of the kitty protocol, plus one: shift 1, alt 2, ctrl 4.
_SHIFT, _ALT, _CTRL = 1, 2, 4
_NAMED = {9: "\t", 13: "\r", 27: "\x1b", 127: "\x7f", 32: " "}


def teach_keys() -> None:
    """Let prompt_toolkit's parser understand the codes of the kitty protocol and of xterm's modifyOtherKeys."""
    table: dict[str, Any] = ANSI_SEQUENCES
    for code in (*range(33, 127), *_NAMED):
        for modifiers in range(8):
            # A terminal sends plain characters as themselves.
            if code in _NAMED or modifiers & (_ALT | _CTRL):
                key = _key(code, modifiers)
                table[f"\x1b[{code};{modifiers + 1}u"] = key
                table[f"\x1b[27;{modifiers + 1};{code}~"] = key
        if code in _NAMED:
            table[f"\x1b[{code}u"] = _key(code, 0)
    table["\x1b\r"] = table["\x1b\n"] = QUEUE


def _key(code: int, modifiers: int) -> Any:
    """Return what prompt_toolkit calls a key: a name, a character, or several of them."""
    if code == 13 and modifiers:
        return QUEUE if modifiers & _ALT else NEW_LINE
    character = _NAMED.get(code) or chr(code)
    key: Any = ANSI_SEQUENCES.get(character, character)
    if code == 9 and modifiers & _SHIFT:
        key = Keys.BackTab
    elif modifiers & _CTRL and character.isalpha():
        key = ANSI_SEQUENCES[chr(ord(character.lower()) & 0x1F)]
    elif modifiers & _CTRL and character in "@[\\]^_/ ":
        key = ANSI_SEQUENCES[chr(ord({"/": "_", " ": "@"}.get(character, character)) & 0x1F)]
    elif modifiers & _SHIFT:
        key = character.upper() if character.isalpha() else key
    return (Keys.Escape, key) if modifiers & _ALT else key


class KeyInput(Vt100Input):
    """The keys of a terminal, without the replies that a terminal sends to questions. It leaves the modes of the terminal alone.

    Args:
        terminal: The terminal, as an open text file.
        typed: Keys that were read before.
    """

    def __init__(self, terminal: TextIO, typed: str = "") -> None:
        super().__init__(terminal)
        self._held = ""
        #: How many replies with the row of the cursor are expected, and what waits for the last one.
        self._positions = 0
        self._position: asyncio.Future[int] | None = None
        #: The parts of a paste whose end has not been read.
        self._paste: list[str] = []
        self._read = self.stdin_reader.read
        self.stdin_reader.read = self._read_keys
        if typed:
            self.vt100_parser.feed(typed)
            store_typeahead(self, self._buffer)
            self._buffer = []

    def raw_mode(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()

    def cooked_mode(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()

    def expect_position(self) -> asyncio.Future[int]:
        """Return the row of the cursor, from 0, as the terminal will say it. Call it before each question."""
        self._positions += 1
        self._position = asyncio.get_running_loop().create_future()
        return self._position

    def _without_positions(self, text: str) -> str:
        while self._positions and (found := _POSITION.search(text)) is not None:
            text = text[: found.start()] + text[found.end() :]
            self._positions -= 1
            if not self._positions and self._position is not None and not self._position.done():
                self._position.set_result(int(found[1]) - 1)
        return text

    def _read_keys(self, count: int = 1024) -> str:
        text = self._read(_CHUNK)
        if self._paste:
            # prompt_toolkit searches all of a paste again for each part of it, so it gets the whole paste at once.
            end = self._paste[-1][-len(_PASTE_END) :] + text
            self._paste.append(text)
            if _PASTE_END not in end:
                return ""
            text = "".join(self._paste)
            self._paste = []
        else:
            text = self._without_positions(REPLIES.sub("", self._held + text))
        self._held = ""
        begin = text.rfind(_PASTE)
        if begin >= 0 and _PASTE_END not in text[begin:]:
            self._paste = [text[begin:]]
            return text[:begin]
        found = _OPEN_REPLY.search(text) or (_OPEN_POSITION.search(text) if self._positions else None)
        if found is not None and len(text) - found.start() < _LONGEST_REPLY:
            self._held, text = text[found.start() :], text[: found.start()]
        return text
