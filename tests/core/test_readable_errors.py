"""Errors of providers as people read them."""

from __future__ import annotations

import pytest

from fairlead.core.messages import readable_error


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
        (
            '400 [{"error": {"message": "API key not valid."}}] [URL: http://127.0.0.1]',
            "400 API key not valid. [URL: http://127.0.0.1]",
        ),
        ('400 {"error": {"message": "lone \udc80"}}', '400 {"error": {"message": "lone \udc80"}}'),
        ("Wait [soon]", "Wait [soon]"),
        ('401 {"detail": "Unauthorized"}', "401 Unauthorized"),
        ('422 {"detail": [{"loc": ["body"], "msg": "field required"}]}', "422 field required"),
        ('400 {"errors": [{"message": "no such model"}, "b"]}', "400 no such model"),
        ('400 {"message": "{\\"error\\": {\\"message\\": \\"inner\\"}}"}', "400 inner"),
        ('429 {"error": {"message": "Provider returned error", "metadata": {"raw": "Slow down"}}}', "429 Slow down"),
        ('400 {"error": {"message": "", "code": 7}}', '400 {"error": {"message": "", "code": 7}}'),
        ("400 " + '{"error":' * 100 + "1" + "}" * 100, "400 " + '{"error":' * 100 + "1" + "}" * 100),
        ("502 <html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        ("503 <!DOCTYPE html>\n<HTML><TITLE>Down\n for now</TITLE>", "503 Down for now"),
        ('502 {"error": {"message": "<html><title>502 Bad Gateway</title></html>"}}', "502 Bad Gateway"),
        ('500 {"error": {"message": "<html>' + "x" * 100_000, "500 The server answered with a page for people."),
        ('400 {"error": {"message": "Unexpected <html> in the prompt."}}', "400 Unexpected <html> in the prompt."),
        ("500 <html>" + "x" * 100_000, "500 The server answered with a page for people."),
    ],
)
def test_the_json_around_the_message_of_a_provider_is_left_out(error: str, shown: str) -> None:
    assert readable_error(error) == shown
