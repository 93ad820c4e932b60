"""Patterns of rules, over texts of which a part may be unknown."""

from __future__ import annotations

import pytest

from fairlead.policy.patterns import ANY, CommandPattern, PathPattern, WildcardPattern


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git *", "git status -s", True),
        ("git *", "git", True),
        ("git *", "gitk", False),
        ("git*", "gitk", True),
        ("*", "", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*.py", "x/y.py", True),
        ("a*b*c", "a1b2b3c", True),
        ("a*b*c", "a1c2b", False),
    ],
)
def test_a_star_is_any_text(pattern: str, text: str, fits: bool) -> None:
    assert CommandPattern(pattern).fits(text) is fits
    assert CommandPattern(pattern).may_fit(text) is fits


@pytest.mark.parametrize(
    ("pattern", "text", "certain", "possible"),
    [
        ("git *", f"git {ANY}", True, True),
        ("git push *", f"git {ANY}", False, True),
        ("git push", f"git {ANY} --all", False, False),
        ("git pull", f"git pu{ANY}", False, True),
        ("rm *", f"echo {ANY}", False, False),
        ("rm *", ANY, False, True),
        ("git ?", f"git {ANY}", False, True),
    ],
)
def test_unknown_words_may_match_but_never_certainly(pattern: str, text: str, certain: bool, possible: bool) -> None:
    assert CommandPattern(pattern).fits(text) is certain
    assert CommandPattern(pattern).may_fit(text) is possible


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/*.py", "/there/src/a.py", True),
        ("src/*.py", "/there/src/in/a.py", False),
        ("src/**/*.py", "/there/src/in/deep/a.py", True),
        ("src/**/*.py", "/there/src/a.py", True),
        ("src/**", "/there/src/a", True),
        ("src", "/there/src", True),
        ("src/", "/there/src/in/a", True),
        ("./src/x", "/there/src/x", True),
        ("/etc/**", "/etc/passwd", True),
        ("/etc/**/shadow", "/etc/xshadow", False),
        ("~/.ssh", "/home/u/.ssh/id", True),
        ("~/.ssh", "/home/u/.sshx", False),
    ],
)
def test_paths_begin_at_the_working_directory_and_stars_stay_within_a_name(pattern: str, path: str, fits: bool) -> None:
    assert PathPattern(pattern, "/there", "/home/u", everywhere=False).matches(path) is fits
    assert PathPattern(pattern, "/there", "/home/u", everywhere=True).matches(path) is fits


def test_a_bare_name_matches_at_any_depth_and_outside_only_in_deny_rules() -> None:
    allows = PathPattern(".env", "/there", "/home/u", everywhere=False)
    forbids = PathPattern(".env", "/there", "/home/u", everywhere=True)
    assert allows.matches("/there/a/.env") and forbids.matches("/there/a/.env")
    assert not allows.matches("/other/.env") and forbids.matches("/other/.env")
    assert not allows.matches("/there/.ENV") and forbids.matches("/there/.ENV")
    assert not forbids.matches("/there/x.env")


def test_a_pattern_made_to_take_long_does_not() -> None:
    assert not WildcardPattern("*a" * 30 + "b").fits("a" * 20_000)
