"""Clients of a server get the answers in sessions of jobs piece by piece, while workers receive them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fleet import MODEL, Fleet, fleet_in, wait_until
from tests.support.front_end import FrontEnd

#: An answer that stops in the middle of its text until the test releases it.
ANSWER: dict[str, Any] = {"thinking": "I think. " * 4, "text": "A long answer. " * 20, "chunk": 12, "holdAfter": 12}


def slow_turn(body: Any) -> dict[str, Any]:
    """Answer the first prompt at once, and others when the test says so."""
    return ANSWER if len(body["messages"]) > 1 else {"text": "Hello."}


@pytest.fixture
def slow(tmp_path: Path) -> Generator[Fleet]:
    with fleet_in(tmp_path, turns=slow_turn) as fleet:
        yield fleet


def first_prompt(fleet: Fleet, server: FrontEnd) -> int:
    """Let workers run the first prompt of the session `chat`. Returns the number of its last event."""
    task = {"prompt": "Hello?", "workdir": str(fleet.workdir), "model": MODEL}
    assert server.call("POST", "/fleet/sessions/chat/prompts", task)[0] == 200
    wait_until(lambda: server.call("GET", "/v1/sessions/chat")[0] == 200, every=0.1)
    return server.settled("chat", 2)["lastEvent"]


def pieces(events: list[Any], kind: str) -> str:
    updates = [event["assistantMessageEvent"] for event in events if event["type"] == "message_update"]
    return "".join(update["delta"] for update in updates if update["type"] == f"{kind}_delta")


def read(server: FrontEnd, after: int, until: Callable[[list[Any]], bool]) -> list[Any]:
    """Return the events of the session after a number, up to one for which `until` is true of all so far."""
    seen: list[Any] = []
    for event in server.events("chat", after):
        seen.append(event)
        if until(seen):
            break
    return seen


def test_an_answer_arrives_piece_by_piece(slow: Fleet) -> None:
    slow.start_worker()
    with FrontEnd(slow) as server:
        number = first_prompt(slow, server)
        server.prompt("chat", "more", id="p-2")
        seen = read(server, number, lambda events: "A long" in pieces(events, "text"))
        half = server.snapshot("chat")
        shown = half["openMessage"]["content"]
        assert [block["type"] for block in shown] == ["thinking", "text"]
        assert shown[0]["thinking"] == ANSWER["thinking"] and ANSWER["text"].startswith(shown[1]["text"])
        assert len(shown[1]["text"]) < len(ANSWER["text"])
        slow.provider.release()
        seen += read(server, seen[-1]["number"], lambda events: events[-1]["type"] == "prompt_result")
        assert [event["number"] for event in seen] == list(range(number + 1, number + 1 + len(seen)))
        assert (pieces(seen, "thinking"), pieces(seen, "text")) == (ANSWER["thinking"], ANSWER["text"])
        assert [event["message"]["role"] for event in seen if event["type"] == "message_start"] == ["user", "assistant"]
        ends = [event["message"] for event in seen if event["type"] == "message_end"]
        assert ends == server.snapshot("chat")["messages"][2:] and "branch_changed" not in [event["type"] for event in seen]
        # A client that comes in the middle continues the snapshot with the same text.
        rest = [event for event in seen if event["number"] > half["lastEvent"]]
        assert shown[1]["text"] + pieces(rest, "text") == ANSWER["text"]


def test_an_answer_begins_again_when_its_worker_died(slow: Fleet) -> None:
    worker = slow.start_worker()
    with FrontEnd(slow) as server:
        number = first_prompt(slow, server)
        server.prompt("chat", "more", id="p-2")
        seen = read(server, number, lambda events: "A long" in pieces(events, "text"))
        worker.kill()
        slow.provider.release()
        slow.start_worker()
        seen += read(server, seen[-1]["number"], lambda events: events[-1]["type"] == "branch_changed")
        assert seen[-1]["type"] == "branch_changed"
        snapshot = server.settled("chat", 4)
        assert snapshot["openMessage"] is None
        assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant"] * 2
        assert snapshot["messages"][-1]["content"][-1]["text"] == ANSWER["text"]
