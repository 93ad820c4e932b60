"""Prompts that arrive while a run is ending: during the compaction that follows it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.compactions import ENDLESS_SUMMARY, HELD_SUMMARY, KEEP_LITTLE, LONG, NEARLY_FULL, told
from tests.support.host import Frame
from tests.support.opal import opal, said, types
from tests.support.session_host import SUMMARY, conversation, kept, session_file, stage, state, texts
from tests.support.stage import Stage, bash, calls, says

FAMILY = ("pi", "omp", "xcsh")
FULL = {**LONG, "usage": NEARLY_FULL}


@contextmanager
def ending(tmp_path: Path, dialect: str, *turns: Any, **rest: Any) -> Generator[tuple[Stage, int]]:
    """A run whose work is done, and whose conversation is being compacted; and the place of its first frame."""
    with stage(tmp_path, dialect, [LONG, FULL, *turns], settings=KEEP_LITTLE, **rest) as host:
        host.prompt("one")
        since = host.mark()
        host.send({"id": "p1", "type": "prompt", "message": "two"})
        host.until_asked(3)
        yield host, since


def outcomes(frames: list[Frame]) -> list[tuple[str, str]]:
    return [(frame["id"], frame["status"]) for frame in frames if frame["type"] == "prompt_result"]


@pytest.mark.parametrize("dialect", [*FAMILY, "pi-2025"])
def test_a_prompt_sent_on_agent_end_is_answered(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, FULL, says("after"), SUMMARY], settings=KEEP_LITTLE) as host:
        for number, text in enumerate(("one", "two", "three"), 1):
            host.send({"id": f"p{number}", "type": "prompt", "message": text})
            host.until("agent_end", nth=number)
        assert host.leave() == 0
        assert [frame for frame in host.frames if frame["type"] == "error" or frame.get("success") is False] == []
        assert len([frame for frame in host.frames if frame["type"] == "agent_start"]) == 3
        assert texts(host.until("agent_end", nth=3)["messages"]) == ["three", "after"]


@pytest.mark.parametrize("dialect", ["omp", "xcsh", "pi-2025"])
def test_agent_end_is_held_back_until_the_compaction_is_over(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, FULL, HELD_SUMMARY], settings=KEEP_LITTLE) as host:
        host.send({"id": "p1", "type": "prompt", "message": "one"})
        host.until("agent_end")
        since = host.mark()
        host.send({"id": "p2", "type": "prompt", "message": "two"})
        host.until_asked(3)
        host.send({"type": "bogus"})
        host.wait_for(lambda frame: "bogus" in frame.get("error", ""), "the answer to bogus", since=since)
        assert "agent_end" not in told(host.frames[since:])
        host.provider.release()
        host.until("agent_end", since=since)
        kinds = told(host.frames[since:])
        assert kinds.index("agent_end") > max(place for place, kind in enumerate(kinds) if "compaction" in kind)
        assert [kinds.count("agent_start"), kinds.count("agent_end")] == [1, 1]


@pytest.mark.parametrize("dialect", FAMILY)
def test_a_prompt_during_the_compaction_after_a_run_starts_when_it_is_over(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, says("after"), HELD_SUMMARY) as (host, since):
        assert host.request("prompt", id="p2", message="three")["success"] is True
        assert state(host)["pendingMessageCount"] == 1
        host.provider.release()
        host.until("agent_settled", since=since)
        frames = host.frames[since:]
        assert conversation(host)[-2:] == ["three", "after"]
        assert told(frames).count("agent_settled") == 1
        assert [frame["id"] for frame in frames if frame.get("command") == "prompt"] == ["p1", "p2"]
        if dialect == "omp":
            assert outcomes(frames) == [("p2", "completed"), ("p1", "completed")]
        ends = [texts(frame["messages"]) for frame in frames if frame["type"] == "agent_end"]
        first, second = ["two", LONG["text"]], ["three", "after"]
        assert ends == ([first, second] if dialect == "pi" else [[*first, *second]])


def test_in_pi_2025_a_prompt_during_the_compaction_is_answered_too(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [LONG, FULL, says("after"), HELD_SUMMARY], settings=KEEP_LITTLE) as host:
        host.send({"type": "prompt", "message": "one"})
        host.until("agent_end")
        host.send({"type": "prompt", "message": "two"})
        host.until_asked(3)
        host.send({"type": "prompt", "message": "three"})
        host.send({"type": "bogus"})
        assert host.until("error")["error"] == "Unknown command: bogus"
        host.provider.release()
        end = host.until("agent_end", nth=2)
        assert texts(end["messages"]) == ["two", LONG["text"], "three", "after"]
        assert [frame["type"] for frame in host.frames].count("agent_start") == 2


@pytest.mark.parametrize("dialect", FAMILY)
def test_prompts_during_the_compaction_are_answered_one_after_the_other(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, says("third"), says("fourth"), says("fifth"), HELD_SUMMARY) as (host, since):
        host.request("prompt", id="p2", message="three")
        host.request("prompt", id="p3", message="four")
        host.request("follow_up", message="by the way")
        host.provider.release()
        host.until("agent_settled", since=since)
        assert conversation(host)[-6:] == ["three", "third", "four", "fourth", "by the way", "fifth"]
        assert told(host.frames[since:]).count("agent_settled") == 1
        if dialect == "omp":
            assert sorted(outcomes(host.frames[since:])) == [("p1", "completed"), ("p2", "completed"), ("p3", "completed")]


@pytest.mark.parametrize("dialect", FAMILY)
def test_steering_after_such_a_prompt_is_delivered_right_behind_it(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, says("after"), HELD_SUMMARY) as (host, since):
        host.request("prompt", id="p2", message="three")
        host.request("steer", message="by the way")
        host.provider.release()
        host.until("agent_settled", since=since)
        assert conversation(host)[-3:] == ["three", "by the way", "after"]


@pytest.mark.parametrize("dialect", FAMILY)
def test_an_abort_during_the_compaction_ends_the_prompt_that_waits_for_it(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, says("after"), ENDLESS_SUMMARY) as (host, since):
        host.request("prompt", id="p2", message="three")
        host.request("follow_up", message="by the way")
        host.request("abort", id="a")
        frames = host.frames[since:]
        assert frames[-1]["id"] == "a"
        assert conversation(host)[-2:] == ["three", ""], "it began, and was aborted"
        assert state(host)["pendingMessageCount"] == 1, "what was queued stays queued"
        assert len(host.provider.requests) == 3
        ends = [frame["messages"][-1]["stopReason"] for frame in frames if frame["type"] == "agent_end"]
        assert ends == (["stop", "aborted"] if dialect == "pi" else ["aborted"])
        if dialect == "omp":
            assert outcomes(frames) == [("p2", "aborted"), ("p1", "completed")]
        host.request("set_auto_compaction", enabled=False)
        host.prompt("four")
        assert conversation(host)[-3:] == ["after", "by the way", "after"]


@pytest.mark.parametrize("dialect", FAMILY)
def test_the_end_of_the_input_during_the_compaction_ends_the_prompt_that_waits_for_it(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, ENDLESS_SUMMARY) as (host, since):
        host.request("prompt", id="p2", message="three")
        path = session_file(host)
        assert host.leave() == 0
        assert host.frames[-1]["type"] == "agent_settled"
        said = kept(path).messages
        assert [message["role"] for message in said[-2:]] == ["user", "assistant"]
        assert texts(said)[-2:] == ["three", ""] and said[-1]["stopReason"] == "aborted"
        if dialect == "omp":
            assert outcomes(host.frames[since:]) == [("p2", "aborted"), ("p1", "completed")]


@pytest.mark.parametrize("dialect", FAMILY)
def test_a_compaction_that_fails_does_not_keep_the_prompt_from_starting(dialect: str, tmp_path: Path) -> None:
    broken = {**SUMMARY, "text": "no summary today", "holdAfter": 1, "dropAfter": 2}
    with ending(tmp_path, dialect, says("after"), broken) as (host, since):
        assert host.request("prompt", id="p2", message="three")["success"] is True
        host.provider.release()
        host.until("agent_settled", since=since)
        assert any("compaction failed" in frame.get("errorMessage", "") for frame in host.frames[since:])
        assert conversation(host)[-2:] == ["three", "after"]


@pytest.mark.parametrize("dialect", FAMILY)
def test_a_new_session_ends_the_prompt_that_waits_in_the_old_one(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, says("after"), ENDLESS_SUMMARY) as (host, since):
        old = session_file(host)
        host.request("prompt", id="p2", message="three")
        assert host.request("new_session")["data"]["cancelled"] is False
        assert state(host)["messageCount"] == 0 == state(host)["pendingMessageCount"]
        assert texts(kept(old).messages)[-2:] == ["three", ""]
        assert told(host.frames[since:]).count("agent_settled") == 1
        if dialect == "omp":
            assert outcomes(host.frames[since:]) == [("p2", "aborted"), ("p1", "completed")]
        host.prompt("four")
        assert conversation(host) == ["four", "after"]


@pytest.mark.parametrize("dialect", FAMILY)
def test_a_prompt_during_a_compaction_between_turns_is_answered_after_the_run(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, calls(bash("true"), text="word " * 80, usage=NEARLY_FULL), says("done"), says("after"), HELD_SUMMARY]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        since = host.mark()
        host.send({"id": "p1", "type": "prompt", "message": "two"})
        host.until_asked(3)
        assert host.request("prompt", id="p2", message="three")["success"] is True
        host.provider.release()
        host.until("agent_settled", since=since)
        assert conversation(host)[-3:] == ["done", "three", "after"]


@pytest.mark.parametrize("dialect", FAMILY)
def test_a_prompt_that_waits_is_kept_in_the_session_file(dialect: str, tmp_path: Path) -> None:
    with ending(tmp_path, dialect, ENDLESS_SUMMARY) as (host, _):
        host.request("prompt", id="p2", message="three")
        host.process.kill()
        host.process.wait()
        with stage(tmp_path / "again", dialect) as other:
            other.request("switch_session", sessionPath=str(next(host.around.home.rglob("sessions/**/*.jsonl"))))
            assert state(other)["pendingMessageCount"] == 1


def test_an_opal_client_may_prompt_during_the_compaction_after_a_run(tmp_path: Path) -> None:
    with opal(tmp_path, [LONG, FULL, says("after"), HELD_SUMMARY], settings=KEEP_LITTLE) as client:
        session = client.start(session=True)
        client.prompt(session, "one")
        since = client.host.mark()
        client.call("agent/prompt", session_id=session, text="two")
        client.host.until_asked(3)
        assert client.call("agent/prompt", session_id=session, text="three") == {"queued": True}
        client.host.provider.release()
        client.ended(session, since=since)
        events = client.events(session, since=since)
        assert types(events).count("agent_end") == 1
        assert said(events).endswith("after")
