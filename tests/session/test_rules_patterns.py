"""The patterns of rules: which library takes them, what they see of a text that grows, and how long they may take."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fairlead.session.rules.rule_patterns import Passage, PatternError, PatternTimeout, compile_pattern, either, occurs

#: Takes time exponential in the length of a row of x.
EXPLOSIVE = "^(?!q)(x|xx|xxx)+y"


@pytest.mark.parametrize(
    ("source", "engine", "text"),
    [
        (r"\bcat\b", "re2", "a cat sat"),
        (r"(?i)TODO|fixme", "re2", "Fixme"),
        (r"(?<name>a)+\d{2,}", "re2", "xaa42"),
        (r"(?s)a.*b", "re2", "a\n\nb"),
        ("größe|日本", "re2", "die größe"),
        (r"\Qa+b", "re2", "a+b"),
        (r"(?<!no )cat", "regex", "a cat"),
        (r"cat(?!egory)", "regex", "cats"),
        (r"(\w)\1", "regex", "hello"),
        (r"a{1001}|\u0062", "regex", "b"),
        (r"a++b", "regex", "aab"),
    ],
)
def test_re2_takes_what_it_can_and_regex_the_rest(source: str, engine: str, text: str) -> None:
    pattern = compile_pattern(source)
    assert pattern.engine == engine
    assert occurs(pattern, Passage(text)) and not occurs(pattern, Passage("--- ---"))


@pytest.mark.parametrize("source", ["(", "a**", "[", r"(?!a)\q", "(?u)(?!a)", "", "a" * 5001, "a\b", "(?!\ud800)("])
def test_a_pattern_that_neither_takes_is_refused(source: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(source)


def test_letters_and_digits_are_ascii_in_both() -> None:
    for source in (r"\w\d", r"\w\d(?!x)"):
        assert not occurs(compile_pattern(source), Passage("é٣"))
        assert occurs(compile_pattern(source), Passage("e3"))


@pytest.mark.parametrize("suffix", ["", "(?!#)"])
def test_text_before_the_passage_is_lookbehind_only(suffix: str) -> None:
    """With and without the suffix, that is, in both libraries."""
    assert not occurs(compile_pattern("^cat" + suffix), Passage("a cat", 2))
    assert not occurs(compile_pattern(r"\bcat" + suffix), Passage("ütomcat", 4))
    assert not occurs(compile_pattern("ü" + suffix), Passage("üüüa", 3))
    assert occurs(compile_pattern("(?m)^cat" + suffix), Passage("ü\ncat", 2))
    assert occurs(compile_pattern(r"\bcat" + suffix), Passage("ü cat", 2))
    assert not occurs(compile_pattern("(?<!tom)cat" + suffix), Passage("tomcat", 3))
    assert occurs(compile_pattern("(?<=tom)cat" + suffix), Passage("tomcat", 3))


@pytest.mark.parametrize("suffix", ["", "(?!#)"])
@pytest.mark.parametrize(
    ("source", "so_far", "held_back"),
    [
        ("cat", "a cat", False),
        (r"cat\b", "a cat", True),
        (r"cat\B", "a cat", True),
        (r"cat$", "a cat", True),
        (r"cat\b", "a cat.", False),
        (r"cat\b|category?", "a categor", False),
        (r"cat\b.*", "a cat sat", False),
        (r"(?m)^cat\s*$", "cat", True),
        (r"(?m)^cat\s*$", "cat\n", False),
    ],
)
def test_a_match_that_the_next_character_could_undo_waits_for_it(source: str, so_far: str, held_back: bool, suffix: str) -> None:
    pattern = compile_pattern(source + suffix) if "|" not in source else compile_pattern(f"(?:{source}){suffix}")
    assert occurs(pattern, Passage(so_far, complete=False)) is not held_back
    assert occurs(pattern, Passage(so_far, complete=True)) is not (held_back and source == r"cat\B")


def test_either_matches_where_one_of_them_does() -> None:
    patterns = [compile_pattern(source) for source in ("(?i)a|b", r"\bc\b", "(?<n>d)e", "(?<n>f)", "^g")]
    one = either(patterns)
    assert one is not None
    for text, found in [("A", True), ("C", False), ("c", True), ("de", True), ("E", False), ("xf", True), ("xg", False)]:
        assert occurs(one, Passage(text)) is found, text
    assert not occurs(one, Passage("xg", 1))


def test_quotations_that_are_not_closed_are_not_joined() -> None:
    """Joined, the first would swallow the second up to its end."""
    assert either([compile_pattern(r"\Qa"), compile_pattern(r"\Qb\E")]) is None


def test_spans_are_in_characters() -> None:
    for source in ("c+", "c+(?!x)"):
        assert list(compile_pattern(source).spans("äcc😀c")) == [(1, 3), (4, 5)]


def test_a_search_that_explodes_is_cut_off() -> None:
    with pytest.raises(PatternTimeout):
        occurs(compile_pattern(EXPLOSIVE), Passage("x" * 100))
    with pytest.raises(PatternTimeout):
        list(compile_pattern(EXPLOSIVE).spans("x" * 100))


def test_the_same_in_re2_takes_no_time() -> None:
    pattern = compile_pattern(EXPLOSIVE.replace("(?!q)", ""))
    assert pattern.engine == "re2" and not occurs(pattern, Passage("x" * 100_000))


def test_the_libraries_are_loaded_for_conditions_alone() -> None:
    program = """
import sys
from fairlead.session.rules.rule_keeper import RuleWatch
from fairlead.session.rules.stream_rules import Rule, RuleSource

def rule(**fields):
    return Rule("a", "a.md", "No.", RuleSource("native", "fairlead", "a.md", "user"), **fields)

def loaded():
    return [name for name in ("re2", "regex") if name in sys.modules]

RuleWatch([rule(description="no condition")]).begin()
assert loaded() == [], loaded()
RuleWatch([rule(condition=["a"])])
assert loaded() == ["re2"], loaded()
RuleWatch([rule(condition=["(?!a)"])])
assert loaded() == ["re2", "regex"], loaded()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_bad_pattern_leaves_stderr_alone() -> None:
    program = "from fairlead.session.rules.rule_patterns import compile_pattern; compile_pattern('(?!a)b')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
