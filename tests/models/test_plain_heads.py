"""Heads of answers that are read without h11, and those that are left to it. h11 is the oracle."""

from __future__ import annotations

import h11
import pytest

from fairlead.models.http.framing import plain_head

PLAIN = [
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 \r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 429\r\nretry-after:  7 \r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 12\r\n\r\n",
    b"HTTP/1.1 529 Site is \xe9\r\nX-Empty:\r\nX-Tab:\ta\tb\r\nConnection: close\r\n\r\n",
]
#: Interim answers, other versions, other line ends, lengths that contradict each other, broken lines.
NOT_PLAIN = [
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\n\n",
    b"HTTP/1.1 200 OK\r\na: 1\r\n b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nname : x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\na: \x00\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
    b"garbage\r\n\r\n",
]


@pytest.mark.parametrize("head", PLAIN)
def test_a_plain_head_is_read_as_h11_reads_it(head: bytes) -> None:
    wire = h11.Connection(h11.CLIENT)
    wire.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    wire.receive_data(head)
    expected = wire.next_event()
    assert isinstance(expected, h11.Response)
    found = plain_head(head)
    assert found is not None
    assert (found.status_code, found.headers) == (expected.status_code, list(expected.headers))
    assert found.http_version == expected.http_version


@pytest.mark.parametrize("head", NOT_PLAIN)
def test_any_other_head_is_left_to_h11(head: bytes) -> None:
    assert plain_head(head) is None
