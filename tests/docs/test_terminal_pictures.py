"""Captured screens become pictures."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from scripts.terminal_svg import animation, parse, svg


def test_colours_and_weights_are_kept() -> None:
    text = "plain \x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mexact\x1b[39m \x1b[38;5;196mcube\x1b[m "
    text += "\x1b[7minverse\x1b[27m \x1b[3;4mlines\x1b[0m"
    (runs,) = parse(text, "dark").lines
    styles = {run.text.strip(): run.style for run in runs if run.text.strip()}
    assert styles["red"].flags == {"bold"} and styles["red"].foreground not in (None, styles["plain"].foreground)
    assert styles["exact"].foreground == "#010203" and styles["cube"].foreground == "#ff0000"
    assert styles["inverse"].flags == {"inverse"} and styles["lines"].flags == {"italic", "underline"}


def test_each_run_is_at_its_cell_and_says_how_wide_it_is() -> None:
    (runs,) = parse("ab\x1b[1m漢字\x1b[0mé!", "light").lines
    assert [(run.column, run.width) for run in runs] == [(0, 2), (2, 4), (6, 2)]
    places = re.findall(r'<text x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)"', svg("ab\x1b[1m漢字\x1b[0mé!", "light"))
    assert [float(width) for _, width in places] == [16.8, 33.6, 16.8]
    assert (places[0][0], places[1][0]) == ("16.0", "32.8")


def test_the_picture_is_valid_and_nothing_in_it_becomes_markup() -> None:
    picture = ElementTree.fromstring(svg("<script>&\x1b]0;title\x07 \x1b[41m  \x1b[0m\x1b(Bx\n\n  end", "dark", title="<t>"))
    texts = ["".join(each.itertext()) for each in picture.iter() if each.tag.endswith("}text")]
    assert texts == ["<t>", "<script>&", "x", "end"]
    assert sum(each.tag.endswith("}rect") for each in picture.iter()) == 2, "the frame, and the red ground"


def test_animation_draws_a_row_once_for_each_time_it_stays_the_same() -> None:
    picture = animation([(7.0, "always\nfirst"), (8.0, "always\nsecond"), (10.0, "always\nfirst\nlast")], columns=10)
    texts = ["".join(each.itertext()) for each in ElementTree.fromstring(picture).iter() if each.tag.endswith("}text")]
    assert texts == ["fairlead", "always", "first", "second", "first", "last"]
    assert "animation: 8.0s" in picture, "three seconds, and five for the last frame"
    assert re.search(r"@keyframes k1 \{ 0% \{ visibility: hidden; \} 12.500% \{ visibility: visible; \} 37.500%", picture)


def test_animation_stands_still_at_its_last_frame_where_less_motion_is_wanted() -> None:
    picture = animation([(0.0, "first"), (1.0, "second")], columns=10)
    assert ".f { visibility: hidden;" in picture and ".f.last { visibility: visible; }" in picture
    assert "@media (prefers-reduced-motion: reduce) { .f { animation: none; } }" in picture
    groups = re.findall(r'<g class="([^"]+)">\n<text[^>]*>(\w+)<', picture)
    assert [(name.split()[:-1], text) for name, text in groups] == [(["f"], "first"), (["f", "last"], "second")]
