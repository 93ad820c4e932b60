"""Key codes, and replies of the terminal that are not keys."""

from __future__ import annotations

import os
import pty
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from prompt_toolkit.keys import Keys

from fairlead.chat.input.keyboard import NEW_LINE, QUEUE, KeyInput, teach_keys
from fairlead.chat.input.terminal import background_in


@contextmanager
def keyboard() -> Generator[tuple[int, KeyInput]]:
    teach_keys()
    ours, theirs = pty.openpty()
    os.set_blocking(theirs, False)
    file = os.fdopen(theirs, "r")
    try:
        yield ours, KeyInput(file)
    finally:
        file.close()
        os.close(ours)


def typed(*parts: str) -> list[object]:
    with keyboard() as (terminal, keys):
        found: list[object] = []
        import termios
        import tty

        tty.setraw(keys.fileno(), termios.TCSANOW)
        for part in parts:
            os.write(terminal, part.encode())
            found += [press.key for press in keys.read_keys()]
        return [*found, *(press.key for press in keys.flush_keys())]


@pytest.mark.parametrize(
    ("sequence", "key"),
    [
        ("\x1b[13;2u", NEW_LINE),
        ("\x1b[27;2;13~", NEW_LINE),
        ("\x1b[13;3u", QUEUE),
        ("\x1b\r", QUEUE),
        ("\x1b[99;5u", Keys.ControlC),
        ("\x1b[27u", Keys.Escape),
        ("\x1b[9;2u", Keys.BackTab),
        ("\r", Keys.ControlM),
        ("\n", Keys.ControlJ),
    ],
)
def test_codes_of_terminals_are_understood(sequence: str, key: object) -> None:
    assert typed(sequence) == [key]


def test_alt_and_a_letter_is_escape_and_the_letter() -> None:
    assert typed("\x1b[98;3u") == [Keys.Escape, "b"]


def test_replies_of_the_terminal_are_not_keys() -> None:
    assert typed("a\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\b\x1b[?62;4cc") == ["a", "b", "c"]
    assert typed("a\x1b]11;rgb:1e1e", "/1e1e/1e1e\x07b") == ["a", "b"]


@pytest.mark.parametrize(
    ("reply", "background"),
    [
        ("\x1b]11;rgb:0000/0000/0000\x1b\\", "dark"),
        ("\x1b]11;rgb:ffff/fafa/f0f0\x07", "light"),
        ("\x1b]11;rgb:fd/f6/e3\x07", "light"),
        ("\x1b[?62c", None),
    ],
)
def test_the_background_of_the_terminal(reply: str, background: str | None) -> None:
    assert background_in(reply) == background


def test_a_paste_in_many_parts_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["before\x1b[200~", *["one line\r"] * 5000, "end\x1b[20", "1~after\x1b[200~again\x1b[201~"]
    with keyboard() as (_, keys):
        fed: list[str] = []
        feed = keys.vt100_parser.feed

        def read(count: int) -> str:
            return parts.pop(0)

        def count_and_feed(data: str) -> None:
            fed.extend([data] if data else [])
            feed(data)

        monkeypatch.setattr(keys, "_read", read)
        monkeypatch.setattr(keys.vt100_parser, "feed", count_and_feed)
        found = [press for _ in range(len(parts)) for press in keys.read_keys()]
    pastes = [press.data for press in found if press.key == Keys.BracketedPaste]
    assert pastes == ["one line\r" * 5000 + "end", "again"]
    assert "".join(press.data for press in found if press.key != Keys.BracketedPaste) == "beforeafter"
    assert len(fed) < 10


async def test_the_row_of_the_cursor_is_an_answer_and_not_a_key() -> None:
    with keyboard() as (terminal, keys):
        import tty

        tty.setraw(keys.fileno())
        first, last = keys.expect_position(), keys.expect_position()
        os.write(terminal, b"a\x1b[3;1R\x1b[2")
        found = [press.key for press in keys.read_keys()]
        assert not last.done()
        os.write(terminal, b"4;80Rb")
        found += [press.key for press in keys.read_keys()]
        assert found == ["a", "b"]
        assert last.result() == 23
        assert not first.done()
