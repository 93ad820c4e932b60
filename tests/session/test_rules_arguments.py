"""Strings of a call's arguments, read while the JSON arrives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.tool import KeyPath
from fairlead.session.rules.rule_blocks import ArgumentReader

PLACES = frozenset({("path",), ("content",), ("edits", "newText")})


def read(deltas: list[str], reader: ArgumentReader | None = None) -> list[tuple[KeyPath, str]]:
    """The strings that ended, and the beginning of one that did not."""
    reader = reader or ArgumentReader(PLACES)
    strings: list[tuple[KeyPath, str]] = []
    begun = False
    for delta in deltas:
        for piece in reader.feed(delta):
            before = strings.pop()[1] if begun else ""
            strings.append((piece.key_path, before + piece.text))
            begun = not piece.ended
    return strings


def cut(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]


#: Quotes, backslashes, halves of pairs, and letters that look like escapes after a backslash.
TEXT = st.text(alphabet='ab"\\/\n\t\x01ud83e0{}[],:é\u2028😀', max_size=20)
OTHER = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(
    path=TEXT,
    content=TEXT,
    edits=st.lists(st.fixed_dictionaries({"oldText": TEXT, "newText": TEXT, "other": OTHER}), max_size=3),
    other=OTHER,
    length=st.integers(1, 7),
    plain=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
def test_every_string_is_read_however_the_json_is_cut(
    path: str, content: str, edits: list[dict[str, Any]], other: object, length: int, plain: bool, indent: int | None
) -> None:
    arguments = {"other": {"path": other}, "path": path, "edits": edits, "0": other, "content": content}
    text = json.dumps(arguments, ensure_ascii=plain, indent=indent)
    texts = [(("edits", "newText"), edit["newText"]) for edit in edits]
    assert read(cut(text, length)) == [(("path",), path), *texts, (("content",), content)]


@given(st.text(alphabet='{}[]",:\\u0d8path', max_size=40), st.integers(1, 5))
def test_invalid_json_in_arguments_is_harmless(text: str, length: int) -> None:
    read(cut(text, length))


@pytest.mark.parametrize(
    ("deltas", "text"),
    [
        (['{"content": "\\ud83d', '\\ude00"}'], "😀"),
        (['{"content": "\\ud83d\\', 'ude00"}'], "😀"),
        (['{"content": "\\ud8', '3d\\ude00"}'], "😀"),
        (['{"content": "\\ud83d', 'x"}'], "\ufffdx"),
        (['{"content": "\\\\ud83d', '\\ude00"}'], "\\ud83d\ufffd"),
        (['{"content": "a\\', 'nb"}'], "a\nb"),
    ],
)
def test_an_escape_may_be_cut_in_two(deltas: list[str], text: str) -> None:
    assert read(deltas) == [(("content",), text)]


def test_text_is_given_before_its_end() -> None:
    reader = ArgumentReader(PLACES)
    assert [piece.text for piece in reader.feed('{"content": "def f')] == ["def f"]
    assert [piece.text for piece in reader.feed("():\\n")] == ["():\n"]
    (last,) = reader.feed('"')
    assert (last.text, last.ended) == ("", True)


def test_reading_stops_at_an_escape_that_does_not_exist() -> None:
    assert read(['{"content": "ab\\', 'q", "path": "c"}']) == [(("content",), "ab")]


def test_json_inside_of_a_text_is_at_its_place() -> None:
    assert read(['[{"newText": "a"}]'], ArgumentReader(PLACES, ("edits",))) == [(("edits", "newText"), "a")]
