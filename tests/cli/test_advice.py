"""How errors of providers and mistyped names are explained at a command line."""

from __future__ import annotations

import pytest

from fairlead.cli.advice import message_of, nearest


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ('529 {"type":"error","error":{"message":"overloaded"}}', "529 overloaded"),
        ('404 {"error": {"message": "model: x"}} [URL: http://127.0.0.1/v1]', "404 model: x [URL: http://127.0.0.1/v1]"),
        ('400 {"error":{"message":"too long"}} Recovery failed.', "400 too long. Recovery failed."),
        ('400 {"error":{"message":"Too long."}} Recovery failed.', "400 Too long. Recovery failed."),
        ('400 {"error":"bad"}', "400 bad"),
        ('400 {"message":"b{a}d"}', "400 b{a}d"),
        ('400 {"error": {}}', '400 {"error": {}}'),
        ("400 {not JSON}", "400 {not JSON}"),
        ("400 " + '{"a":' * 100_000, "400 " + '{"a":' * 100_000),
        ("Connection error", "Connection error"),
    ],
)
def test_the_json_around_the_message_of_a_provider_is_left_out(error: str, shown: str) -> None:
    assert message_of(error) == shown


def test_leading_dashes_do_not_make_flags_similar_and_swapped_letters_do() -> None:
    assert nearest("--days", ["--by", "--json"]) == ""
    assert nearest("--modle", ["--mode", "--model"]) == " Did you mean --model?"
    assert nearest("exprot", ["export", "report"]) == " Did you mean export?"
