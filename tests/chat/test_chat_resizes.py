"""Resizes at every moment of an answer: each of its words is on the screen or in the scrollback once."""

from __future__ import annotations

import math
import random
import re

import pytest
from tests.chat.terminal import WrappingTerminal
from tests.support.answers import WORD, a_size, an_answer, copies

from fairlead import PartialMessage, events
from fairlead.chat.input.editor import Editor
from fairlead.chat.status import Facts
from fairlead.chat.view.frame import Drawing, Frame
from fairlead.chat.view.screen import Screen
from fairlead.chat.view.theme import PLAIN
from fairlead.chat.view.transcript import Transcript
from fairlead.messages import TextContent
from fairlead.testing import SCRIPTED_MODEL


class Additions:
    """What extensions show."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self.above: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}


class Chat:
    """A chat with an answer that arrives, on a terminal whose size can change while a frame is drawn."""

    def __init__(self, columns: int, rows: int) -> None:
        self.terminal = WrappingTerminal(columns, rows)
        #: A size that the terminal gets after it was asked for its size so often.
        self._coming: tuple[int, tuple[int, int]] | None = None
        #: Whether the size has changed since the last frame.
        self._has_changed = False
        self._is_done = False
        self.transcript = Transcript(PLAIN, now=lambda: 0.0)
        self._screen = Screen(self.terminal.write, self._size, reflows=True)
        self._drawing = Drawing(self._size, self._screen, self.transcript, self._frame, self._cursor_row, {})
        self._editor = Editor(lambda: None)
        self.additions = Additions()
        self._partial = PartialMessage(SCRIPTED_MODEL, 0)
        self._partial.open()
        self.transcript.note("hello")
        self.draw()
        self.transcript.handle(events.MessageStart(self._partial.shell()))
        self.transcript.handle(events.BlockStarted(events.BlockStart(0, TextContent("")), self._partial))

    def add(self, text: str) -> None:
        self.transcript.handle(events.TextDelta(events.BlockDelta(0, text), self._partial))

    def end(self) -> None:
        self._is_done = True
        self.transcript.handle(events.AgentSettled())

    def resize(self, size: tuple[int, int], asked: int = 0) -> None:
        """Change the size, at once or while it is asked for."""
        self._coming = (asked, size)
        if asked == 0:
            self._size()

    def draw(self) -> None:
        if self._has_changed:
            self._has_changed = False
            self._drawing.on_resize()
        size = self._size()
        if self._screen.is_moved:
            self._screen.cursor_is_in(self.terminal.cursor[0])
            if self._size() != size:
                return
        self._drawing.draw(size)

    def _size(self) -> tuple[int, int]:
        if self._coming is not None:
            left, size = self._coming
            self._coming = (left - 1, size)
            if left == 0:
                self._coming, self._has_changed = None, True
                self.terminal.resize(*size)
        return self.terminal.size()

    def _frame(self, columns: int, rows: int) -> Frame:
        facts = Facts("~/project", "main", None, "a-model", "high", 50, 1000, 1)
        activity = None if self._is_done else ("Working", 0.0)
        return Frame(PLAIN, columns, rows, self._editor, None, None, facts, self.additions, ([], []), activity, "")

    async def _cursor_row(self, patience: float) -> int | None:
        return self.terminal.cursor[0]


@pytest.mark.parametrize("seed", range(40))
async def test_each_word_of_an_answer_is_there_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.chat.view.markdown._CHEAP", math.inf)  # every frame shows all that has arrived
    chance = random.Random(seed)
    text = an_answer(chance, 12)
    columns, rows = a_size(chance)
    chat = Chat(columns, max(15, rows))
    sizes = [chat.terminal.size()]
    at = 0
    while at < len(text):
        chunk = chance.choice((1, 5, 12, 40))
        chat.add(text[at : at + chunk])
        at += chunk
        if chance.random() < 0.05:
            sizes.append(a_size(chance))
            chat.resize(sizes[-1], chance.choice((0, 0, 1, 2, 3)))
        if chance.random() < 0.7:
            chat.draw()
            assert not copies(chat.terminal.text), sizes
    chat.end()
    chat.draw()
    chat.resize((200, 50))
    chat.draw()
    shown = chat.terminal.text
    assert sorted(WORD.findall(shown)) == sorted(WORD.findall(text)), sizes
    in_order = re.compile(r"\b[wcl]\d{3}\b")
    assert in_order.findall(shown) == in_order.findall(text), sizes


ROW = "| t001 t002 t003 t004 | t005 t006 t007 t008 t009 | t010 t011 t012 t013 | t014 t015 t016 t017 t018 |"


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (f"|{' name |' * 4}\n|{'---|' * 4}\n{ROW}\n", [(22, 32), (100, 7), (177, 43)]),
        (f"{ROW.replace('|', '').replace('t', 'w')}\n", [(180, 20), (22, 6), (90, 9)]),
        (f"- {ROW.replace('|', '').replace('t', 'l')}\n", [(180, 20), (22, 6), (180, 20)]),
    ],
    ids=["table", "paragraph", "item"],
)
async def test_a_word_that_arrives_while_the_size_changes_is_there_once(text: str, sizes: list[tuple[int, int]]) -> None:
    words = WORD.findall(text)
    for end in range(len(text)):
        chat = Chat(*sizes[0])
        chat.add(text[:end])
        chat.draw()
        for size in sizes[1:]:
            chat.resize(size)
            chat.draw()
        chat.add(text[end:])
        chat.end()
        chat.draw()
        assert WORD.findall(chat.terminal.text) == words, text[:end]


async def test_text_that_a_low_terminal_has_no_room_for_is_not_lost_when_it_becomes_narrow() -> None:
    chat = Chat(60, 5)
    chat.add("w000 w001")
    chat.draw()
    assert WORD.findall(chat.terminal.text) == ["w000", "w001"]
    chat.additions.above["a"] = ["widget " * 8]
    chat.draw()
    assert WORD.findall(chat.terminal.text) == []
    chat.resize((20, 5))
    chat.draw()
    chat.resize((60, 20))
    chat.draw()
    assert WORD.findall(chat.terminal.text) == ["w000", "w001"]
