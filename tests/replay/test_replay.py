"""`fairlead replay` as an agent: ids, order, timing, reads, and where a host departs from the recording."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.replay.recordings import Entry, entries, kinds, provider_of, recorded, recording, replayed
from tests.support.host import PATIENCE, Host
from tests.support.stage import ENDLESS, says
from tests.support.surroundings import FAIRLEAD

from fairlead.replay import player
from fairlead.replay.lines import PiLines
from fairlead.replay.recording import read_recording
from fairlead.wire.host_connection import HostOutput

HEADER = {"type": "recording", "version": 1, "release": None, "fairlead": "0.1.0", "date": "2026-01-01T00:00:00Z"}
DEPARTED = 3


def write(root: Path, *lines: Entry, dialect: str = "pi") -> None:
    """Write a recording."""
    entries = [{**HEADER, "dialect": dialect}, *lines]
    recording(root).write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def host(ms: float = 0, /, **line: Any) -> Entry:
    return {"type": "in", "ms": ms, "line": line}


def agent(ms: float = 0, /, **frame: Any) -> Entry:
    return {"type": "out", "ms": ms, "frame": frame}


def response(id: Any, command: str, ms: float = 0, **data: Any) -> Entry:
    return agent(ms, type="response", id=id, command=command, success=True, data=data)


PROMPT = [
    host(id="1", type="prompt", message="Hi."),
    response("1", "prompt", disposition="started"),
    agent(type="agent_start"),
    agent(type="agent_end", messages=[], willRetry=False),
]


def test_answers_have_the_ids_of_the_host(tmp_path: Path) -> None:
    write(
        tmp_path,
        *PROMPT,
        agent(type="prompt_result", id="1", status="completed"),
        host(id=2, type="set_session_name", name="x"),
        response(2, "set_session_name"),
        host(type="set_locale", locale="de"),
        agent(type="response", command="set_locale", success=True),
    )
    with replayed(tmp_path) as replay:
        replay.send({"id": {"my": "id"}, "type": "prompt", "message": "Hi.", "images": None})
        assert replay.until("prompt_result")["id"] == {"my": "id"}
        replay.send({"type": "set_session_name", "name": "x"})
        assert "id" not in replay.until("response", command="set_session_name")
        assert replay.request("set_locale", id="now with an id", locale="de")["success"] is True
        assert replay.leave() == 0
        assert replay.frames[0]["id"] == {"my": "id"}
        assert replay.stderr() == ""


def test_frames_wait_for_the_input_that_came_before_them(tmp_path: Path) -> None:
    write(tmp_path, *PROMPT, host(id="2", type="bash", command="ls"), response("2", "bash"), agent(type="late"))
    with replayed(tmp_path) as replay:
        replay.send(PROMPT[0]["line"])
        replay.until("agent_end")
        assert kinds(replay.frames) == ["response", "agent_start", "agent_end"]
        replay.request("bash", command="ls")
        replay.until("late")
        assert replay.leave() == 0


def test_a_host_that_waits_for_each_answer_can_play_what_was_sent_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        host(id="1", type="set_session_name", name="x"),
        host(id="2", type="set_auto_retry", enabled=True),
        host(id="3", type="prompt", message="Hi."),
        response("1", "set_session_name"),
        response("2", "set_auto_retry"),
        response("3", "prompt"),
        agent(type="agent_end"),
    )
    with replayed(tmp_path) as replay:
        assert replay.request("set_auto_retry", enabled=True)["success"]
        assert replay.request("set_session_name", name="x")["success"]
        assert replay.request("prompt", message="Hi.")["success"]
        replay.until("agent_end")
        assert replay.leave() == 0


def test_it_keeps_the_recorded_time_or_plays_faster(tmp_path: Path) -> None:
    write(tmp_path, host(5_000, id="1", type="prompt", message="Hi."), response("1", "prompt", 5_100), agent(5_600, type="end"))

    def seconds(*flags: str) -> float:
        with replayed(tmp_path, *flags, fast=False) as replay:
            replay.request("prompt", message="Hi.")
            before = time.monotonic()
            replay.until("end")
            replay.leave()
            return time.monotonic() - before

    assert 0.4 < seconds() < PATIENCE
    assert seconds("--speed", "1000") < 0.4
    assert seconds("--fast") < 0.4


def test_reads_may_come_more_often_in_another_order_or_not_at_all(tmp_path: Path) -> None:
    write(
        tmp_path,
        host(id="a", type="get_state"),
        response("a", "get_state", messageCount=0),
        host(id="b", type="get_tools"),
        response("b", "get_tools", tools=[]),
        *PROMPT,
        host(id="c", type="get_state"),
        response("c", "get_state", messageCount=2),
    )
    with replayed(tmp_path) as replay:
        counts = [replay.request("get_state")["data"]["messageCount"] for _ in range(2)]
        replay.send(PROMPT[0]["line"])
        replay.until("agent_end")
        counts += [replay.request("get_state")["data"]["messageCount"] for _ in range(2)]
        assert counts == [0, 0, 2, 2]
        assert replay.leave() == 0
        assert "get_state gets the answer of line" in replay.stderr()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"type": "prompt", "message": "Hello."}, 'prompt: message: expected "Hi.", got "Hello."'),
        ({"type": "prompt", "message": "Hi.", "images": [1]}, "prompt: images: expected nothing, got [1]"),
        ({"type": "bash", "command": "ls"}, 'bash: expected prompt {"message": "Hi."}, got bash {"command": "ls"}'),
        ({"type": "get_tools"}, "get_tools: expected no get_tools, got get_tools"),
        ({"no": "type"}, 'expected prompt {"message": "Hi."}, got a malformed line'),
    ],
)
def test_a_departure_is_explained_and_ends_the_replay(line: dict[str, Any], problem: str, tmp_path: Path) -> None:
    write(tmp_path, *PROMPT)
    with replayed(tmp_path) as replay:
        replay.send({"id": 7, **line})
        refused = replay.response(7)
        assert replay.exit_code() == DEPARTED
        assert refused["success"] is False
        assert refused["command"] == line.get("type", "parse")
        assert refused["error"].startswith("The host departs from the recording session.jsonl")
        assert problem in refused["error"]
        assert replay.stderr() == f"fairlead replay: {refused['error']}\n"


def test_a_lenient_replay_continues(tmp_path: Path) -> None:
    write(tmp_path, *PROMPT)
    with replayed(tmp_path, "--lenient") as replay:
        assert replay.request("bash", command="ls")["success"] is False
        assert replay.request("prompt", message="Hello.")["success"] is True
        replay.until("agent_end")
        assert replay.request("prompt", message="Once more")["success"] is True
        assert replay.leave() == 0
        assert replay.stderr().count("departs") == 3


def test_more_than_was_recorded_and_less_than_was_recorded_are_departures(tmp_path: Path) -> None:
    write(tmp_path, *PROMPT)
    with replayed(tmp_path) as replay:
        replay.request("prompt", message="Hi.")
        assert "expected no more input" in replay.request("prompt", message="Again.")["error"]
        assert replay.exit_code() == DEPARTED
    with replayed(tmp_path) as replay:
        assert replay.leave() == DEPARTED
        assert 'left before the end of the recording session.jsonl: expected prompt {"message": "Hi."}' in replay.stderr()


def test_a_secret_that_was_left_out_and_fields_that_change_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, host(id="1", type="prompt", message="My key is [redacted]!"), response("1", "prompt"))
    with replayed(tmp_path) as replay:
        assert replay.request("prompt", message="My key is abc!", timestamp=5)["success"] is True
        assert replay.leave() == 0


def test_an_abort_may_come_at_another_moment(tmp_path: Path) -> None:
    write(
        tmp_path,
        host(0, id="1", type="prompt", message="Hi."),
        response("1", "prompt"),
        agent(type="agent_start"),
        agent(600_000, type="message_end"),
        host(600_001, id="2", type="abort"),
        agent(600_002, type="agent_end"),
        response("2", "abort", 600_003),
    )
    with replayed(tmp_path, fast=False) as replay:
        replay.send({"id": "x", "type": "prompt", "message": "Hi."})
        replay.until("agent_start")
        assert replay.request("abort")["success"] is True
        assert kinds(replay.frames) == ["response", "agent_start", "message_end", "agent_end", "response"]
        assert replay.leave() == 0


def test_the_end_of_the_input_sends_what_is_left(tmp_path: Path) -> None:
    end = [{"type": "in_end", "ms": 600_001}, {"type": "exit", "ms": 600_002, "code": 7}]
    write(tmp_path, *PROMPT[:3], agent(600_000, type="agent_end"), *end)
    with replayed(tmp_path, fast=False) as replay:
        replay.send(PROMPT[0]["line"])
        replay.until("agent_start")
        assert replay.leave() == 7
        assert kinds(replay.frames)[-1] == "agent_end"


@pytest.mark.parametrize("code", [0, 143])
def test_it_exits_where_the_recorded_process_did_unless_a_signal_ended_that(code: int, tmp_path: Path) -> None:
    get = [host(id="2", type="get_state"), response("2", "get_state")]
    write(tmp_path, *PROMPT, *get, {"type": "exit", "ms": 1, "code": code})
    with replayed(tmp_path) as replay:
        replay.request("prompt", message="Hi.")
        if code:
            assert replay.request("get_state")["success"] is True
            replay.close_input()
        assert replay.exit_code() == 0


async def test_a_replay_that_waits_says_for_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "STALLED_AFTER", 0.01)
    write(tmp_path, *PROMPT)
    remarks: list[str] = []
    reports: list[str] = []
    replay: player.Player

    def remark(text: str) -> None:
        remarks.append(text)
        replay.end_input()

    options = player.ReplayOptions(report=reports.append, remark=remark)
    output = HostOutput(lambda frame: 0, limit=1 << 20)
    replay = player.Player(read_recording(recording(tmp_path)), PiLines(), output, options)
    assert await replay.play() == DEPARTED
    assert remarks == ['Waiting for prompt {"message": "Hi."} (line 2 of session.jsonl).']
    assert len(reports) == 1


def ask(id: str, name: str) -> Entry:
    return agent(type="host_tool_call", id=id, toolName=name, toolCallId=id, arguments={})


def told(id: str, text: str) -> Entry:
    return {"type": "host_tool_result", "id": id, "result": {"content": [{"type": "text", "text": text}]}}


def test_answers_to_questions_are_awaited_in_any_order_and_compared(tmp_path: Path) -> None:
    lines = [ask("q1", "a"), ask("q2", "b"), host(**told("q1", "one")), host(**told("q2", "two")), agent(type="agent_settled")]
    write(tmp_path, *PROMPT[:3], *lines)
    with replayed(tmp_path) as replay:
        replay.send(PROMPT[0]["line"])
        replay.until("host_tool_call", id="q2")
        replay.send({"type": "host_tool_update", "id": "q2", "partialResult": {"content": []}})
        replay.send(told("q2", "two"))
        replay.send(told("q1", "one"))
        replay.until("agent_settled")
        assert replay.leave() == 0
    with replayed(tmp_path) as replay:
        replay.send(PROMPT[0]["line"])
        replay.until("host_tool_call", id="q1")
        replay.send(told("q1", "three"))
        assert 'expected "one", got "three"' in replay.response("q1")["error"]
        assert replay.exit_code() == DEPARTED


def test_departures_in_other_dialects_are_errors_of_theirs(tmp_path: Path) -> None:
    start: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "session/start", "params": {}}
    write(tmp_path, {"type": "in", "ms": 0, "line": start}, dialect="opal")
    with replayed(tmp_path) as replay:
        replay.send({"jsonrpc": "2.0", "id": 9, "method": "agent/prompt", "params": {"text": "Hi."}})
        error = replay.wait_for(lambda frame: frame.get("id") == 9, "the error")["error"]
        assert "expected session/start, got agent/prompt" in error["message"]
        assert replay.exit_code() == DEPARTED
    write(tmp_path, host(type="prompt", message="Hi."), dialect="pi-2025")
    with replayed(tmp_path) as replay:
        replay.send({"type": "prompt", "message": "Hello."})
        assert 'expected "Hi.", got "Hello."' in replay.until("error")["error"]
        assert replay.exit_code() == DEPARTED


def test_a_session_of_pi_2025_is_played_again(tmp_path: Path) -> None:
    def flow(agent: Host) -> Sequence[str]:
        agent.send({"type": "prompt", "message": "Talk."})
        agent.until("message_update")
        agent.send({"type": "abort"})
        agent.until("agent_end")
        assert agent.leave() == 0
        return kinds(agent.frames)

    with recorded(tmp_path, ENDLESS, dialect="pi-2025") as (first, _):
        seen = flow(first)
    with replayed(tmp_path) as replay:
        assert flow(replay) == seen


def test_hosts_that_cannot_change_the_command_name_the_recording_in_the_environment(tmp_path: Path) -> None:
    write(tmp_path, *PROMPT)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "FAIRLEAD_REPLAY_SPEED": "fast"}
    env["FAIRLEAD_REPLAY"] = str(recording(tmp_path))
    folder = tmp_path / "folder"
    folder.mkdir()
    command = [FAIRLEAD, "--mode", "rpc", "--model", "any/model"]
    with Host([*command, "--dialect", "pi"], folder, env) as replay:
        assert replay.request("prompt", message="Hi.")["success"] is True
        assert replay.leave() == 0
    with Host([*command, "--dialect", "omp"], folder, env) as replay:
        assert replay.exit_code() == 1
        assert "was recorded in the dialect pi, and the host expects omp" in replay.stderr()


def test_the_traffic_of_the_provider_is_served_to_a_real_agent(tmp_path: Path) -> None:
    with recorded(tmp_path, says("Hello there.", thinking="Hm."), {"status": 400, "error": "bad request"}) as (first, _):
        first.prompt("Hi.")
        first.prompt("Fail.")
        first.leave()
    (tmp_path / "again").mkdir()
    with provider_of(tmp_path) as url, recorded(tmp_path / "again", url=url) as (again, _):
        again.prompt("Hi.")
        again.prompt("Fail.")
        again.leave()
        last = again.until("agent_end", nth=2)["messages"][-1]
        assert "bad request" in last["errorMessage"]
    texts = [
        [entry["frame"]["message"]["content"] for entry in entries(root, "out") if entry["frame"]["type"] == "message_end"]
        for root in (tmp_path, tmp_path / "again")
    ]
    assert texts[0] == texts[1]


def test_an_answer_that_was_aborted_is_aborted_again(tmp_path: Path) -> None:
    def flow(agent: Host) -> list[str]:
        agent.send({"id": "p", "type": "prompt", "message": "Talk."})
        agent.update("text_delta")
        agent.request("abort")
        agent.prompt("Still there?")
        agent.leave()
        return [frame["message"]["stopReason"] for frame in agent.frames if frame["type"] == "turn_end"]

    with recorded(tmp_path, ENDLESS, says("Yes.")) as (first, _):
        stops = flow(first)
    assert stops == ["aborted", "stop"]
    (tmp_path / "again").mkdir()
    with provider_of(tmp_path) as url, recorded(tmp_path / "again", url=url) as (again, _):
        assert flow(again) == stops
