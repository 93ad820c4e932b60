from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.models.http.framing import BodyUntilClose, ChunkedBody, FixedBody, MalformedBody


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    extension=st.sampled_from([b"", b";x=y", b" ", b"\t;a"]),
    trailers=st.sampled_from([b"", b"x-checksum: 1\r\n", b"a: b\r\nc: d\r\n"]),
    places=st.lists(st.integers(0, 400), max_size=12),
)
def test_chunks_are_joined_wherever_the_network_cuts_them(
    chunks: list[bytes], extension: bytes, trailers: bytes, places: list[int]
) -> None:
    wire = b"".join(b"%X%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n"
    body = ChunkedBody()
    payload = b""
    for piece in cut(wire, places):
        assert not body.complete or not piece
        payload += body.feed(piece)
    assert payload == b"".join(chunks)
    assert body.complete
    assert not body.surplus


def test_a_chunk_is_handed_over_before_it_is_whole() -> None:
    body = ChunkedBody()
    assert body.feed(b"a\r\n01234") == b"01234"
    assert body.feed(b"56789\r") == b"56789"
    assert body.feed(b"\n0\r\n\r\n") == b""
    assert body.complete


MALFORMED = {
    "no size": b"\r\nabc\r\n",
    "a sign": b"+3\r\nabc\r\n",
    "a prefix": b"0x3\r\nabc\r\n",
    "an underscore": b"1_0\r\n0123456789abcdef\r\n",
    "a space first": b" 3\r\nabc\r\n",
    "no hex": b"xyz\r\nabc\r\n",
    "data after the chunk": b"3\r\nabcd\r\n",
    "no CR after the chunk": b"3\r\nabc\n\n",
    "a size beyond measure": b"ffffffffffffffffffffffff\r\nabc\r\n",
}


@pytest.mark.parametrize("wire", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("at_once", [True, False])
def test_malformed_chunks_are_refused_as_h11_refuses_them(wire: bytes, at_once: bool) -> None:
    pieces = [wire] if at_once else [wire[i : i + 1] for i in range(len(wire))]
    body = ChunkedBody()
    with pytest.raises(MalformedBody):
        for piece in pieces:
            body.feed(piece)

    peer = h11.Connection(h11.CLIENT)
    peer.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    peer.send(h11.EndOfMessage())
    peer.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    peer.next_event()
    with pytest.raises(h11.RemoteProtocolError):
        peer.receive_data(wire)
        while peer.next_event() is not h11.NEED_DATA:
            pass


def test_a_size_line_or_trailers_without_end_are_refused() -> None:
    with pytest.raises(MalformedBody):
        ChunkedBody().feed(b"3;" + b"x" * 10_000)
    body = ChunkedBody()
    body.feed(b"0\r\n")
    with pytest.raises(MalformedBody):
        for _ in range(100):
            body.feed(b"x: " + b"y" * 1000 + b"\r\n" + b"z" * 1000)


@pytest.mark.parametrize("wire", [b"1;" + b"x" * 5_000 + b"\r\na\r\n0\r\n\r\n", b"0\r\nx: " + b"y" * 70_000 + b"\r\n\r\n"])
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_lines_that_are_too_long_are_refused_wherever_the_network_cuts_them(wire: bytes, size: int) -> None:
    body = ChunkedBody()
    with pytest.raises(MalformedBody):
        for at in range(0, len(wire), size):
            body.feed(wire[at : at + size])


def test_bytes_after_a_body_are_surplus() -> None:
    chunked = ChunkedBody()
    assert chunked.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1") == b"a"
    assert chunked.complete and chunked.surplus
    fixed = FixedBody(3)
    assert fixed.feed(b"abcd") == b"abc"
    assert fixed.complete and fixed.surplus


def test_only_a_body_without_length_may_end_with_its_connection() -> None:
    until_close, chunked, fixed = BodyUntilClose(), ChunkedBody(), FixedBody(5)
    for body in (until_close, chunked, fixed):
        body.feed(b"3\r\n" if body is chunked else b"abc")
        assert not body.complete
        body.end()
    assert until_close.complete
    assert not chunked.complete
    assert not fixed.complete
