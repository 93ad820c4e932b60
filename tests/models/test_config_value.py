"""What keys and headers stand for: as in pi 0.87, and the bare names of pi 0.73 and omp."""

from __future__ import annotations

import pytest

from fairlead.models.config_value import ConfigValue, escape

ENV = {"KEY": "secret", "OTHER_KEY": "two", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("$KEY", "secret"),
        ("${KEY}", "secret"),
        ("a-${KEY}-b", "a-secret-b"),
        ("$KEY-$OTHER_KEY", "secret-two"),
        ("$$KEY", "$KEY"),
        ("$$", "$"),
        ("a$!b", "a!b"),
        ("$!KEY", "!KEY"),
        ("${KEY", "${KEY"),
        ("${not a name}", "${not a name}"),
        ("5$", "5$"),
        ("$1", "$1"),
        ("KEY", "secret"),  # pi 0.73 and omp
        ("EMPTY", "EMPTY"),
        ("sk-literal", "sk-literal"),
    ],
)
def test_a_value_stands_for(text: str, meaning: str) -> None:
    value = ConfigValue(text)
    assert (value.missing(ENV), value.resolve(ENV), value.command) == ([], meaning, None)


@pytest.mark.parametrize(
    ("text", "names"), [("$NO", ["NO"]), ("a-${NO}-$NEITHER-$NO", ["NO", "NEITHER"]), ("$EMPTY", ["EMPTY"]), ("!echo $NO", [])]
)
def test_a_value_needs_variables_that_are_set(text: str, names: list[str]) -> None:
    assert ConfigValue(text).missing(ENV) == names


def test_an_entry_can_set_variables_of_its_own() -> None:
    assert ConfigValue("$KEY", {"KEY": "mine"}).resolve(ENV) == "mine"
    assert ConfigValue("$KEY", {"KEY": 5}).resolve(ENV) == "secret"


@pytest.mark.parametrize("key", ["plain", "pa$$word", "!bang", "a!b", "$KEY", "${KEY}", "!$x"])
def test_a_key_that_is_stored_stands_for_itself(key: str) -> None:
    stored = ConfigValue(escape(key))
    assert (stored.command, stored.missing(ENV), stored.resolve(ENV)) == (None, [], key)


def test_a_key_from_a_flag_or_a_variable_stands_for_itself() -> None:
    for text in ("KEY", "$KEY", "!KEY"):
        value = ConfigValue(text, is_literal=True)
        assert (value.command, value.missing(ENV), value.resolve(ENV)) == (None, [], text)
