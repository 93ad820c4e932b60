"""The editor of the chat: rows on the screen, folded pastes, new lines."""

from __future__ import annotations

import pytest

from fairlead.chat.input.editor import Editor
from fairlead.chat.view.text import width
from fairlead.chat.view.theme import PLAIN


def an_editor(text: str = "", at: int | None = None) -> Editor:
    editor = Editor(lambda: None)
    editor.set_text(text)
    if at is not None:
        editor.buffer.cursor_position = at
    return editor


def test_a_long_line_breaks_at_a_space_and_the_cursor_is_at_its_end() -> None:
    lines, cursor = an_editor("the quick brown fox").draw(PLAIN, 15, 5)
    assert lines == ["> the quick ", "  brown fox"]
    assert cursor == (1, 11)


def test_a_word_longer_than_a_row_is_cut() -> None:
    lines, _ = an_editor("a" * 25).draw(PLAIN, 13, 5)
    assert lines == [f"> {'a' * 10}", f"  {'a' * 10}", f"  {'a' * 5}"]


@pytest.mark.parametrize("text", ["日本語のテキスト" * 4, "é" * 40, "a\tb\x01c", "👩‍👩‍👧 family " * 3])
def test_no_row_is_wider_than_the_editor(text: str) -> None:
    lines, (row, column) = an_editor(text).draw(PLAIN, 20, 20)
    assert all(width(line) <= 20 for line in lines)
    assert row == len(lines) - 1 and column <= 20


@pytest.mark.parametrize("text", ["👍🏽 ok", "🇩🇪 de", "👩‍👩‍👧‍👦", "日本", "e\u0301", "a\tb", "\x1b[m", "a\u202eb\u2028"])
def test_the_cursor_is_behind_the_last_character_that_the_user_sees(text: str) -> None:
    lines, cursor = an_editor(text).draw(PLAIN, 40, 3)
    assert cursor == (0, width(lines[0]))


def test_the_cursor_does_not_move_into_the_middle_of_a_character_on_another_row() -> None:
    editor = an_editor("👍🏽👍🏽👍🏽\nabcd")
    editor.draw(PLAIN, 40, 3)
    assert editor.move_row(-1) and editor.buffer.cursor_position == 4


def test_a_text_with_more_rows_than_fit_shows_those_around_the_cursor() -> None:
    text = "\n".join(f"line {number}" for number in range(20))
    lines, cursor = an_editor(text).draw(PLAIN, 40, 4)
    assert lines == ["  line 16", "  line 17", "  line 18", "  line 19"] and cursor == (3, 9)
    lines, cursor = an_editor(text, 0).draw(PLAIN, 40, 4)
    assert lines[0] == "> line 0" and cursor == (0, 2)


def test_the_cursor_moves_by_rows_of_the_screen() -> None:
    editor = an_editor("the quick brown fox\nend", 0)
    editor.draw(PLAIN, 15, 5)
    assert editor.move_row(1) and editor.buffer.cursor_position == 10
    assert editor.move_row(1) and editor.buffer.cursor_position == 20
    assert not editor.move_row(1)
    assert editor.move_row(-1) and editor.move_row(-1) and not editor.move_row(-1)


def test_a_long_paste_is_folded_and_sent_in_full() -> None:
    editor = an_editor("look: ")
    pasted = "\r\n".join(f"row {number}" for number in range(120))
    editor.paste(pasted)
    assert editor.text == "look: [paste #1, 120 lines]"
    editor.paste("x" * 5000)
    assert editor.text == "look: [paste #1, 120 lines][paste #2, 5,000 characters]"
    assert editor.take() == "look: " + pasted.replace("\r\n", "\n") + "x" * 5000
    assert editor.text == ""


def test_the_newline_at_the_end_of_a_paste_does_not_begin_another_line() -> None:
    editor = an_editor()
    editor.paste("row\n" * 10_000)
    assert editor.text == "[paste #1, 10,000 lines]"
    assert editor.take() == "row\n" * 10_000


def test_a_short_paste_stays_as_it_is() -> None:
    editor = an_editor()
    editor.paste("one\rtwo")
    assert editor.text == "one\ntwo"


def test_a_mark_that_the_user_typed_stands_for_itself() -> None:
    editor = an_editor("[paste #7, 3 lines]")
    assert editor.take() == "[paste #7, 3 lines]"


def test_backspace_deletes_the_mark_of_a_paste_as_a_whole() -> None:
    editor = an_editor("a")
    editor.paste("\n" * 50)
    editor.delete_before()
    assert editor.text == "a"
    editor.delete_before()
    assert editor.text == ""


def test_a_backslash_before_a_new_line_goes_away() -> None:
    editor = an_editor("one\\")
    editor.break_line()
    editor.insert("two")
    assert editor.text == "one\ntwo"


def test_an_empty_editor_shows_a_hint() -> None:
    lines, cursor = an_editor().draw(PLAIN, 40, 3, "say something")
    assert lines == ["> say something"] and cursor == (0, 2)


@pytest.mark.parametrize("seen", ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "e\u0301", "日", "x", "\n"])
def test_keys_move_and_delete_by_what_the_user_sees_as_one_character(seen: str) -> None:
    text = f"ab\n{seen}{seen}ä"
    editor = an_editor(text)
    editor.buffer.cursor_left()
    assert editor.buffer.cursor_position == len(text) - 1
    if seen != "\n":  # these keys stay in their line
        for count in (1, 2, 2):
            editor.buffer.cursor_left()
            assert editor.buffer.cursor_position == len(text) - 1 - min(count, 2) * len(seen)
        editor.buffer.cursor_right()
        editor.buffer.cursor_right()
        assert editor.buffer.cursor_position == len(text) - 1
    editor.delete_before()
    assert editor.text == f"ab\n{seen}ä"
    editor.buffer.cursor_position -= len(seen)
    editor.buffer.delete()
    assert (editor.text, editor.buffer.cursor_position) == ("ab\nä", 3)
    editor.delete_before()
    editor.buffer.delete()
    assert (editor.text, editor.buffer.cursor_position) == ("ab", 2)
    editor.buffer.delete()
    assert editor.text == "ab"
    editor.buffer.cursor_position = 0
    editor.delete_before()
    assert editor.text == "ab"
