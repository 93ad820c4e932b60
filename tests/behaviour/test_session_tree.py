"""Looking into a session, and moving within its tree: entries, branches, labels, pages, totals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.session_host import (
    SUMMARY,
    another,
    asked,
    conversation,
    kept,
    messages,
    session_file,
    stage,
    state,
    texts,
    user_entry,
)
from tests.support.stage import ENDLESS, HELD, Stage, says
from tests.support.stage import stage as plain_stage

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])

#: A summary that never ends.
ENDLESS_SUMMARY = {**SUMMARY, "hangAfter": 1}


def entries(host: Stage, **fields: Any) -> list[Frame]:
    return host.request("get_entries", **fields)["data"]["entries"]


def leaf(host: Stage) -> str | None:
    return host.request("get_entries")["data"]["leafId"]


def flat(nodes: list[Frame]) -> list[Any]:
    """A tree as lists: each entry's id, followed by what came after it."""
    return [[node["entry"]["id"], *flat(node["children"])] for node in nodes]


# Looking


def test_the_users_messages_of_the_present_branch(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request("get_fork_messages")["data"] == {"messages": []}
        host.prompt("one")
        host.prompt("two")
        said = [entry for entry in kept(session_file(host)).of("message") if entry["message"]["role"] == "user"]
        expected = [{"entryId": entry["id"], "text": text} for entry, text in zip(said, ["one", "two"], strict=True)]
        for command in ("get_fork_messages", "get_branch_messages"):
            answer = host.request(command)
            assert (answer["command"], answer["data"]) == (command, {"messages": expected})
        host.request("navigate_tree", targetId=said[1]["id"])
        assert host.request("get_branch_messages")["data"] == {"messages": expected[:1]}


def test_entries_are_those_of_the_file_and_may_begin_after_one(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("one")
        first = host.request("get_entries")["data"]
        assert first["entries"] == kept(session_file(host)).entries
        assert first["leafId"] == first["entries"][-1]["id"]
        assert entries(host, since=first["leafId"]) == []
        host.prompt("two")
        assert entries(host, since=first["leafId"]) == kept(session_file(host)).entries[len(first["entries"]) :]
        assert entries(host, since=None) == kept(session_file(host)).entries
        for unknown in ("nope", ""):
            assert host.request("get_entries", since=unknown, id="e") == {
                "type": "response",
                "id": "e",
                "command": "get_entries",
                "success": False,
                "error": f"Unknown entries cursor: {unknown}",
                "code": "unknown_since",
            }


def test_a_session_without_a_message_can_be_looked_at(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        found = host.request("get_entries")["data"]
        assert [entry["type"] for entry in found["entries"]] == ["model_change", "thinking_level_change"]
        tree = host.request("get_tree")["data"]
        assert tree == {
            "tree": [{"entry": found["entries"][0], "children": [{"entry": found["entries"][1], "children": []}]}],
            "leafId": found["leafId"],
        }
        page = host.request("get_messages_page")["data"]
        assert page == {"messages": [], "totalMessages": 0}
        stats = host.request("get_session_stats")["data"]
        assert (stats["totalMessages"], stats["tokens"]["total"], stats["cost"]) == (0, 0, 0)
        assert not session_file(host).exists()


def test_the_tree_has_all_branches_and_their_labels(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("root")
        host.prompt("left")
        model, level, root, answer, left, left_answer = [entry["id"] for entry in entries(host)]
        label = host.request("set_label", targetId=left, label="  the left one ")["data"]
        host.request("navigate_tree", targetId=left)
        host.prompt("right")
        right, right_answer = [entry["id"] for entry in entries(host)[-2:]]
        found = host.request("get_tree")["data"]
        left_branch = [left, [left_answer, [label["entryId"]]]]
        assert flat(found["tree"]) == [[model, [level, [root, [answer, left_branch, [right, [right_answer]]]]]]]
        assert found["leafId"] == right_answer == leaf(host)
        node = found["tree"][0]["children"][0]["children"][0]["children"][0]["children"][0]
        noted = next(entry for entry in kept(session_file(host)).entries if entry["id"] == label["entryId"])
        assert noted.items() >= {"type": "label", "targetId": left, "label": "the left one"}.items()
        assert (node["label"], node["labelTimestamp"]) == ("the left one", noted["timestamp"])
        assert str(found["tree"]).count("'labelTimestamp'") == 1

        host.request("set_label", targetId=left, label=" ")
        assert "'labelTimestamp'" not in str(host.request("get_tree")["data"]["tree"])
        removed = kept(session_file(host)).of("label")[-1]
        assert (removed["targetId"], "label" in removed) == (left, False)
        assert "nope" in host.request("set_label", targetId="nope", label="x")["error"]
        assert "targetId" in host.request("set_label", label="x")["error"]
        assert len(kept(session_file(host)).of("label")) == 2


# Moving


def test_a_move_to_a_message_of_the_user_is_a_move_before_it_with_its_text(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), says("B"), says("C")]) as host:
        host.prompt("one")
        host.prompt("two")
        before = kept(session_file(host)).entries
        two = user_entry(host, "two")
        size = session_file(host).stat().st_size
        answer = host.request("navigate_tree", targetId=two)["data"]
        assert answer == {"cancelled": False, "leafId": before[-3]["id"], "editorText": "two"}
        assert conversation(host) == ["one", "A"]
        assert state(host)["messageCount"] == 2
        assert session_file(host).stat().st_size == size

        host.prompt("two, otherwise")
        assert conversation(host) == ["one", "A", "two, otherwise", "C"]
        assert kept(session_file(host)).entries[: len(before)] == before
        assert kept(session_file(host)).entries[len(before)]["parentId"] == before[-3]["id"]
        assert [message["content"][0]["text"] for message in host.provider.requests[2].body["messages"]] == [
            "one",
            "A",
            "two, otherwise",
        ]
        file = session_file(host)
        host.leave()
        with another(host, dialect, "--session", str(file)) as again:
            assert conversation(again) == ["one", "A", "two, otherwise", "C"]
            assert len(entries(again)) == len(before) + 2


def test_a_move_to_anything_else_is_a_move_to_it(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), says("B")]) as host:
        host.prompt("one")
        host.prompt("two")
        model, level, one, answer, _, last = [entry["id"] for entry in entries(host)]
        assert host.request("navigate_tree", targetId=answer)["data"] == {"cancelled": False, "leafId": answer}
        assert conversation(host) == ["one", "A"]
        assert host.request("navigate_tree", targetId=last)["data"] == {"cancelled": False, "leafId": last}
        assert conversation(host) == ["one", "A", "two", "B"]
        assert host.request("navigate_tree", targetId=one)["data"] == {"cancelled": False, "leafId": level, "editorText": "one"}
        assert host.request("navigate_tree", targetId=model)["data"] == {"cancelled": False, "leafId": model}
        assert host.request("navigate_tree", targetId=None)["data"] == {"cancelled": False, "leafId": None}
        assert conversation(host) == []
        for target in ("nope", ""):
            assert "not found" in host.request("navigate_tree", targetId=target)["error"]
        assert "targetId" in host.request("navigate_tree")["error"]
        assert leaf(host) is None

        host.prompt("anew")
        assert conversation(host) == ["anew", "B"]
        assert entries(host)[-2]["parentId"] is None
        assert state(host)["model"]["id"] == "fake-1"


def test_a_move_that_cannot_be_made_leaves_the_run_alone(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [HELD]) as host:
        host.send({"id": "p", "type": "prompt", "message": "slow"})
        host.update("text_delta")
        for command, fields in (
            ("navigate_tree", {"targetId": "nope"}),
            ("fork", {"entryId": "nope"}),
            ("set_label", {"targetId": "x"}),
        ):
            assert host.request(command, **fields)["success"] is False
        assert state(host)["isStreaming"] is True
        host.provider.release()
        host.until("agent_settled")
        assert messages(host)[-1]["stopReason"] == "stop"


def test_the_branch_that_is_left_is_summarised(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), says("the answer B"), says("C"), SUMMARY]) as host:
        host.prompt("one")
        host.prompt("two")
        left = leaf(host)
        here = entries(host)[-3]["id"]
        fields = {"summarize": True, "customInstructions": "mind the gap"}
        answer = host.request("navigate_tree", targetId=user_entry(host, "two"), **fields)["data"]
        (summary,) = kept(session_file(host)).of("branch_summary")
        assert answer == {"cancelled": False, "leafId": summary["id"], "editorText": "two", "summaryEntryId": summary["id"]}
        assert summary.items() >= {"parentId": here, "fromId": left, "summary": "what was said"}.items()
        assert summary["details"] == {"readFiles": [], "modifiedFiles": []}
        assert summary["usage"]["totalTokens"] == 150

        request = asked(host.provider.requests[2])
        assert "the answer B" in request and "mind the gap" in request
        assert "[User]: one" not in request, "what stays is not summarised"
        shown = messages(host)[-1]
        assert shown.items() >= {"role": "branchSummary", "summary": "what was said", "fromId": left}.items()
        assert host.request("get_session_stats")["data"]["tokens"]["total"] == 450
        host.prompt("three")
        told = asked(host.provider.requests[3])
        assert "what was said" in told and "the answer B" not in told
        assert conversation(host) == ["one", "A", "what was said", "three", "C"]


def test_an_empty_branch_is_left_without_a_question(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), SUMMARY]) as host:
        host.prompt("one")
        last = leaf(host)
        host.request("set_session_name", name="not a message")
        assert host.request("navigate_tree", targetId=last, summarize=True)["data"] == {"cancelled": False, "leafId": last}
        assert len(host.provider.requests) == 1


def test_an_aborted_summary_leaves_the_conversation_where_it_stood(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), says("B"), ENDLESS_SUMMARY]) as host:
        host.prompt("one")
        host.prompt("two")
        before, size = leaf(host), session_file(host).stat().st_size
        host.send({"id": "n", "type": "navigate_tree", "targetId": None, "summarize": True})
        host.until_asked(3)
        host.request("abort", id="a")
        assert host.response("n")["data"] == {"cancelled": True, "leafId": before}
        assert [frame["id"] for frame in host.frames[-2:]] == ["n", "a"]
        assert conversation(host) == ["one", "A", "two", "B"]
        assert session_file(host).stat().st_size == size
        assert state(host)["isCompacting"] is False


def test_an_abort_right_behind_a_move_stops_its_summary_also_while_a_run_is_ending(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), ENDLESS, ENDLESS_SUMMARY]) as host:
        host.prompt("one")
        since = host.mark()
        host.send({"id": "p", "type": "prompt", "message": "slow"})
        host.update("text_delta", since=since)
        host.send_together(
            {"id": "n", "type": "navigate_tree", "targetId": None, "summarize": True}, {"id": "a", "type": "abort"}
        )
        host.response("a")
        assert host.response("n")["data"] == {"cancelled": True, "leafId": leaf(host)}
        assert messages(host)[-1]["stopReason"] == "aborted"


def test_a_summary_that_fails_changes_nothing(dialect: str, tmp_path: Path) -> None:
    broken = {"match": "<conversation>", "status": 400, "error": "no summaries today"}
    with stage(tmp_path, dialect, [says("A"), broken]) as host:
        host.prompt("one")
        before, size = leaf(host), session_file(host).stat().st_size
        answer = host.request("navigate_tree", targetId=None, summarize=True)
        assert "no summaries today" in answer["error"]
        assert (leaf(host), session_file(host).stat().st_size) == (before, size)
        assert conversation(host) == ["one", "A"]


# Pages


def test_a_long_conversation_comes_in_pages(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        for number in range(3):
            host.prompt(f"prompt {number}")
        whole = messages(host)
        assert host.request("get_messages_page")["data"] == {"messages": whole, "totalMessages": 6}
        found: list[Frame] = []
        cursor: str | None = None
        sizes: list[int] = []
        while True:
            page = host.request("get_messages_page", limit=4, **({"cursor": cursor} if cursor else {}))["data"]
            found += page["messages"]
            sizes.append(len(page["messages"]))
            assert page["totalMessages"] == 6
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert (found, sizes) == (whole, [4, 2])


def test_pages_work_whatever_the_id_of_the_session_is(dialect: str, tmp_path: Path) -> None:
    header = '{"type":"session","version":3,"id":"a:b:c","timestamp":"2026-01-01T00:00:00.000Z","cwd":""}'
    with stage(tmp_path, dialect, files={"odd.jsonl": header + "\n"}) as host:
        host.request("switch_session", sessionPath="odd.jsonl")
        host.prompt("one")
        cursor = host.request("get_messages_page", limit=1)["data"]["nextCursor"]
        assert texts(host.request("get_messages_page", cursor=cursor)["data"]["messages"]) == ["ok"]


def test_a_page_holds_no_more_than_it_should_but_always_one_message(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, settings={"compaction": {"enabled": False}}) as host:
        for size in (500_000, 500_000, 900_000):
            host.prompt("x" * size)
        sizes: list[list[int]] = []
        page = host.request("get_messages_page")["data"]
        sizes.append([len(text) for text in texts(page["messages"])])
        while "nextCursor" in page:
            page = host.request("get_messages_page", cursor=page["nextCursor"])["data"]
            sizes.append([len(text) for text in texts(page["messages"])])
        assert sizes == [[500_000, 2], [500_000, 2], [900_000], [2]]


def test_a_page_that_cannot_be_had_says_why(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), HELD]) as host:
        host.prompt("one")
        for limit in (0, -1, 257):
            assert host.request("get_messages_page", limit=limit)["error"] == "RPC message page limit must be between 1 and 256"
        assert host.request("get_messages_page", limit=256)["success"] is True
        assert "limit" in host.request("get_messages_page", limit="many")["error"]
        cursor = host.request("get_messages_page", limit=1)["data"]["nextCursor"]
        beginning = cursor.rpartition(":")[0]
        for bad in ("", "nonsense", f"{beginning}:x", f"{beginning}:-1", f"{beginning}:3", f"{beginning}:{'9' * 5_000}"):
            assert host.request("get_messages_page", cursor=bad)["error"] == "Invalid RPC message cursor", bad
        since = host.mark()
        host.send({"id": "p", "type": "prompt", "message": "slow"})
        host.update("text_delta", since=since)
        busy = host.request("get_messages_page", cursor=cursor)
        assert (busy["error"], busy["code"]) == ("Cannot page messages while the session is changing", "session_busy")
        host.provider.release()
        host.until("agent_settled", since=since)
        stale = host.request("get_messages_page", cursor=cursor)
        assert (stale["success"], stale["code"]) == (False, "stale_cursor")
        assert host.request("get_messages_page", limit=1)["data"]["totalMessages"] == 4


# Totals


def test_the_totals_count_all_branches_and_what_summaries_cost(dialect: str, tmp_path: Path) -> None:
    paid = {"input": 1_000, "output": 100, "cacheRead": 10, "cacheWrite": 1}
    with stage(tmp_path, dialect, [says("A", usage=paid), says("B"), SUMMARY]) as host:
        host.prompt("one")
        host.prompt("two")
        stats = host.request("get_session_stats")["data"]
        assert stats.pop("cost") == pytest.approx((1_100 * 3 + 150 * 15 + 10 * 0.3 + 3.75) / 1e6)
        assert stats == {
            "sessionFile": str(session_file(host)),
            "sessionId": state(host)["sessionId"],
            "userMessages": 2,
            "assistantMessages": 2,
            "toolCalls": 0,
            "toolResults": 0,
            "totalMessages": 4,
            "tokens": {"input": 1_100, "output": 150, "cacheRead": 10, "cacheWrite": 1, "total": 1_261},
            "contextUsage": {"tokens": 150, "contextWindow": 200_000, "percent": pytest.approx(0.075)},
        }
        host.request("navigate_tree", targetId=None, summarize=True)
        after = host.request("get_session_stats")["data"]
        assert (after["totalMessages"], after["tokens"]["total"]) == (4, 1_411)


def test_todos_and_rules_follow_a_move_within_the_tree(dialect: str, tmp_path: Path) -> None:
    rule = {".fairlead/rules/word.md": "---\ncondition: FORBIDDEN\n---\nNo.\n"}
    turns = [says("one"), says("FORBIDDEN"), says("fine"), says("FORBIDDEN"), says("fine")]
    with plain_stage(tmp_path, dialect, turns, files=rule) as host:
        host.prompt("a?")
        first = host.request("get_fork_messages")["data"]["messages"][0]["entryId"]
        leaf = host.request("get_tree")["data"]["leafId"]
        host.request("set_todos", phases=[{"name": "Work", "tasks": [{"content": "x", "status": "abandoned"}]}])
        host.prompt("b?")
        host.request("set_todos", phases=[{"name": "Later", "tasks": [{"content": "y", "status": "abandoned"}]}])
        host.request("navigate_tree", targetId=leaf)
        assert [phase["name"] for phase in host.request("get_state")["data"]["todoPhases"]] == ["Work"]
        host.request("navigate_tree", targetId=first)
        assert host.request("get_state")["data"]["todoPhases"] == []
        host.request("navigate_tree", targetId=leaf)
        host.prompt("c?")
        triggered = [frame for frame in host.frames if frame["type"] == "ttsr_triggered"]
        assert len(triggered) == 2
        assert first in [message["entryId"] for message in host.request("get_fork_messages")["data"]["messages"]]


def test_a_model_that_is_chosen_again_after_a_move_is_chosen_there_too(dialect: str, tmp_path: Path) -> None:
    with plain_stage(tmp_path, dialect, flags=["--exclude-tools", "todo_write"]) as host:
        host.prompt("a")
        before = host.request("get_tree")["data"]["leafId"]
        host.request("set_model", provider="fake", modelId="fake-2")
        host.request("navigate_tree", targetId=before)
        host.request("set_model", provider="fake", modelId="fake-2")
        last = host.request("get_entries")["data"]["entries"][-1]
        assert (last["type"], last["modelId"], last["parentId"]) == ("model_change", "fake-2", before)
