"""What a host is told of sub-agents while they work, and what it has to subscribe to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.behaviour.subagent_frames import answers, gives, lives, of_type, result, subagents
from tests.protocol.test_declarations import as_declared
from tests.support.host import Frame
from tests.support.stage import bash, calls, says, stage


def events_of(id: str, frames: Sequence[Frame]) -> list[Frame]:
    """The frames of a sub-agent's own run."""
    return [frame["payload"]["event"] for frame in of_type(frames, "subagent_event") if frame["payload"]["id"] == id]


# Subscriptions


def test_without_a_subscription_sub_agents_appear_only_in_tool_events(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("look", "seen"), gives("look"), says("done")]) as host:
        frames = host.prompt("go")
        assert not [frame for frame in frames if frame["type"].startswith("subagent")]
        assert result(frames) == ("## about look (look: completed)\n\nseen", False)
        (update, *_) = of_type(frames, "tool_execution_update")
        assert update["partialResult"]["details"]["progress"][0]["id"] == "look"
        assert len([frame for frame in of_type(frames, "message_start") if frame["message"]["role"] == "assistant"]) == 2
        assert host.leave() == 0


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
def test_progress_is_lives_and_reports(tmp_path: Path, dialect: str) -> None:
    script = [answers("look", "seen"), gives("look"), says("done")]
    with stage(tmp_path, dialect, script, flags=["--tools", "read,task"]) as host:
        assert host.request("set_subagent_subscription", level="progress")["data"] == {"level": "progress"}
        frames = host.prompt("go")
        assert lives(frames) == [("look", "started"), ("look", "completed")]
        assert not of_type(frames, "subagent_event")
        last = of_type(frames, "subagent_progress")[-1]["payload"]
        assert last["progress"]["status"] == "completed"
        assert last["progress"]["recentOutput"] == ["seen"]
        assert last["progress"]["requests"] == 1
        assert last["sessionFile"] == subagents(host)["look"]["sessionFile"]
        call = of_type(frames, "tool_execution_start")[0]["toolCallId"]
        assert {frame["payload"]["parentToolCallId"] for frame in of_type(frames, "subagent_lifecycle", "subagent_progress")} == {
            call
        }
        assert [as_declared(frame) for frame in frames] == frames
        assert host.leave() == 0


@pytest.mark.parametrize("updates", ["full", "delta"])
def test_events_are_the_frames_of_the_sub_agents_own_run(tmp_path: Path, updates: str) -> None:
    work = {"match": "look", **calls(bash("echo one"), text="Let me see.")}
    script = [work, gives("look"), says("It is one."), says("done")]
    with stage(tmp_path, "omp", script, flags=["--updates", updates]) as host:
        host.request("set_subagent_subscription", level="events")
        frames = host.prompt("go")
        inner = events_of("look", frames)
        kinds = [frame["type"] for frame in inner if frame["type"] not in ("message_update", "tool_execution_update")]
        turn = ["turn_start", "message_start", "message_end", "message_start", "message_end"]
        tool = ["tool_execution_start", "tool_execution_end", "message_start", "message_end", "turn_end"]
        rest = ["turn_start", "message_start", "message_end", "turn_end", "agent_end", "agent_settled"]
        assert kinds == ["agent_start", *turn, *tool, *rest]
        deltas = [
            frame["assistantMessageEvent"]
            for frame in of_type(inner, "message_update")
            if frame["assistantMessageEvent"]["type"] == "text_delta"
        ]
        assert "".join(delta["delta"] for delta in deltas) == "Let me see.It is one."
        assert all(("partial" in delta) is (updates == "full") for delta in deltas)
        assert len(of_type(inner, "agent_end")[0]["messages"]) == 4
        assert [as_declared(frame) for frame in (*frames, *inner)] == [*frames, *inner]
        assert host.leave() == 0


def test_full_updates_of_all_of_them_together_are_held_to_the_pace_of_one(tmp_path: Path) -> None:
    script = [answers("look", "word " * 20), gives(*(f"look {number}" for number in range(5))), says("done")]
    with stage(tmp_path, "omp", script, settings={"output": {"bytesPerSecond": 1}}) as host:
        host.request("set_subagent_subscription", level="events")
        frames = host.prompt("go")
        inner = [frame for id in subagents(host) for frame in events_of(id, frames)]
        updates = of_type([*frames, *inner], "message_update")
        assert len(updates) > 10
        assert len([frame for frame in updates if "message" in frame]) == 1
        assert host.leave() == 0


def test_subscribing_during_an_answer_delivers_events_from_its_end(tmp_path: Path) -> None:
    script = [answers("look", "word " * 60, holdAfter=1), gives("look"), says("done")]
    with stage(tmp_path, "omp", script) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until_asked(2)
        host.until("tool_execution_update")
        assert subagents(host)["look"]["status"] == "running"
        host.request("set_subagent_subscription", level="events")
        host.provider.release()
        host.until("agent_settled")
        kinds = [frame["type"] for frame in events_of("look", host.frames)]
        assert kinds[-4:] == ["message_end", "turn_end", "agent_end", "agent_settled"]
        assert host.leave() == 0
        assert host.stderr() == ""


def test_unsubscribing_stops_the_events(tmp_path: Path) -> None:
    script = [answers("look", "word " * 60, holdAfter=1), gives("look"), says("done")]
    with stage(tmp_path, "omp", script) as host:
        host.request("set_subagent_subscription", level="events")
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("subagent_event")
        host.request("set_subagent_subscription", level="off")
        since = host.mark()
        host.provider.release()
        host.until("agent_settled")
        assert not [frame for frame in host.frames[since:] if frame["type"].startswith("subagent")]
        assert host.leave() == 0


def test_a_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with stage(tmp_path, "omp") as host:
        answer = host.request("set_subagent_subscription", level="bogus")
        assert (answer["success"], answer["error"]) == (False, "Invalid subagent subscription level: bogus")
        assert host.leave() == 0


# The end


def test_a_host_that_reads_late_gets_all_of_it_without_a_flood(tmp_path: Path) -> None:
    script = [answers("look", "word " * 40_000), gives("look"), says("done")]
    settings = {"output": {"queueBytes": 100_000}}
    with stage(tmp_path, "omp", script, settings=settings, reading=False) as host:
        host.send_together(
            {"id": "s", "type": "set_subagent_subscription", "level": "events"}, {"id": "p", "type": "prompt", "message": "go"}
        )
        host.until_asked(2)
        host.start_reading()
        host.until("agent_settled")
        text = [
            frame["assistantMessageEvent"]["delta"]
            for frame in of_type(events_of("look", host.frames), "message_update")
            if frame["assistantMessageEvent"]["type"] == "text_delta"
        ]
        assert "".join(text) == "word " * 40_000
        assert host.bytes_read < 4_000_000
        assert host.leave() == 0
