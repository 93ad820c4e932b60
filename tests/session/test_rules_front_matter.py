"""Front matter: what is read, and what is refused with the line it is in."""

from __future__ import annotations

import pytest

from fairlead.session.front_matter import FrontMatterError, Value, as_text, as_texts, pick, split


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers that PyYAML may have."""
    if request.param == "python":
        monkeypatch.delattr("yaml.CSafeLoader", raising=False)


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ("key: plain text", "plain text"),
        ("key:   spaces around   ", "spaces around"),
        ("key: text # comment", "text"),
        ("key: C#sharp", "C#sharp"),
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
        ("key:\n  # comment\n  - a\n\n  - b", ["a", "b"]),
        ("key: >-\n  one\n  two\n\n  three", "one two\nthree"),
        ("key: |\n  one\n    two", "one\n  two"),
        ("key: one\n  two", "one two"),
        ("key: &name text", "text"),
        ("key:\n  inner: a\n  list: [b, {c: d}]", {"inner": "a", "list": ["b", {"c": "d"}]}),
        ("key: {a: [b]}", {"a": ["b"]}),
        ("key:\n- [a]", [["a"]]),
    ],
)
def test_texts_lists_and_maps_are_read(lines: str, value: Value) -> None:
    assert split(f"---\n{lines}\n---\nbody")[0] == {"key": value}


@pytest.mark.parametrize("text", ["1.10", "007", "0x1F", "on", "No", "true", "null", "~", "2026-01-31", "1:30", "=", "<<", "1e3"])
def test_a_plain_value_is_the_text_that_was_written(text: str) -> None:
    assert split(f"---\nkey: {text}\n{text}: key\n---\n")[0] == {"key": text, text: "key"}


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ("key: a: b", "a: b"),
        ("key: *.{ts,tsx}", "*.{ts,tsx}"),
        ("key: *.ts, 'it' # comment", "*.ts, 'it'"),
        ("key: *name", "*name"),
        ("key: !src/**", "!src/**"),
        ("key: @scope/name", "@scope/name"),
        ("key: %d", "%d"),
        ("key:\ttext", "text"),
        ("key:\n  - *.ts\n  - `x`\n  - plain", ["*.ts", "`x`", "plain"]),
        ("key: [*.ts, \"*.tsx\", it's, 'a, b', ]  # comment", ["*.ts", "*.tsx", "it's", "a, b"]),
        ("key: [src/**/*.ts, **/*.md]", ["src/**/*.ts", "**/*.md"]),
        ("key: [@scope/a, %b, `c`, !d]", ["@scope/a", "%b", "`c`", "!d"]),
        ("key: &amp; more", "&amp; more"),
        ("key: > a quote", "> a quote"),
        ("key: | a pipe", "| a pipe"),
        ("key: Use when: it's\n  over two lines # comment", "Use when: it's over two lines"),
        ("key: Use when:\n  - one\n  - two", "Use when: - one - two"),
    ],
)
def test_plain_texts_that_yaml_refuses_are_texts(lines: str, value: Value) -> None:
    fields, _ = split(f"---\nother: 'it''s'\n{lines}\nmore: >-\n  a: b\n---\nbody")
    assert fields == {"other": "it's", "key": value, "more": "a: b"}


@pytest.mark.parametrize(
    ("long", "text"), [("|\n  Use it:\n\n  - it's", "Use it:\n\n- it's\n"), ("'Use it:\n  - one'", "Use it: - one")]
)
def test_quotes_are_never_put_inside_a_longer_text(long: str, text: str) -> None:
    assert split(f"---\nlong: {long}\nkey: *.ts\n---\n")[0] == {"long": text, "key": "*.ts"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_rest_is_the_body(end: str, mark: str) -> None:
    text = mark + end.join(["---", "a: 1", "", "# comment", "b: 2", "---", "", "# Title", "", "---", "more", ""])
    assert split(text) == ({"a": "1", "b": "2"}, "# Title\n\n---\nmore")


def test_a_file_without_front_matter_is_all_body() -> None:
    assert split("\nJust text.\n---\na: b\n---\n") == ({}, "Just text.\n---\na: b\n---")
    assert split("") == ({}, "")
    assert split("---\n---\nx") == split("---\n# comment\n---\nx") == ({}, "x")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["key: [a-z]+"], "line 2: "),
        (["a: b", "key: [a, b"], "line 3: while parsing a flow sequence"),
        (["a: b", "key: 'open"], "line 3: while scanning a quoted scalar: found unexpected end of stream."),
        (["key: 'a' b"], "line 2: "),
        ([r'key: "\d+"'], "line 2: while"),
        ([r'key: "\ud800"'], "line 2: "),
        (["key: |", "text"], "line 3: "),
        (["- a"], "line 2: expected `key: value`."),
        (["text"], "line 2: expected `key: value`."),
        (["key: a", "", "key: b"], "line 4: key is there twice."),
        (["key:", "  in: a", "  in: b"], "line 4: in is there twice."),
        (["? [a]", ": b"], "line 2: expected a text as the key, found a list."),
        (["a: &x [b]", "key: *x"], "line 3: *x refers to another value."),
        (["key: !!binary aGk="], "line 2: the tag tag:yaml.org,2002:binary is not supported."),
        (["key: !!python/object/apply:os.system [x]"], "line 2: the tag tag:yaml.org,2002:python/object/apply:os.system is"),
        (["a: b", "--- # again", "c: d"], "line 3: a second document begins here."),
        (["key: " + "[" * 40 + "]" * 40], "line 2: values are nested more than 32 deep."),
        (["key: " + "x" * 70_000], "line 1: the front matter is longer than 65,536 characters."),
        (["key: a\x07"], "the front matter is not text: unacceptable character #x0007"),
    ],
)
def test_unsupported_front_matter_is_refused_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(FrontMatterError) as refused:
        split("\n".join(["---", *lines, "---", "body"]))
    assert str(refused.value).startswith(said)


def test_the_hint_says_what_to_do_about_special_characters() -> None:
    with pytest.raises(FrontMatterError, match="Put texts with special characters in single quotes"):
        split('---\nkey: "\\d"\n---\n')


def test_aliases_do_not_grow() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in zip("abcdefgh", "bcdefghi", strict=True)]
    with pytest.raises(FrontMatterError, match="line 3: \\*a refers to another value"):
        split("\n".join(["---", *lines, "---"]))


def test_front_matter_has_to_end() -> None:
    with pytest.raises(FrontMatterError, match="has no end"):
        split("---\nkey: value\n")


def test_texts_of_some_keys_are_picked() -> None:
    text = "---\nname: n\ndescription: |\n  d\nmetadata: {a: b}\ntools: [a]\n---\nbody"
    assert pick(text, ["name", "description", "missing"]) == ({"name": "n", "description": "d"}, "body")
    with pytest.raises(FrontMatterError, match=r"^tools: expected a text, found a list\.$"):
        pick(text, ["tools"])


@pytest.mark.parametrize(
    "other", ["[file] [line]", "{{name}}", "'a' b", "[a-z]+", "&a [b]\nhint: *a", "!!map {}", "\n  - a\n  b", "a\nother: b"]
)
def test_unknown_front_matter_keys_are_ignored(other: str) -> None:
    text = f"---\nname: n\nother: {other}\ndescription: Use when: d\n---\nbody"
    assert pick(text, ["name", "description"]) == ({"name": "n", "description": "Use when: d"}, "body")
    with pytest.raises(FrontMatterError, match="line "):
        split(text)


def test_an_error_under_a_picked_key_names_its_line() -> None:
    with pytest.raises(FrontMatterError, match=r"^line 4: "):
        pick("---\nname: n\nother: [a] b\ndescription: 'a' b\n---\nbody", ["name", "description"])


@pytest.mark.parametrize("lines", ["key: text\n  other: text", "key: Use when: a\n  other: text"])
def test_an_indented_key_is_not_taken_for_text(lines: str) -> None:
    with pytest.raises(FrontMatterError, match="mapping values are not allowed"):
        split(f"---\n{lines}\n---\n")


def test_a_value_of_another_kind_is_reported() -> None:
    assert (as_text(" a\n"), as_texts("a"), as_texts(["a", "b\n"])) == ("a", ["a"], ["a", "b"])
    with pytest.raises(ValueError, match=r"expected a text, found an object\."):
        as_text({"a": "b"})
    with pytest.raises(ValueError, match=r"expected a text or a list of texts, found an object\."):
        as_texts({"a": "b"})
    with pytest.raises(ValueError, match=r"expected a text or a list of texts, found a list in a list\."):
        as_texts([["a"]])


@pytest.mark.timeout(20)
def test_long_values_are_read_in_one_go() -> None:
    """In one pass each: to look for a comment or an item from every place again would take minutes."""
    blank = " " * 30_000
    for lines, value in (
        ([f"a: x{blank}x"], f"x{blank}x"),
        ([f"a: x{blank}: x"], f"x{blank}: x"),
        ([f"a: [{'y,' * 30_000}]"], ["y"] * 30_000),
        ([f"a: [*, {'y,' * 30_000}]"], ["*"] + ["y"] * 30_000),
        ([f"a: [*,{blank}]"], ["*"]),
        (['a: "' + "\\n" * 30_000 + '"'], "\n" * 30_000),
        (["a:", *["- z"] * 15_000], ["z"] * 15_000),
    ):
        assert split("\n".join(["---", *lines, "---"]))[0] == {"a": value}
