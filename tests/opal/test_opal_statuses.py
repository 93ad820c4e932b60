"""Statuses in what a model writes, and pieces that are merged while a client does not keep up."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from fairlead.protocol.opal.opal_events import AgentStart, Event, MessageDelta, ThinkingDelta, ToolOutputEvent
from fairlead.protocol.opal.opal_objects import LONGEST, Status, StatusFilter, without_statuses
from fairlead.wire.opal.text_stream import MOST_MERGED, Channel


def parted(*pieces: str) -> tuple[str, list[str]]:
    """The text and the statuses in what arrives in these pieces."""
    filter = StatusFilter()
    parts = [part for piece in pieces for part in filter.feed(piece)]
    text = "".join(part for part in parts if isinstance(part, str)) + filter.rest()
    return text, [part.text for part in parts if isinstance(part, Status)]


def test_statuses_are_removed_from_the_text() -> None:
    assert parted("a<status> Reading files </status>b") == ("ab", ["Reading files"])
    assert without_statuses("a<status>x</status>b") == "ab"


def test_a_status_may_come_in_pieces() -> None:
    text = "one <status>two</status> three <status>four</status>"
    assert parted(*text) == ("one  three ", ["two", "four"])


def test_text_that_resembles_a_status_stays() -> None:
    for text in ("<", "<stat", "a < b", "<statue>x</statue>", "<status>never closed", "x</status>", "<status>", "<<status"):
        assert parted(text) == (text, [])
        assert parted(*text) == (text, [])


def test_an_empty_status_is_ignored() -> None:
    assert parted("a<status>  </status>b") == ("ab", [])


def test_an_overlong_status_is_text() -> None:
    text = "<status>" + "x" * (LONGEST + len("</status>"))
    filter = StatusFilter()
    assert "".join(part for part in filter.feed(text) if isinstance(part, str)) == text
    for status in ("<status>" + "x" * (LONGEST + 1) + "</status>", text + "</status>"):
        assert parted(status) == parted(*status) == (status, [])
    just_short_enough = "x" * LONGEST
    for pieces in ([f"<status>{just_short_enough}</status>"], f"<status>{just_short_enough}</status>"):
        assert parted(*pieces) == ("", [just_short_enough])


def test_text_is_not_held_back_without_need() -> None:
    assert StatusFilter().feed("a < b") == ["a < b"]
    assert StatusFilter().feed("what <s") == ["what "]


@given(st.lists(st.sampled_from(["<", "status", ">", "/", "</", "a", "<status>", "</status>", " "]), max_size=30))
def test_the_pieces_make_no_difference(pieces: list[str]) -> None:
    assert parted(*pieces) == parted("".join(pieces))


# Merging


class SlowReader:
    """An outlet whose reader can fall behind."""

    max_frame = None

    def __init__(self) -> None:
        self.behind = False
        self.sent: list[Event] = []
        self._waiting: list[Callable[[], None]] = []

    def call_when_caught_up(self, callback: Callable[[], None]) -> None:
        self._waiting.append(callback)

    def send(self, frame: bytes) -> None:
        raise AssertionError("events are sent, not frames")

    def catch_up(self) -> None:
        self.behind = False
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


def channel() -> tuple[Channel, SlowReader]:
    reader = SlowReader()
    return Channel(reader, reader.sent.append), reader


def test_a_reader_that_keeps_up_gets_every_piece() -> None:
    sending, reader = channel()
    pieces = [MessageDelta("s", "a"), MessageDelta("s", "b")]
    for piece in pieces:
        sending.stream(piece)
    assert reader.sent == pieces


def test_pieces_for_a_slow_reader_become_one() -> None:
    sending, reader = channel()
    reader.behind = True
    for text in "abc":
        sending.stream(MessageDelta("s", text))
    assert reader.sent == []
    reader.catch_up()
    assert reader.sent == [MessageDelta("s", "abc")]


def test_merging_keeps_the_order() -> None:
    sending, reader = channel()
    reader.behind = True
    sending.stream(ThinkingDelta("s", "hm"))
    sending.stream(MessageDelta("s", "a"))
    sending.stream(MessageDelta("s", "b"))
    sending.send(AgentStart("s"))
    assert reader.sent == [ThinkingDelta("s", "hm"), MessageDelta("s", "ab"), AgentStart("s")]
    reader.catch_up()
    assert len(reader.sent) == 3


def test_of_a_tools_output_only_the_end_waits() -> None:
    sending, reader = channel()
    reader.behind = True
    for number in range(100):
        sending.stream(ToolOutputEvent("s", "shell", "c", f"{number:04d}" * 1000))
    reader.catch_up()
    (piece,) = reader.sent
    assert isinstance(piece, ToolOutputEvent)
    assert len(piece.chunk) <= MOST_MERGED
    assert piece.chunk.endswith("0099")


def test_text_is_never_dropped() -> None:
    sending, reader = channel()
    reader.behind = True
    for _ in range(100):
        sending.stream(MessageDelta("s", "x" * 4000))
    reader.catch_up()
    assert sum(len(event.delta) for event in reader.sent if isinstance(event, MessageDelta)) == 400_000
