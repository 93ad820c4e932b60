"""Terminal output becomes HTML with the same colours and no control sequences."""

from __future__ import annotations

import re

import pytest

from fairlead.export.ansi import Palette, lines


def drawn(output: str) -> str:
    return "\n".join(lines(output, Palette()))


@pytest.mark.parametrize(
    ("output", "html"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="c1">red</span> plain'),
        ("\x1b[1;92mbright\x1b[m", '<span class="bold c10">bright</span>'),
        ("\x1b[1mbold\x1b[22m not", '<span class="bold">bold</span> not'),
        ("\x1b[38;5;9mnamed", '<span class="c9">named</span>'),
        ("\x1b[38;5;196mcube", '<span class="fff0000">cube</span>'),
        ("\x1b[38;5;244mgrey", '<span class="f808080">grey</span>'),
        ("\x1b[38;2;1;2;255mtrue", '<span class="f0102ff">true</span>'),
        ("\x1b[38:2::1:2:255mcolons", '<span class="f0102ff">colons</span>'),
        ("\x1b[31m\x1b[39mdefault", "default"),
        ("\x1b[48;2;0;0;0mground", '<span class="fffffff-000000">ground</span>'),
        ("\x1b[2K\x1b[1;1Hcursor\x1b[?25l", "cursor"),
        ("\x1b]8;;http://example.com\x07link\x1b]8;;\x1b\\", "link"),
        ("10%\r50%\r100%\r\nnext", "100%\nnext"),
        ("a\x07b\x7f", "a\u2407b\u2421"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("\x1b[99999999999m\x1b[38;5mx\x1b[38;9mx\x1b", "xx"),
    ],
)
def test_sequences_are_drawn_or_left_out(output: str, html: str) -> None:
    assert drawn(output) == html


def test_a_colour_continues_over_lines_and_each_line_is_complete() -> None:
    found = lines("\x1b[32mone\ntwo\x1b[0m\nthree", Palette())
    assert found == [
        '<span class="c2">one</span>',
        '<span class="c2">two</span>',
        "three",
    ]


def test_a_colour_is_readable_in_both_themes() -> None:
    palette = Palette()
    lines("\x1b[38;2;255;255;0myellow", palette)
    light, dark = re.findall(r"#(\w{6})", palette.css())
    assert int(light[:2], 16) < 0xE0 and dark == "ffff3d"


def test_any_number_of_colours_needs_a_bounded_stylesheet() -> None:
    palette = Palette()
    for number in range(20_000):
        lines(f"\x1b[38;2;{number % 256};{number // 256};{number % 7}mx", palette)
    assert len(palette.css()) < 100_000
