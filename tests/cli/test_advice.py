"""How mistyped names are explained at a command line."""

from __future__ import annotations

from fairlead.cli.advice import nearest


def test_leading_dashes_do_not_make_flags_similar_and_swapped_letters_do() -> None:
    assert nearest("--days", ["--by", "--json"]) == ""
    assert nearest("--modle", ["--mode", "--model"]) == " Did you mean --model?"
    assert nearest("exprot", ["export", "report"]) == " Did you mean export?"
