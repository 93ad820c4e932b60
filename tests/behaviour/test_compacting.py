"""A compaction that the host asks for. One that fails or is stopped loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.behaviour.compactions import (
    COMPACTING,
    ENDLESS_SUMMARY,
    HELD_SUMMARY,
    KEEP_LITTLE,
    LONG,
    compactions,
    end_of,
    start_of,
    summary_requests,
    two_prompts,
)
from tests.support.session_host import SUMMARY, asked, conversation, kept, messages, session_file, stage, state
from tests.support.stage import bash, calls, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


def test_the_older_part_of_a_conversation_becomes_a_summary(dialect: str, tmp_path: Path) -> None:
    turns = [says("the old answer " * 20), LONG, says("after"), says("## Goal\n- Win.\n\n## Progress", match="<conversation>")]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        file = two_prompts(host)
        before = kept(file).entries
        since = host.mark()
        answer = host.request("compact", customInstructions="Focus on code", id="c")
        result = answer["data"]
        assert result["usage"]["totalTokens"] == 150
        assert {**result, "usage": None} == {
            "summary": "## Goal\n- Win.\n\n## Progress",
            "firstKeptEntryId": before[-2]["id"],
            "tokensBefore": 150,
            "details": {"readFiles": [], "modifiedFiles": []},
            "estimatedTokensAfter": 108,
            "usage": None,
            "shortSummary": "Win.",
        }
        start, end = start_of("pi", "manual"), end_of("pi", "manual", result=result)
        assert host.frames[since:] == ([start, end, answer] if dialect == "pi" else [answer])

        (entry,) = kept(file).entries[len(before) :]
        assert entry.items() >= {"type": "compaction", "parentId": before[-1]["id"], "tokensBefore": 150}.items()
        assert {name: entry[name] for name in ("summary", "firstKeptEntryId", "details", "usage")}.items() <= result.items()

        (request,) = summary_requests(host)
        assert "the old answer" in request and "Focus on code" in request
        assert "[User]: two" not in request
        assert "tools" not in host.provider.requests[2].body

        shown = messages(host)
        assert [message["role"] for message in shown] == ["compactionSummary", "user", "assistant"]
        assert shown[0].items() >= {"summary": result["summary"], "tokensBefore": 150}.items()
        assert state(host)["messageCount"] == 3
        stats = host.request("get_session_stats")["data"]
        assert stats["contextUsage"] == {"tokens": None, "contextWindow": 200_000, "percent": None}
        assert (stats["totalMessages"], stats["userMessages"], stats["tokens"]["total"]) == (4, 2, 450)

        host.prompt("three")
        seen = asked(host.provider.requests[-1])
        assert "## Progress" in seen and "two" in seen and "the old answer" not in seen
        assert host.request("get_session_stats")["data"]["contextUsage"]["tokens"] == 150


def test_a_further_compaction_updates_the_summary_of_the_last(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, SUMMARY], settings=KEEP_LITTLE) as host:
        assert host.request("compact")["error"] == "Nothing to compact (session too small)"
        two_prompts(host)
        host.request("compact")
        host.request("set_session_name", name="says nothing")
        assert host.request("compact")["error"] == "Already compacted"
        host.prompt("three")
        assert host.request("compact")["success"] is True
        first, second = summary_requests(host)
        assert "<previous-summary>" not in first
        assert "<previous-summary>\\nwhat was said\\n</previous-summary>" in second
        assert "[User]: one" not in second and "[User]: two" in second
        assert conversation(host) == ["what was said", "three", LONG["text"]]
        assert len(kept(session_file(host)).of("compaction")) == 2


def test_calls_stay_with_their_results_and_files_are_remembered(dialect: str, tmp_path: Path) -> None:
    turns = [
        calls(("read", {"path": "a.txt"}), ("read", {"path": "gone.txt"}), ("write", {"path": "b.txt", "content": "x"})),
        calls(bash("printf 'x%.0s' $(seq 390)")),
        says("done"),
        says("after"),
        SUMMARY,
    ]
    with stage(tmp_path, dialect, turns, files={"a.txt": "A"}, settings=KEEP_LITTLE) as host:
        host.prompt("go")
        result = host.request("compact")["data"]
        assert result["details"] == {"readFiles": ["a.txt"], "modifiedFiles": ["b.txt"]}
        assert result["summary"] == (
            "No prior history.\n\n---\n\n**Turn Context (split turn):**\n\nwhat was said"
            "\n\n<read-files>\na.txt\n</read-files>\n\n<modified-files>\nb.txt\n</modified-files>"
        )
        assert [message["role"] for message in messages(host)] == ["compactionSummary", "assistant", "toolResult", "assistant"]
        host.prompt("next")
        blocks = [block for message in host.provider.requests[-1].body["messages"] for block in message["content"]]
        used = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert used == [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert len(used) == 1


def test_an_aborted_compaction_changes_nothing(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, ENDLESS_SUMMARY], settings=KEEP_LITTLE) as host:
        file = two_prompts(host)
        before, size = conversation(host), file.stat().st_size
        since = host.mark()
        host.send({"id": "c", "type": "compact"})
        host.until_asked(3)
        host.request("abort", id="a")
        refused = host.response("c")
        assert refused.items() >= {"command": "compact", "success": False, "error": "Compaction cancelled"}.items()
        events = [start_of("pi", "manual"), end_of("pi", "manual", aborted=True)] if dialect == "pi" else []
        assert host.frames[since:] == [*events, refused, host.response("a")]
        assert (conversation(host), file.stat().st_size) == (before, size)
        assert state(host)["isCompacting"] is False
        host.send_together({"id": "d", "type": "compact"}, {"id": "b", "type": "abort"})
        assert host.response("d")["error"] == "Compaction cancelled"
        assert (conversation(host), file.stat().st_size) == (before, size)


def test_prompts_are_refused_during_compaction_and_other_commands_work(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [LONG, LONG, says("after"), HELD_SUMMARY], settings=KEEP_LITTLE) as host:
        two_prompts(host)
        since = host.mark()
        host.send_together(
            {"id": "c", "type": "compact"},
            {"id": "p", "type": "prompt", "message": "no"},
            {"id": "q", "type": "prompt", "message": "no", "streamingBehavior": "steer"},
            {"id": "d", "type": "compact"},
            {"id": "s", "type": "get_state"},
            {"id": "g", "type": "get_messages_page"},
            {"id": "t", "type": "steer", "message": "queued"},
        )
        host.response("t")
        host.until_asked(3)
        for ident in ("p", "q"):
            answers = [frame for frame in host.frames[since:] if frame.get("id") == ident and frame["type"] == "response"]
            assert [answer["success"] for answer in answers] == ([False] if dialect == "pi" else [True, False])
            assert answers[-1]["error"] == COMPACTING
        assert host.response("d")["error"] == "The session is being compacted already."
        assert host.response("s")["data"].items() >= {"isCompacting": True, "isStreaming": False}.items()
        assert host.response("g")["code"] == "session_busy"
        assert "c" not in [frame.get("id") for frame in host.frames[since:]]

        host.provider.release()
        assert host.response("c")["success"] is True
        assert state(host).items() >= {"isCompacting": False, "pendingMessageCount": 1}.items()
        host.prompt("next")
        assert conversation(host)[-3:] == ["next", "queued", "after"]


@pytest.mark.parametrize("command", ["new_session", "abort_and_prompt", "navigate_tree"])
def test_commands_that_end_a_run_end_a_compaction_too(dialect: str, command: str, tmp_path: Path) -> None:
    fields = {"abort_and_prompt": {"message": "rather this"}, "navigate_tree": {"targetId": None}}.get(command, {})
    with stage(tmp_path, dialect, [LONG, LONG, says("after"), ENDLESS_SUMMARY], settings=KEEP_LITTLE) as host:
        file = two_prompts(host)
        size = file.stat().st_size
        host.send({"id": "c", "type": "compact"})
        host.until_asked(3)
        since = host.mark()
        assert host.request(command, id="x", **fields)["success"] is True
        answers = [frame for frame in host.frames if frame["type"] == "response"][-2:]
        assert [(answer["id"], answer["success"]) for answer in answers] == [("c", False), ("x", True)]
        assert answers[0]["error"] == "Compaction cancelled"
        if command == "abort_and_prompt":
            host.until("agent_settled", since=since)
            assert conversation(host) == ["one", LONG["text"], "two", LONG["text"], "rather this", "after"]
        else:
            assert file.stat().st_size == size
            assert conversation(host) == []


def test_a_summary_that_fails_loses_nothing(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, LONG, {"status": 400, "error": "no summaries today"}, says("a summary"), says("after")]
    with stage(tmp_path, dialect, turns, settings=KEEP_LITTLE) as host:
        file = two_prompts(host)
        before, size = conversation(host), file.stat().st_size
        since = host.mark()
        error = host.request("compact")["error"]
        assert error.startswith("Summarization failed: ") and "no summaries today" in error
        events = [start_of("pi", "manual"), end_of("pi", "manual", errorMessage=f"Compaction failed: {error}")]
        assert compactions(host.frames[since:]) == (events if dialect == "pi" else [])
        assert (conversation(host), file.stat().st_size) == (before, size)
        assert host.request("compact")["data"]["summary"] == "a summary"
        host.prompt("three")
        assert conversation(host)[0] == "a summary"


def test_a_summary_that_fails_in_a_way_that_may_pass_is_requested_again(dialect: str, tmp_path: Path) -> None:
    turns = [LONG, LONG, {"status": 529, "error": "Overloaded"}, says("In short.")]
    settings = {**KEEP_LITTLE, "retry": {"baseDelayMs": 0}}
    with stage(tmp_path, dialect, turns, settings=settings) as host:
        two_prompts(host)
        since = host.mark()
        answer = host.request("compact")
        assert answer["success"], answer
        told = [frame for frame in host.frames[since:] if "retry" in frame["type"] or frame["type"] == "notice"]
    error = told[0].pop("errorMessage" if dialect == "pi" else "message") if told else ""
    assert "Overloaded" in error or dialect == "xcsh"
    expected = {
        "pi": [
            {"type": "summarization_retry_scheduled", "attempt": 1, "maxAttempts": 3, "delayMs": 0},
            {"type": "summarization_retry_attempt_start", "source": "compaction", "reason": "manual"},
            {"type": "summarization_retry_finished"},
        ],
        "omp": [{"type": "notice", "level": "warning", "source": "compaction"}],
        "xcsh": [],
    }
    assert told == expected[dialect]
