"""Compactions that nobody asked for: at the threshold, and after an overflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.behaviour.compactions import (
    BROKEN_SUMMARY,
    ENDLESS_SUMMARY,
    HELD_SUMMARY,
    KEEP_LITTLE,
    LONG,
    NEARLY_FULL,
    OVERFLOW_AGAIN,
    TOO_LONG,
    compactions,
    end_of,
    start_of,
    summary_requests,
    told,
    two_prompts,
)
from tests.support.session_host import SUMMARY, asked, conversation, kept, messages, session_file, stage, state, texts
from tests.support.stage import bash, calls, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


# When the context is nearly full


def test_a_full_context_is_compacted_after_the_run(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, {**LONG, "usage": NEARLY_FULL}, says("after"), HELD_SUMMARY]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        since = host.mark()
        host.send({"id": "p", "type": "prompt", "message": "two"})
        host.until(start_of(dialect, "")["type"])
        host.until_asked(3)
        assert state(host).items() >= {"isStreaming": True, "isCompacting": True}.items()
        host.provider.release()
        host.until("agent_settled", since=since)
        start, end = compactions(host.frames[since:])
        assert start == start_of(dialect, "threshold")
        result = end.pop("result")
        assert end == end_of(dialect, "threshold")
        assert result.items() >= {"summary": "what was said, at length", "tokensBefore": 190_500}.items()
        compacted = [start["type"], end["type"]]
        ended = ["agent_end", *compacted] if dialect == "pi" else [*compacted, "agent_end"]
        assert told(host.frames[since:]) == ["agent_start", *ended, "agent_settled"]
        assert host.frames[-1] == {"type": "agent_settled", "aborted": False}
        assert conversation(host) == [result["summary"], "two", LONG["text"]]
        assert state(host).items() >= {"isStreaming": False, "isCompacting": False}.items()
        assert len(kept(session_file(host)).of("compaction")) == 1
        host.prompt("three")
        assert not compactions(host.frames[since:])[2:]


def test_a_full_context_is_compacted_before_a_prompt_is_answered(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, {**LONG, "usage": NEARLY_FULL}, says("after"), SUMMARY]
    with stage(tmp_path, dialect, turns, settings={"compaction": {"keepRecentTokens": 102}}) as host:
        host.request("set_auto_compaction", enabled=False)
        assert state(host)["autoCompactionEnabled"] is False
        two_prompts(host)
        assert not compactions(host.frames)
        host.request("set_auto_compaction", enabled=True)
        assert state(host)["autoCompactionEnabled"] is True
        frames = host.prompt("3", id="p")
        start, end = compactions(frames)
        assert start == start_of(dialect, "threshold")
        assert frames[0]["type"] == "response" and frames[0]["id"] == "p" and frames[0]["success"]
        assert told(frames) == [start["type"], end["type"], "agent_start", "agent_end", "agent_settled"]
        assert ["<conversation>" in asked(request) for request in host.provider.requests] == [False, False, True, False]
        assert "[User]: one" in summary_requests(host)[0] and "[User]: two" not in summary_requests(host)[0]
        assert conversation(host)[0] == "what was said"
        assert conversation(host)[-2:] == ["3", "after"]


def test_a_full_context_is_compacted_between_two_turns(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, calls(bash("echo found"), text="word " * 80, usage=NEARLY_FULL), says("done"), SUMMARY]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        frames = host.prompt("two")
        start, end = compactions(frames)
        assert start == start_of(dialect, "threshold")
        assert end["result"]["summary"].startswith("what was said")
        assert told(frames) == ["agent_start", start["type"], end["type"], "agent_end", "agent_settled"]
        kinds = [frame["type"] for frame in frames]
        place = frames.index(start)
        assert kinds[place - 1] == "turn_end"
        assert kinds[frames.index(end) + 1] == "turn_start"
        assert [message["role"] for message in messages(host)] == ["compactionSummary", "assistant", "toolResult", "assistant"]
        last = asked(host.provider.requests[-1])
        assert "what was said" in last and "tool_use" in last and "found" in last
        ended = next(frame for frame in frames if frame["type"] == "agent_end")
        assert [message["role"] for message in ended["messages"]] == ["user", "assistant", "toolResult", "assistant"]


def test_an_automatic_summary_that_fails_loses_nothing(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, calls(bash("echo found"), text="word " * 80, usage=NEARLY_FULL), says("done"), BROKEN_SUMMARY]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        frames = host.prompt("two")
        start, end = compactions(frames)
        error = end["errorMessage"]
        assert (start, end) == (start_of(dialect, "threshold"), end_of(dialect, "threshold", errorMessage=error))
        assert error.startswith("Auto-compaction failed: ") and "no summaries today" in error
        assert conversation(host) == ["one", LONG["text"], "two", LONG["text"], "found\n", "done"]
        assert kept(session_file(host)).of("compaction") == []
        assert frames[-1] == {"type": "agent_settled", "aborted": False}


def test_an_abort_stops_an_automatic_compaction_and_the_run(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, calls(bash("echo found"), text="word " * 80, usage=NEARLY_FULL), says("after"), ENDLESS_SUMMARY]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        since = host.mark()
        host.send({"id": "p", "type": "prompt", "message": "two"})
        host.until_asked(3)
        host.request("abort", id="a")
        frames = host.frames[since:]
        assert compactions(frames) == [start_of(dialect, "threshold"), end_of(dialect, "threshold", aborted=True)]
        assert told(frames)[-2:] == ["agent_end", "agent_settled"]
        assert [told(frames).count(kind) for kind in ("agent_start", "agent_end", "agent_settled")] == [1, 1, 1]
        assert frames[-1]["id"] == "a"
        assert messages(host)[-1]["stopReason"] == "aborted"
        assert len(host.provider.requests) - len(summary_requests(host)) == 2, "the next turn was not begun"
        assert kept(session_file(host)).of("compaction") == []


def test_messages_queued_during_the_last_compaction_are_delivered(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, {**LONG, "usage": NEARLY_FULL}, says("heard"), HELD_SUMMARY]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        since = host.mark()
        host.send({"id": "p", "type": "prompt", "message": "two"})
        host.until_asked(3)
        host.request("follow_up", message="by the way")
        host.provider.release()
        host.until("agent_settled", since=since)
        assert conversation(host)[-2:] == ["by the way", "heard"]
        assert state(host)["pendingMessageCount"] == 0
        assert told(host.frames[since:]).count("agent_settled") == 1


def test_a_small_context_is_not_compacted_without_end(dialect: str, tmp_path: Path) -> None:
    full = {"input": 15_000, "output": 500}
    turns = [{**LONG, "usage": full}, SUMMARY]
    with stage(tmp_path, dialect, turns, model="fake/fake-small") as host:
        for number in range(3):
            frames = host.prompt(f"prompt {number}")
            assert told(frames) == ["agent_start", "agent_end", "agent_settled"], "everything is recent: nothing to summarise"


# When a request was too long


def test_a_request_that_overflows_is_sent_again_once_after_a_compaction(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, TOO_LONG, says("recovered"), says("more"), SUMMARY], settings=KEEP_LITTLE) as host:
        host.prompt("one " * 10)
        frames = host.prompt("two " * 110, id="p")
        start, end = compactions(frames)
        assert (start, end.pop("result")["summary"]) == (start_of(dialect, "overflow"), "what was said")
        assert end == end_of(dialect, "overflow", willRetry=True)
        attempt = ["agent_end"] if dialect == "pi" else []
        expected = ["agent_start", *attempt, start["type"], end["type"], "agent_start", "agent_end", "agent_settled"]
        assert told(frames) == expected
        assert frames[-1] == {"type": "agent_settled", "aborted": False}
        ends = [frame for frame in frames if frame["type"] == "agent_end"]
        reasons = [[message.get("stopReason", message["role"]) for message in frame["messages"]] for frame in ends]
        if dialect == "pi":
            assert [frame["willRetry"] for frame in ends] == [True, False]
            assert reasons == [["user", "error"], ["stop"]]
        else:
            assert reasons == [["user", "error", "stop"]]
        (dropped,) = [frame["entry"] for frame in frames if frame["type"] == "entry_appended"]
        assert dropped == kept(session_file(host)).of("context_edit")[0]
        assert "too long" not in asked(host.provider.requests[-1])
        assert texts(messages(host))[-2:] == ["two " * 110, "recovered"]
        assert [message["stopReason"] for message in kept(session_file(host)).with_role("assistant")] == ["stop", "error", "stop"]
        if dialect == "omp":
            results = [frame for frame in frames if frame["type"] == "prompt_result"]
            assert [(frame["id"], frame["status"]) for frame in results] == [("p", "completed")]
        assert told(host.prompt("three")) == ["agent_start", "agent_end", "agent_settled"]


def test_an_overflow_that_nothing_helps_against_ends_the_run(dialect: str, tmp_path: Path) -> None:
    always = {**TOO_LONG, "match": "two two"}
    with stage(tmp_path, dialect, [LONG, says("after"), SUMMARY, always], settings=KEEP_LITTLE) as host:
        host.prompt("one " * 10)
        frames = host.prompt("two " * 110)
        ends = [frame for frame in compactions(frames) if frame["type"].endswith("_end")]
        error = ends[-1]["errorMessage"]
        assert error.startswith(OVERFLOW_AGAIN) and "larger-context model" in error
        assert ends[-1] == end_of(dialect, "overflow", errorMessage=error)
        assert not any("errorMessage" in end for end in ends[:-1])
        attempts = len(host.provider.requests) - 1 - len(summary_requests(host))
        assert 2 <= attempts <= 6
        assert set(told(frames)[-3:-1]) == {"agent_end", ends[-1]["type"]}
        assert told(frames).count("agent_end") == (attempts if dialect == "pi" else 1)
        assert frames[-1] == {"type": "agent_settled", "aborted": False}
        host.prompt("three")
        assert conversation(host)[-1] == "after"


def test_an_overflow_whose_compaction_fails_ends_the_run(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, TOO_LONG, says("after"), BROKEN_SUMMARY], settings=KEEP_LITTLE) as host:
        host.prompt("one " * 10)
        frames = host.prompt("two " * 110)
        start, end = compactions(frames)
        assert start == start_of(dialect, "overflow")
        assert end == end_of(dialect, "overflow", errorMessage=end["errorMessage"])
        assert "no summaries today" in end["errorMessage"]
        assert told(frames).count("agent_end") == 1
        assert frames[-1] == {"type": "agent_settled", "aborted": False}
        (ended,) = [frame for frame in frames if frame["type"] == "agent_end"]
        assert [message["role"] for message in ended["messages"]] == ["user", "assistant"]
        assert conversation(host)[:3] == ["one " * 10, LONG["text"], "two " * 110]


@pytest.mark.parametrize("how", ["by command", "by settings"])
def test_compaction_by_itself_can_be_turned_off(dialect: str, how: str, tmp_path: Path) -> None:
    settings = {"compaction": {"keepRecentTokens": 101, "enabled": how != "by settings"}}
    turns = [LONG, {**LONG, "usage": NEARLY_FULL}, TOO_LONG, says("after"), SUMMARY]
    with stage(tmp_path, dialect, turns, settings=settings) as host:
        if how == "by command":
            assert "enabled" in host.request("set_auto_compaction", enabled="yes")["error"]
            assert host.request("set_auto_compaction", enabled=False)["success"] is True
        assert state(host)["autoCompactionEnabled"] is False
        two_prompts(host)
        frames = host.prompt("three")
        assert messages(host)[-1]["stopReason"] == "error"
        assert told(frames) == ["agent_start", "agent_end", "agent_settled"]
        assert not compactions(host.frames)
        assert host.request("compact")["success"] is True, "it can still be asked for"
        assert json.loads((host.around.home / "settings.json").read_text()) == settings


def test_the_choice_is_kept_for_later_sessions_on_request(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("set_auto_compaction", enabled=False, persist=True)
        assert json.loads((host.around.home / "settings.json").read_text()) == {"compaction": {"enabled": False}}
