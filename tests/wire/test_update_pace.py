"""How full updates are held to their rate, on a clock that the test sets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fairlead.core.messages import TextContent
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, Model, Price
from fairlead.core.partial_message import PartialMessage
from fairlead.wire.pi.paced_updates import Pacing, Updates

MODEL = Model("one", "One", "anthropic-messages", "scripted", "http://127.0.0.1:9", False, ["text"], Price(), 1000, 100)


class Outlet:
    max_frame = None
    behind = False

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def call_when_caught_up(self, callback: Callable[[], None]) -> None:
        raise AssertionError("this host always keeps up")

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)


def played(rest: str, waited: float) -> list[tuple[str, bool]]:
    """The kinds of the updates of `ab` and, so many seconds later, of `rest` and the end, and which are full. 100 kB a second."""

    async def play() -> list[bytes]:
        loop, outlet, now = asyncio.get_running_loop(), Outlet(), 100.0
        loop.time = lambda: now  # type: ignore[method-assign]
        updates = Updates(outlet, Pacing(interval=0.016, rate=100_000, largest=1 << 20), "full")
        partial = PartialMessage(MODEL, 0)
        updates.begin()
        updates.update(BlockStart(0, TextContent("")), partial)
        now += 60
        updates.update(BlockDelta(0, "ab"), partial)
        now += waited
        updates.update(BlockDelta(0, rest), partial)
        updates.update(BlockEnd(0, TextContent("ab" + rest)), partial)
        return outlet.frames

    frames: list[dict[str, Any]] = [json.loads(frame) for frame in asyncio.run(play())]
    return [(frame["assistantMessageEvent"]["type"], "message" in frame) for frame in frames]


def test_short_updates_that_cannot_wait_are_full() -> None:
    kinds = [("text_start", True), ("text_delta", True), ("text_delta", True), ("text_end", True)]
    assert played("c" * 100, 0.001) == kinds


def test_a_long_update_that_cannot_wait_does_not_repeat_the_message() -> None:
    assert played("c" * 50_000, 0.001)[2:] == [("text_delta", False), ("text_end", False)]


def test_a_long_update_that_is_due_is_full_and_is_paid_for_by_what_follows() -> None:
    assert played("c" * 50_000, 60)[2:] == [("text_delta", True), ("text_end", False)]


def test_each_update_has_the_usage_of_its_moment() -> None:
    async def play() -> list[bytes]:
        loop, outlet, now = asyncio.get_running_loop(), Outlet(), 100.0
        loop.time = lambda: now  # type: ignore[method-assign]
        updates = Updates(outlet, Pacing(interval=0.016, rate=100_000, largest=1 << 20), "full")
        partial = PartialMessage(MODEL, 0)
        updates.begin()
        updates.update(BlockStart(0, TextContent("")), partial)
        for tokens in (1, 1, 2):
            now += 60
            partial.usage.output = tokens
            updates.update(BlockDelta(0, "a"), partial)
        partial.response_id = "late"
        partial.finish("stop", "end_turn")
        updates.update(BlockEnd(0, TextContent("aaa")), partial)
        return outlet.frames

    frames: list[dict[str, Any]] = [json.loads(frame) for frame in asyncio.run(play())]
    assert [frame["usage"]["output"] for frame in frames] == [0, 1, 1, 2, 2]
    assert [frame["message"]["usage"]["output"] for frame in frames] == [0, 1, 1, 2, 2]
    assert [frame["message"].get("responseId") for frame in frames] == [None, None, None, None, "late"]
    assert [frame["message"]["content"][0]["text"] for frame in frames] == ["", "a", "aa", "aaa", "aaa"]
