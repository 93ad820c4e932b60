"""Markdown that streams in: how it looks, and that its division into pieces does not matter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.chat.view.markdown import MarkdownStream
from fairlead.chat.view.text import width, without_styles
from fairlead.chat.view.theme import DARK, PLAIN


def drawn(text: str, columns: int = 60) -> list[str]:
    """The lines of a whole text."""
    stream = MarkdownStream(PLAIN)
    stream.feed(text)
    stream.close()
    return [without_styles(line) for line in stream.take_final_lines(columns)]


def streamed(pieces: list[str], columns: int = 60) -> list[str]:
    """The lines of a text that arrives in pieces, with a frame after each."""
    stream = MarkdownStream(DARK, clock=lambda: 0.0)
    lines: list[str] = []
    for piece in pieces:
        stream.feed(piece)
        lines += stream.take_final_lines(columns)
        assert all(width(line.text) <= columns for line in stream.open(columns))
    stream.close()
    lines += stream.take_final_lines(columns)
    assert stream.open(columns) == []
    return lines


def test_blocks_have_a_blank_line_between_them() -> None:
    assert drawn("# Title\ntext\n\nmore\n```\ncode\n```\nend") == [
        "Title",
        "─────",
        "",
        "text",
        "",
        "more",
        "",
        "  code",
        "",
        "end",
    ]


def test_lists_keep_their_structure() -> None:
    text = "Before:\n- one\n- two\n  with more\n  1. inner\n  2. other\n- [x] done\n- [ ] open\n\n1. first\n1. second\n"
    assert drawn(text) == [
        "Before:",
        "• one",
        "• two",
        "  with more",
        "  1. inner",
        "  2. other",
        "☑ done",
        "☐ open",
        "",
        "1. first",
        "2. second",
    ]


def test_a_list_item_wraps_under_its_text() -> None:
    assert drawn("- alpha beta gamma delta", 14) == ["• alpha beta", "  gamma delta"]


def test_a_loose_list_stays_loose() -> None:
    assert drawn("- one\n\n- two\n\n  more") == ["• one", "", "• two", "", "  more"]


def test_a_quote_has_a_bar() -> None:
    assert [line.rstrip() for line in drawn("> quoted\n> text\n>\n> more")] == ["▎ quoted", "▎ text", "▎", "▎ more"]


def test_a_table_is_aligned() -> None:
    assert drawn("| name | size |\n|:---|---:|\n| a.py | 12 |\n| 你好 | 3 |") == [
        "name │ size",
        "─────┼─────",
        "a.py │   12",
        "你好 │    3",
    ]


def test_a_wide_table_wraps_its_cells() -> None:
    lines = drawn("| a | b |\n|---|---|\n| short | many words that do not fit on one line |", 30)
    assert lines[2:] == ["short │ many words that do not", "      │ fit on one line"]


def test_a_table_in_a_narrow_terminal_becomes_records() -> None:
    text = "| name | kind | about |\n|---|---|---|\n| a long name | another one | and a text |\n| b | c | d |"
    assert drawn(text, 20) == [
        "name: a long name",
        "kind: another one",
        "about: and a text",
        "────────────────────",
        "name: b",
        "kind: c",
        "about: d",
    ]


def test_links_show_their_address_once() -> None:
    assert drawn("[here](https://a.example/x) and <https://b.example>") == ["here (https://a.example/x) and https://b.example"]


def test_inline_styles_do_not_end_each_other() -> None:
    stream = MarkdownStream(DARK)
    stream.feed("**bold `code` bold** plain")
    stream.close()
    (line,) = stream.take_final_lines(60)
    code = "\x1b[1m" + DARK.code
    assert line == f"\x1b[1mbold \x1b[0m{code}code\x1b[0m\x1b[1m bold\x1b[0m plain"


def test_code_is_highlighted_and_keeps_its_spaces() -> None:
    stream = MarkdownStream(DARK)
    stream.feed("```python\ndef f():\n    return 'x'\n```\n")
    stream.close()
    lines = stream.take_final_lines(60)
    assert [without_styles(line) for line in lines] == ["  def f():", "      return 'x'"]
    assert "\x1b[38;5;110mdef" in lines[0]


def test_long_code_lines_are_broken_and_not_cut() -> None:
    assert drawn("```\nabcdefghij  klm\n```", 9) == ["  abcdefg", "  hij  kl", "  m"]


def test_a_finished_paragraph_is_final_before_the_text_ends() -> None:
    stream = MarkdownStream(PLAIN)
    stream.feed("First paragraph.\n\nSecond para")
    assert stream.take_final_lines(60) == ["First paragraph."]
    assert [line.text for line in stream.open(60)] == ["", "Second para"]


def test_list_items_are_final_when_the_next_begins() -> None:
    stream = MarkdownStream(PLAIN)
    stream.feed("1. one\n2. two\n3. thr")
    assert [without_styles(line) for line in stream.take_final_lines(60)] == ["1. one"]
    assert [without_styles(line.text) for line in stream.open(60)] == ["2. two", "3. thr"]


def test_a_list_that_streams_in_is_counted_as_a_whole() -> None:
    lines = streamed([f"1. item {number}\n" for number in range(4)])
    assert [without_styles(line) for line in lines] == ["1. item 0", "2. item 1", "3. item 2", "4. item 3"]


def test_a_long_code_block_becomes_final_in_parts() -> None:
    stream = MarkdownStream(DARK)
    stream.feed("```python\n" + "x = 1\n" * 200)
    assert len(stream.take_final_lines(60)) == 192
    assert len(stream.open(60)) == 8


def test_open_marks_are_closed_while_the_text_arrives() -> None:
    stream = MarkdownStream(PLAIN)
    stream.feed("some **bold tex")
    assert [without_styles(line.text) for line in stream.open(60)] == ["some bold tex"]


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07x", "a\x1b[2Jb", "`\x1b[31mx`", "```\n\x1b[2J\n```", "&#x1b;[2J", "| \x1b[2J |\n|---|\n"]
)
def test_escape_sequences_in_the_text_are_removed(text: str) -> None:
    assert not any("\x1b" in line for line in drawn(text))
    assert all("\x1b" not in piece for line in streamed(list(text)) for piece in without_styles(line))


PARTS = st.sampled_from(
    "# Title\n|para |words and more words |**|*|`|```\n|```py\n|x = '''\n|~~~\n|\n|\n\n|- |  - |    - |1. |2) |> |    |\t|--- "
    "|===\n|---\n|| a | b |\n||---|---|\n|[x](y)|<b>"
    "|<!--|-->|\\|&amp;|[ ] |  \n|你好|e\u0301|👍🏽|![i](u)|<br>|* |+ |10. a\n|1. b\n|10. |/* |*/ ".split("|")
)
DOCUMENTS = st.lists(PARTS, max_size=40).map("".join)


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, st.data())
def test_the_lines_do_not_depend_on_the_pieces(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    columns = data.draw(st.sampled_from([8, 20, 60]))
    assert streamed(pieces, columns) == streamed([text], columns)


def test_the_cost_is_linear() -> None:
    text = "Some words of a paragraph, with `code` and **bold**.\n\n- item one\n- item two\n\n```py\nx = 1\n```\n\n"

    def parsed(count: int) -> int:
        """How many characters the parser sees."""
        from fairlead.chat.view import markdown

        seen = 0
        whole = markdown.parser().parse

        def counting(source: str) -> object:
            nonlocal seen
            seen += len(source)
            return whole(source)

        markdown.parser().parse = counting  # pyright: ignore
        try:
            stream = MarkdownStream(PLAIN, clock=lambda: 0.0)
            for start in range(0, len(text) * count, 8):
                stream.feed((text * count)[start : start + 8])
                stream.take_final_lines(60)
                stream.open(60)
        finally:
            del markdown.parser().parse
        return seen

    assert parsed(40) < 11 * parsed(4)


@pytest.mark.parametrize("text", ["before\rafter", "before\r\nafter", "before\nafter"])
@pytest.mark.parametrize("size", [1, 100])
def test_a_carriage_return_ends_a_line_and_hides_nothing(text: str, size: int) -> None:
    assert streamed([text[at : at + size] for at in range(0, len(text), size)]) == ["before", "after"]
    code = f"```\n{text}\n```\n"
    assert streamed([code[at : at + size] for at in range(0, len(code), size)]) == ["  before", "  after"]


def test_code_that_arrives_faster_than_it_is_drawn_has_one_row_for_each_line() -> None:
    stream = MarkdownStream(PLAIN, clock=lambda: 0.0)  # it never becomes time for the next drawing
    stream.feed("```python\n" + "word = 1  # and a long remark\n" * 5000 + "x")
    stream.take_final_lines(60)
    stream.open(60)
    stream.feed(" = 1\ny = 2\nz")
    stream.take_final_lines(50)
    assert [line.text for line in stream.open(50)[-3:]] == ["  x = 1", "  y = 2", "  z"]
