from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.errors import ProviderError
from fairlead.models.http.framing import LONGEST_EVENT, SSEDecoder


def decode(*pieces: bytes) -> list[tuple[bytes, bytes]]:
    decoder = SSEDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


def by_the_book(data: bytes) -> list[tuple[bytes, bytes]]:
    """The rules of the HTML standard, one line at a time."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    events: list[tuple[bytes, bytes]] = []
    name, parts = b"", list[bytes]()
    for line in lines:
        if not line:
            if parts:
                events.append((name, b"\n".join(parts)))
            name, parts = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            parts.append(value)
        elif field == b"event":
            name = value
    return events


pieces_of_streams = st.sampled_from(
    b"data: |data:|data|event: |event:|event|: note|id: 7|x| |:|\n|\n|\n\n|\r\n|\r\n\r\n|\r|\r\r|\xef\xbb\xbf|\xc3\xa9".split(
        b"|"
    )
)


@given(st.lists(pieces_of_streams, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=10))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [8, 9, 10])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
@example(b"data: a\n\n\ndata: b\n\n", [8, 9, 10])
def test_events_are_those_of_the_standard_wherever_the_stream_is_cut(data: bytes, places: list[int]) -> None:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert decode(*pieces) == by_the_book(data)


def test_names_data_and_comments() -> None:
    stream = b": hello\nevent: a\ndata: 1\ndata: 2\nid: 9\nretry: 5\n\nevent: dropped\n\ndata:3\n\n"
    assert decode(stream) == [(b"a", b"1\n2"), (b"", b"3")]


def test_only_the_first_space_after_the_colon_is_removed() -> None:
    assert decode(b"data:  two\ndata:\n\n") == [(b"", b" two\n")]


def test_a_last_event_without_its_empty_line_is_given_at_the_end() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: 1\n\ndata: [DONE]\n") == [(b"", b"1")]
    assert decoder.end() == [(b"", b"[DONE]")]
    assert decoder.end() == []


def test_an_event_that_does_not_end_is_refused() -> None:
    decoder = SSEDecoder()
    megabyte = b"x" * (1 << 20)
    for _ in range(LONGEST_EVENT >> 20):
        assert decoder.feed(megabyte) == []
    with pytest.raises(ProviderError, match="an event of more than 64 MiB") as caught:
        decoder.feed(b"x")
    assert not caught.value.transient


def test_a_stream_may_be_longer_than_any_event_of_it() -> None:
    decoder = SSEDecoder()
    event = b"data: " + b"x" * (40 << 20)
    assert [len(data) for _ in range(3) for piece in (event, b"\n\n") for _, data in decoder.feed(piece)] == [40 << 20] * 3
