"""YAML of omp and xcsh: how it is read, and that a change touches nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.config.yaml_files import change_value, parse_object
from fairlead.errors import ConfigError

CONFIG = """\
# my settings
theme:   {dark: "x"}  # nice
retry:
    # how often
    maxRetries: 7   # seven
steeringMode: 'all'

note: |
  several
  lines
modelRoles:
  default: anthropic/old:high  # the big one
"""


def test_values_are_those_of_yaml_1_2() -> None:
    text = b"a: on\nb: yes\nc: true\nd: null\ne: 1e3\nf: 0x10\ng: '5'\nh: 017\ni: [1, ~]\nj: !!str 5\n2: two\n"
    assert parse_object(Path("x.yml"), text) == {
        "a": "on",
        "b": "yes",
        "c": True,
        "d": None,
        "e": 1000.0,
        "f": 16,
        "g": "5",
        "h": 17,
        "i": [1, None],
        "j": "5",
        "2": "two",
    }
    assert parse_object(Path("x.yml"), b"# nothing\n") == {}


def test_aliases_and_merges_are_followed() -> None:
    text = b"base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3}\nsame: *b\n"
    assert parse_object(Path("x.yml"), text) == {"base": {"x": 1, "y": 2}, "other": {"x": 1, "y": 3}, "same": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "- a",
        "just text",
        "a: 1\n---\nb: 2\n",
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{n}: &{n} [{','.join(['*' + p] * 10)}]\n" for p, n in zip("abcdef", "bcdefg", strict=True)),
        "[" * 5000,
        "a: " + "[" * 5000 + "]" * 5000,
    ],
    ids=["broken", "list", "text", "two documents", "laughs", "deep and broken", "deep"],
)
def test_yaml_refuses_non_mappings_and_huge_documents(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^x\.yml: "):
        parse_object(Path("x.yml"), text.encode())


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("steeringMode", "one-at-a-time", "'all'", "one-at-a-time"),
        ("retry.maxRetries", 3, "7", "3"),
        ("modelRoles.default", "a/b-1:low", "anthropic/old:high", "a/b-1:low"),
        ("modelRoles.default", "a/b:c d", "anthropic/old:high", '"a/b:c d"'),
        ("note", "short", "|\n  several\n  lines\n", "short\n"),
        ("retry.enabled", False, "maxRetries: 7", "enabled: false\n    maxRetries: 7"),
        ("theme.light", "y", "{dark", '{light: "y", dark'),
        ("followUpMode", "all", "theme: ", "followUpMode: all\ntheme: "),
        ("compaction.enabled", True, "theme: ", "compaction:\n  enabled: true\ntheme: "),
        ("steeringMode", None, "'all'", "null"),
    ],
)
def test_a_change_touches_only_the_characters_of_its_value(tmp_path: Path, key: str, value: object, old: str, new: str) -> None:
    path = tmp_path / "config.yml"
    path.write_text(CONFIG)
    change_value(path, key, value)  # pyright: ignore[reportArgumentType]
    assert path.read_text() == CONFIG.replace(old, new, 1)


@pytest.mark.parametrize("before", ["", "# empty\n", "# no end"])
def test_a_file_without_settings_gets_the_first_one(tmp_path: Path, before: str) -> None:
    path = tmp_path / "new" / "config.yml"
    path.parent.mkdir()
    if before:
        path.write_text(before)
    change_value(path, "retry.enabled", False)
    end = "" if not before or before.endswith("\n") else "\n"
    assert path.read_text() == f"{before}{end}retry:\n  enabled: false\n"


@pytest.mark.parametrize("before", ["retry:\n", "retry: ~\n", "retry: {}\n"])
def test_an_empty_group_gets_its_first_setting(tmp_path: Path, before: str) -> None:
    path = tmp_path / "config.yml"
    path.write_text(f"{before}last: 1 # end\n")
    change_value(path, "retry.enabled", False)
    assert path.read_text() == "retry: {enabled: false}\nlast: 1 # end\n"


@pytest.mark.parametrize(
    "text", ["a: &x 1\nb: *x\n", "b:\n  - 1\n  # kept\nc: 2\n", "b: &y {c: 1}\n? a\n: 2\n<<: *y\n", "a: [\n"]
)
def test_a_file_that_cannot_be_changed_in_place_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yml"
    path.write_text(text)
    if text.startswith("b: &y"):
        change_value(path, "a", 5)
        assert path.read_text() == text.replace(": 2", ": 5")
        return
    with pytest.raises(ConfigError):
        change_value(path, "b", 5)
    assert path.read_text() == text
