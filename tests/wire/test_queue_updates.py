"""How hosts hear of a queue that grows: each change while it is short, at a bounded rate when it is long."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.stage import HELD, Stage, says, stage

from fairlead.core.messages import user_message
from fairlead.core.queues import Queues

MANY = 3_000


def steers(host: Stage, count: int, text: str = "look at file number {}") -> list[str]:
    """Queue messages in one write, and wait until all are acknowledged; their texts."""
    texts = [text.format(number) for number in range(count)]
    host.send_together(*({"id": f"s{n}", "type": "steer", "message": text} for n, text in enumerate(texts)))
    host.response(f"s{count - 1}")
    return texts


def update_bytes(host: Stage) -> int:
    return sum(len(json.dumps(frame)) for frame in host.frames if frame["type"] == "queue_update")


def test_a_burst_of_steers_costs_bytes_in_proportion_to_its_length(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        texts = steers(host, MANY)
        host.until("queue_update", steering=texts)  # the last one is complete
        # One update per change would be more than 100 MB.
        assert update_bytes(host) < 4_000_000
        assert host.request("get_state")["data"]["pendingMessageCount"] == MANY


def test_each_change_of_a_short_queue_is_announced_before_its_response(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        since = host.mark()
        texts = steers(host, 20)
        told = [frame for frame in host.frames[since:] if frame["type"] in ("queue_update", "response")]
        assert [frame["type"] for frame in told] == ["queue_update", "response"] * 20
        assert [frame["steering"] for frame in told[::2]] == [texts[: n + 1] for n in range(20)]


def test_the_last_update_comes_before_the_run_is_settled(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD, says("second")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        texts = steers(host, 40, "word " * 4_000 + "{}")  # each longer than what is told at once
        host.request("abort")
        kinds = [frame["type"] for frame in host.frames]
        last = max(place for place, kind in enumerate(kinds) if kind == "queue_update")
        assert host.frames[last]["steering"] == texts
        assert last < kinds.index("agent_settled")


def test_the_last_update_leaves_before_the_process_ends(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        texts = steers(host, 40, "word " * 4_000 + "{}")  # nothing runs: nothing else would make it leave
        assert host.leave() == 0
        assert [frame["steering"] for frame in host.frames if frame["type"] == "queue_update"][-1] == texts


def test_emptying_a_long_queue_is_announced_at_once(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        texts = steers(host, 200, "word " * 1_000 + "{}")
        since = host.mark()
        assert host.request("clear_queue")["data"]["steering"] == texts
        told = [frame for frame in host.frames[since:] if frame["type"] in ("queue_update", "response")]
        # An update of the full queue may have been due just before.
        answered = next(place for place, frame in enumerate(told) if frame["type"] == "response")
        assert 1 <= answered <= 2
        assert told[answered - 1] == {"type": "queue_update", "steering": [], "followUp": []}


def test_an_event_keeps_what_waited_when_it_happened() -> None:
    queues = Queues()
    events = [queues.update()]
    for number in range(300):
        queues.steering.add(user_message(f"{number}", None, 1))
        events.append(queues.update())
    for _ in range(299):
        queues.steering.take()
        events.append(queues.update())
    queues.steering.clear()
    queues.steering.add(user_message("another", None, 1))
    numbers = [f"{number}" for number in range(300)]
    assert [event.steering for event in events[:301]] == [numbers[:count] for count in range(301)]
    assert [event.steering for event in events[301:]] == [numbers[taken:] for taken in range(1, 300)]
    assert queues.steering.texts() == ["another"]
    assert queues.update().size == len("another")
