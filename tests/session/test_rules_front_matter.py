"""The front matter of rule files: what is read, and what is refused with the line it is in."""

from __future__ import annotations

import pytest

from fairlead.session.front_matter import FrontMatterError, Value, split


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("key: plain text", "plain text"),
        ("key:   spaces around   ", "spaces around"),
        ("key: text # comment", "text"),
        ("key: C#sharp", "C#sharp"),
        ("key: a: b", "a: b"),
        ("key: *.{ts,tsx}", "*.{ts,tsx}"),
        (r"key: \bany\b|x", r"\bany\b|x"),
        (r"key: '\d+'", r"\d+"),
        ("key: 'it''s'  # comment", "it's"),
        (r'key: "\\d \" \t \u0041 \x41 \U0001F600"', '\\d " \t A A \U0001f600'),
        ('key: "# no comment"', "# no comment"),
        ("key:", ""),
        ("key: # comment", ""),
        ("key: []", []),
        ("key: [a, 'b, c' , \"d\" ,]  # comment", ["a", "b, c", "d"]),
        ("key:\n- a\n- 'b' # comment", ["a", "b"]),
        ("key:\n  # comment\n  - a\n\n  - b: c", ["a", "b: c"]),
    ],
)
def test_values_are_texts_or_lists_of_texts(line: str, value: Value) -> None:
    assert split(f"---\n{line}\n---\nbody")[0] == {"key": value}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_rest_is_the_body(end: str) -> None:
    text = end.join(["---", "a: 1", "", "# comment", "b: 2", "---", "", "# Title", "", "---", "more", ""])
    assert split(text) == ({"a": "1", "b": "2"}, "# Title\n\n---\nmore")


def test_a_file_without_front_matter_is_all_body() -> None:
    assert split("\nJust text.\n---\na: b\n---\n") == ({}, "Just text.\n---\na: b\n---")
    assert split("") == ({}, "")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["key: [a-z]+"], "line 2: key: + after the list. Put a text that begins with [ in quotes."),
        (["key: [a, b"], "line 2: key: the list has no ]"),
        (["key: [a{1,2}]"], "line 2: key: the list has no ]"),
        (["key: 'open"], "line 2: key: the quote at its beginning is never closed."),
        (["key: 'a' b"], "line 2: key: b after the closing quote."),
        ([r'key: "\d+"'], r"line 2: key: \d means nothing in double quotes."),
        ([r'key: "\ud800"'], r"line 2: key: \ud800 means nothing in double quotes."),
        (["key: |", "  text"], "line 2: key: expected a text on this line."),
        (["key: {a: b}"], "line 2: key: expected a text on this line."),
        (["key: a", "  b"], "line 3: expected `key: value`."),
        (["key:", "  inner: a"], "line 3: expected `key: value`."),
        (["key:", "- [a]"], "line 3: key: lists in lists"),
        (["- a"], "line 2: an item of a list, and no list."),
        (["key: a", "- b"], "line 3: an item of a list, and no list."),
        (["key: a", "", "key: b"], "line 4: key is there twice."),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(FrontMatterError) as refused:
        split("\n".join(["---", *lines, "---", "body"]))
    assert str(refused.value).startswith(said)


def test_front_matter_has_to_end() -> None:
    with pytest.raises(FrontMatterError, match="has no end"):
        split("---\nkey: value\n")


@pytest.mark.timeout(20)
def test_long_lines_are_read_in_one_go() -> None:
    """In one pass each: to look for a comment or an item from every place again would take minutes."""
    blank = " " * 400_000
    lines = [f"a: x{blank}x", f"b: [{'y,' * 400_000}]", 'c: "' + "\\n" * 400_000 + '"', *["d:"], *["- z"] * 100_000]
    fields, _ = split("\n".join(["---", *lines, "---"]))
    assert fields == {"a": f"x{blank}x", "b": ["y"] * 400_000, "c": "\n" * 400_000, "d": ["z"] * 100_000}
