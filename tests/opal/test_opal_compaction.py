"""Compaction of Opal's sessions: what stays, and what happens to prompts and aborts meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.support.opal import asked, history, opal, opal_again, request, said, types
from tests.support.stage import ENDLESS, HELD, LASTING, calls, says


def test_a_compaction_keeps_so_many_messages_and_is_saved(tmp_path: Path) -> None:
    turns = [*(says(f"Answer {number}.") for number in range(4)), says("## Goal\nA summary."), says("On.")]
    with opal(tmp_path, turns) as client:
        client.start(session_id="s")
        for number in range(4):
            client.prompt("s", f"Question {number}?")
        since = client.host.mark()
        assert client.call("session/compact", session_id="s", keep_recent=2) == {}
        assert client.events(since=since) == []
        client.host.leave()
        with opal_again(client) as later:
            later.start(session_id="s")
            messages = later.call("session/history", session_id="s")["messages"]
            assert [message["role"] for message in messages] == ["user", "user", "assistant"]
            assert messages[0]["content"].startswith("[Conversation summary — older messages were compacted]\n\n## Goal")
            assert messages[0]["metadata"] == {"type": "compaction_summary", "read_files": [], "modified_files": []}
            assert [message["content"] for message in messages[1:]] == ["Question 3?", "Answer 3."]
            later.prompt("s", "Go on.")
            assert "A summary." in asked(later, 5)
            assert "Question 1?" not in asked(later, 5)


def test_a_conversation_that_is_short_enough_stays_as_it_is(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="s")
        assert client.call("session/compact", session_id="s") == {}
        client.prompt("s", "hi")
        assert client.call("session/compact", session_id="s") == {}
        assert len(history(client, "s")) == 2
        assert len(client.host.provider.requests) == 1
        error = client.refusal("session/compact", session_id="s", keep_recent=0)
        assert error == {"code": -32602, "message": "keep_recent: expected a number of at least 1, got 0"}


def test_other_requests_are_answered_while_a_conversation_is_compacted(tmp_path: Path) -> None:
    turns = [says("Answer."), {**says("A summary."), "holdAfter": 1}, says("fine")]
    with opal(tmp_path, turns) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        ident = client.send("session/compact", session_id="s", keep_recent=1)
        client.host.until_asked(2)
        assert client.call("agent/state", session_id="s")["message_count"] == 2
        other = client.start()
        assert said(client.prompt(other, "hi")) == "fine"
        client.host.provider.release()
        assert client.response(ident)["result"] == {}


def test_a_prompt_during_a_compaction_is_queued_and_its_run_follows(tmp_path: Path) -> None:
    turns = [says("Answer."), {**says("A summary."), "holdAfter": 1}, says("fine")]
    with opal(tmp_path, turns) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        ident = client.send("session/compact", session_id="s", keep_recent=1)
        client.host.until_asked(2)
        since = client.host.mark()
        assert client.call("agent/prompt", session_id="s", text="now") == {"queued": True}
        assert client.call("agent/prompt", session_id="s", text="and then") == {"queued": True}
        client.host.provider.release()
        assert client.response(ident)["result"] == {}
        client.ended("s", since=since)
        events = [(event["type"], event.get("text")) for event in client.events("s", since=since)]
        assert events[:5] == [
            ("message_queued", "now"),
            ("message_queued", "and then"),
            ("message_applied", "now"),
            ("agent_start", None),
            ("message_applied", "and then"),
        ]
        assert events[-1][0] == "agent_end"
        assert [text for role, text in history(client, "s") if role == "user"][-2:] == ["now", "and then"]
        assert "A summary." in asked(client, 2)


def test_a_prompt_that_waited_for_a_compaction_waits_on_if_that_is_aborted(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Answer."), ENDLESS, says("fine")]) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        ident = client.send("session/compact", session_id="s", keep_recent=1)
        client.host.until_asked(2)
        assert client.call("agent/prompt", session_id="s", text="now") == {"queued": True}
        client.call("agent/abort", session_id="s")
        assert "error" in client.response(ident)
        assert client.is_idle("s")
        client.prompt("s", "Go on.")
        assert [text for role, text in history(client, "s") if role == "user"] == ["Question?", "Go on.", "now"]


def test_an_abort_stops_a_compaction(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Answer."), ENDLESS, says("fine")]) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        ident = client.send("session/compact", session_id="s", keep_recent=1)
        client.host.until_asked(2)
        client.call("agent/abort", session_id="s")
        client.until("agent_abort", "s")
        assert client.response(ident)["error"] == {"code": -32603, "message": "Compaction cancelled"}
        assert len(history(client, "s")) == 2
        assert said(client.prompt("s", "Go on.")) == "fine"


def test_a_prompt_right_behind_an_aborted_compaction_begins_a_run(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Answer."), ENDLESS, says("fine")]) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        ident = client.send("session/compact", session_id="s", keep_recent=1)
        client.host.until_asked(2)
        since = client.host.mark()
        client.host.send_together(
            request("abort", "agent/abort", session_id="s"), request("prompt", "agent/prompt", session_id="s", text="Go on.")
        )
        assert client.response("prompt")["result"] == {"queued": False}
        client.until("agent_end", "s", since=since)
        assert "error" in client.response(ident)


def test_an_abort_counts_also_if_the_compaction_had_nothing_to_do(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Answer."), HELD]) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        since = client.host.mark()
        client.host.send_together(
            request("compact", "session/compact", session_id="s"),
            request("prompt", "agent/prompt", session_id="s", text="now"),
            request("abort", "agent/abort", session_id="s"),
            request("state", "agent/state", session_id="s"),
        )
        assert client.response("state")["result"]["status"] == "idle"
        assert client.is_idle("s")
        assert types(client.events("s", since=since))[-1] == "agent_abort"


def test_a_compaction_right_behind_an_abort_comes_before_the_next_prompt(tmp_path: Path) -> None:
    turns = [says("Answer."), calls(("shell", {"command": "trap '' TERM; " + LASTING})), says("A summary."), says("fine")]
    with opal(tmp_path, turns) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        client.call("agent/prompt", session_id="s", text="go")
        client.host.began.wait()
        since = client.host.mark()
        client.host.send_together(
            request("abort", "agent/abort", session_id="s"),
            request("compact", "session/compact", session_id="s", keep_recent=1),
            request("prompt", "agent/prompt", session_id="s", text="Go on."),
        )
        client.until("agent_end", "s", since=since)
        assert client.response("compact")["result"] == {}
        assert [text for role, text in history(client, "s") if role == "user"][-1] == "Go on."
        assert "A summary." in asked(client, -1)


def test_a_compaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Answer."), {"status": 400, "error": "no summary today"}]) as client:
        client.start(session_id="s")
        client.prompt("s", "Question?")
        error = client.refusal("session/compact", session_id="s", keep_recent=1)
        assert error["code"] == -32603
        assert "no summary today" in error["message"]
        assert len(history(client, "s")) == 2
