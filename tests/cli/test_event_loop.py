"""The event loop of the command asks the system less often for input, but input never waits for an endless row of callbacks."""

from __future__ import annotations

import socket
from selectors import DefaultSelector, SelectorKey

import pytest

from fairlead.cli.event_loop import new_event_loop


def test_input_is_read_while_there_are_always_callbacks_to_run() -> None:
    loop = new_event_loop()
    ours, theirs = socket.socketpair()
    rounds = 0
    seen: list[int] = []

    def again() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 10:
            theirs.send(b"x")
        if rounds < 20:
            loop.call_soon(again)
        else:
            loop.stop()

    def read() -> None:
        ours.recv(1)
        seen.append(rounds)

    with ours, theirs:
        loop.add_reader(ours, read)
        loop.call_soon(again)
        loop.run_forever()
        loop.close()
    assert seen and seen[0] <= 12


def test_the_system_is_asked_every_second_time_while_there_are_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []
    select = DefaultSelector.select

    def counted(self: DefaultSelector, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        asked.append(timeout)
        return select(self, timeout)

    monkeypatch.setattr(DefaultSelector, "select", counted)
    loop = new_event_loop()
    rounds = 0

    def again() -> None:
        nonlocal rounds
        rounds += 1
        if rounds < 20:
            loop.call_soon(again)
        else:
            loop.stop()

    loop.call_soon(again)
    loop.run_forever()
    loop.close()
    assert len(asked) == 10
