"""A hundred sessions in one process: none of them is in the way of another."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.opal import Client, batch, opal, request, said, types
from tests.support.stage import BEGAN, Turn, calls, says

#: Of a hundred sessions one hangs, one fails, one floods with text and one with output; the others just work.
ODD = {
    "hang": says("word " * 60, hangAfter=1),
    "fail": {"status": 401, "error": "not you"},
    "flood": says("0123456789abcdef" * 64, repeat=4096, chunk=512),
    "gush": calls(("shell", {"command": "yes | head -c 40000000"})),
}


def quiet(number: int) -> list[Turn]:
    return [{"match": f"session {number} ", **says(f"This is {number}.")}]


def test_one_that_hangs_fails_or_floods_does_not_keep_the_others_from_working(tmp_path: Path) -> None:
    turns: list[Turn] = [{"match": f"please {name}", **turn} for name, turn in ODD.items()]
    turns += [turn for number in range(96) for turn in quiet(number)]
    with opal(tmp_path, [*turns, says("gushed")]) as client:
        odd = {name: client.start(session_id=name) for name in ODD}
        for name in odd:
            client.send("agent/prompt", session_id=name, text=f"please {name}")
        names = [f"quiet-{number}" for number in range(96)]
        client.host.write(batch(*(request(name, "session/start", session_id=name) for name in names)))
        client.host.write(
            batch(
                *(
                    request(f"p{number}", "agent/prompt", session_id=name, text=f"I am session {number} of many")
                    for number, name in enumerate(names)
                )
            )
        )
        for number, name in enumerate(names):
            assert client.ended(name)["type"] == "agent_end"
            events = client.events(name)
            assert types(events) == [
                "message_applied",
                "agent_start",
                "message_start",
                "message_delta",
                "usage_update",
                "agent_end",
            ]
            assert said(events) == f"This is {number}."
        assert client.call("opal/ping") == {}
        assert client.ended("fail")["type"] == "error"
        assert client.call("agent/state", session_id="hang")["status"] == "streaming"
        assert client.ended("flood")["type"] == "agent_end"
        assert len(said(client.events("flood"))) == 16 * 64 * 4096
        assert client.ended("gush")["type"] == "agent_end"
        assert len(client.call("session/list")["sessions"]) == 100
        client.call("agent/abort", session_id="hang")
        assert client.ended("hang")["type"] == "agent_abort"
        assert client.host.leave() == 0


def test_a_key_that_takes_long_to_find_holds_up_no_other_session(tmp_path: Path) -> None:
    with opal(tmp_path, model=None) as client:
        _use_slow_key(client)
        slow = client.start(model={"id": "slow-1", "provider": "slow"})
        assert client.call("agent/prompt", session_id=slow, text="go") == {"queued": False}
        client.host.began.wait()
        assert said(client.prompt(client.start(model={"id": "fake-1", "provider": "fake"}), "hi")) == "ok"
        assert client.call("agent/state", session_id=slow)["status"] == "running"
        client.call("agent/abort", session_id=slow)
        assert client.ended(slow)["type"] == "agent_abort"


def _use_slow_key(client: Client) -> None:
    """Give the server a provider whose key comes from a command that does not end. It has read no file yet."""
    path = client.host.around.home / "models.json"
    models = json.loads(path.read_text())
    model = {**models["providers"]["fake"]["models"][0], "id": "slow-1"}
    models["providers"]["slow"] = {**models["providers"]["fake"], "apiKey": f"!{BEGAN}; sleep 600", "models": [model]}
    path.write_text(json.dumps(models))


# A client that does not read


def test_a_client_that_reads_late_misses_nothing(tmp_path: Path) -> None:
    flood = says("0123456789abcdef" * 64, repeat=16384, chunk=4096)
    with opal(tmp_path, [flood], reading=False, settings={"output": {"queueBytes": 1 << 20}}) as client:
        client.host.write(
            batch(
                request(1, "session/start", session_id="s"),
                request(2, "agent/prompt", session_id="s", text="go"),
            )
        )
        client.host.until_asked(1)
        client.host.start_reading()
        assert client.ended("s")["type"] == "agent_end"
        assert len(said(client.events("s"))) == 16 * 64 * 16384


def test_a_hundred_sessions_end_with_the_process(tmp_path: Path) -> None:
    with opal(tmp_path, [says("word " * 60, hangAfter=1)]) as client:
        names = [f"s{number}" for number in range(100)]
        client.host.write(batch(*(request(name, "session/start", session_id=name) for name in names)))
        client.host.write(batch(*(request(f"p{name}", "agent/prompt", session_id=name, text="go") for name in names)))
        for name in names:
            client.until("message_delta", name)
        assert client.host.leave() == 0
        assert [client.events(name)[-1]["type"] for name in names] == ["agent_abort"] * 100
