"""What pi's own RpcClient, of three versions, can do with sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.contestants import Turn
from bench.peers import PI_087, Peer
from tests.system.pi_clients import Drive, clients, kinds, roles, said

pytestmark = pytest.mark.system

ONE: Turn = {"text": "Answer one.", "usage": {"input": 100, "output": 50}}
TWO: Turn = {"text": "Answer two.", "usage": {"input": 200, "output": 10}}
THREE: Turn = {"text": "Answer three."}


def header(session_file: str) -> dict[str, Any]:
    with Path(session_file).open() as lines:
        return json.loads(next(lines))


@clients
def test_a_new_session_is_empty_and_knows_its_parent(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.promptAndWait("First.");
        const parent = await client.getState();
        const answers = [await client.newSession()];
        const empty = await client.getState();
        const none = await client.getMessages();
        answers.push(await client.newSession(parent.sessionFile));
        await client.promptAndWait("Second.");
        return { answers, parent, empty, none, child: await client.getState(), messages: await client.getMessages() };
        """,
        ONE,
        TWO,
    )
    parent, empty, child = result["parent"], result["empty"], result["child"]
    assert [answer["cancelled"] for answer in result["answers"]] == [False, False]
    assert (empty["messageCount"], result["none"]) == (0, [])
    assert len({state["sessionId"] for state in (parent, empty, child)}) == 3
    assert said(result["messages"]) == ["Second."]
    assert header(child["sessionFile"])["parentSession"] == parent["sessionFile"]
    assert header(child["sessionFile"])["id"] == child["sessionId"]
    assert "parentSession" not in header(parent["sessionFile"])


@clients
def test_a_session_is_left_and_resumed(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.promptAndWait("First.");
        const before = await client.getState();
        await client.newSession();
        await client.promptAndWait("Elsewhere.");
        const answer = await client.switchSession(before.sessionFile);
        const after = await client.getState();
        const messages = await client.getMessages();
        await client.promptAndWait("Second.");
        return { before, answer, after, messages, later: await client.getMessages() };
        """,
        ONE,
        TWO,
        THREE,
    )
    before, after = result["before"], result["after"]
    assert result["answer"]["cancelled"] is False
    for field in ("sessionId", "sessionFile", "messageCount", "model"):
        assert after[field] == before[field]
    assert (said(result["messages"]), said(result["messages"], "assistant")) == (["First."], ["Answer one."])
    assert said(result["later"]) == ["First.", "Second."]
    stored = Path(before["sessionFile"]).read_text()
    assert "Answer three." in stored
    assert "Elsewhere." not in stored


@clients
def test_a_fork_has_what_came_before_a_message(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const none = await client.getForkMessages();
        await client.promptAndWait("First.");
        await client.promptAndWait("Second.");
        const source = await client.getState();
        const choices = await client.getForkMessages();
        const refused = await refusal(client.fork("nonsense"));
        const answer = await client.fork(choices[1].entryId);
        const fork = await client.getState();
        const messages = await client.getMessages();
        await client.promptAndWait("Another second.");
        const left = await client.getForkMessages();
        return { none, source, choices, refused, answer, fork, messages, left };
        """,
        ONE,
        TWO,
        THREE,
    )
    assert result["none"] == []
    assert [choice["text"] for choice in result["choices"]] == ["First.", "Second."]
    assert result["refused"] == "Invalid entry ID for forking"
    assert (result["answer"]["text"], result["answer"]["cancelled"]) == ("Second.", False)
    assert (said(result["messages"]), said(result["messages"], "assistant")) == (["First."], ["Answer one."])
    assert [choice["text"] for choice in result["left"]] == ["First.", "Another second."]
    source, fork = result["source"], result["fork"]
    assert fork["sessionId"] != source["sessionId"]
    assert header(fork["sessionFile"])["parentSession"] == source["sessionFile"]
    assert "Another second." not in Path(source["sessionFile"]).read_text()


@clients
def test_a_fork_of_the_first_message_is_empty(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.promptAndWait("First.");
        const source = await client.getState();
        const answer = await client.fork((await client.getForkMessages())[0].entryId);
        const messages = await client.getMessages();
        await client.promptAndWait("Another first.");
        return { source, answer, messages, fork: await client.getState(), later: await client.getMessages() };
        """,
        ONE,
        TWO,
    )
    assert result["answer"]["text"] == "First."
    assert result["messages"] == []
    assert said(result["later"]) == ["Another first."]
    assert header(result["fork"]["sessionFile"])["parentSession"] == result["source"]["sessionFile"]


@clients
def test_a_clone_goes_its_own_way(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.promptAndWait("First.");
        const source = await client.getState();
        const answer = await client.clone();
        const clone = await client.getState();
        const messages = await client.getMessages();
        await client.promptAndWait("Second.");
        return { source, answer, clone, messages };
        """,
        ONE,
        TWO,
    )
    source, clone = result["source"], result["clone"]
    assert result["answer"]["cancelled"] is False
    assert clone["sessionId"] != source["sessionId"]
    assert (said(result["messages"]), said(result["messages"], "assistant")) == (["First."], ["Answer one."])
    assert header(clone["sessionFile"])["parentSession"] == source["sessionFile"]
    assert "Second." in Path(clone["sessionFile"]).read_text()
    assert "Second." not in Path(source["sessionFile"]).read_text()


@clients
def test_a_session_has_a_name(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const unnamed = await client.getState();
        await client.setSessionName("  the name  ");
        const told = await until((event) => event.type === "session_info_changed");
        const named = await client.getState();
        await client.setSessionName("   ");
        return { unnamed, told, named, still: await client.getState() };
        """,
    )
    assert "sessionName" not in result["unnamed"]
    assert result["told"]["name"] == "the name"
    assert [result[when]["sessionName"] for when in ("named", "still")] == ["the name", "the name"]


@clients
def test_a_session_is_counted(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.promptAndWait("Use the shell.");
        return { stats: await client.getSessionStats(), state: await client.getState() };
        """,
        {"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}], "usage": {"input": 100, "output": 50}},
        TWO,
    )
    stats, state = result["stats"], result["state"]
    assert (stats["sessionId"], stats["sessionFile"]) == (state["sessionId"], state["sessionFile"])
    counted = [stats[what] for what in ("userMessages", "assistantMessages", "toolCalls", "toolResults")]
    assert counted == [1, 2, 1, 1]
    assert stats["totalMessages"] == state["messageCount"]
    assert stats["tokens"] == {"input": 300, "output": 60, "cacheRead": 0, "cacheWrite": 0, "total": 360}
    assert stats["cost"] == pytest.approx((300 * 3 + 60 * 15) / 1e6)
    usage = stats["contextUsage"]
    assert (usage["tokens"], usage["contextWindow"]) == (210, 20_000_000)
    assert usage["percent"] == pytest.approx(210 / 20_000_000 * 100)


def test_a_host_reads_the_entries_and_those_since(drive: Drive) -> None:
    result = drive(
        PI_087,
        """
        await client.promptAndWait("First.");
        const first = await client.getEntries();
        await client.promptAndWait("Second.");
        return {
          first,
          all: await client.getEntries(),
          later: await client.getEntries(first.leafId),
          unknown: await refusal(client.getEntries("nonsense")),
        };
        """,
        ONE,
        TWO,
    )
    first, everything, later = (result[name]["entries"] for name in ("first", "all", "later"))
    assert [entry["type"] for entry in everything[:2]] == ["model_change", "thinking_level_change"]
    messages = [entry["message"] for entry in everything if entry["type"] == "message"]
    assert (said(messages), said(messages, "assistant")) == (["First.", "Second."], ["Answer one.", "Answer two."])
    ids = [entry["id"] for entry in everything]
    assert [entry["parentId"] for entry in everything] == [None, *ids[:-1]]
    assert everything == first + later
    assert [result[name]["leafId"] for name in ("first", "all", "later")] == [first[-1]["id"], ids[-1], ids[-1]]
    assert "nonsense" in result["unknown"]


def test_a_host_reads_the_tree_of_entries(drive: Drive) -> None:
    result = drive(
        PI_087,
        """
        await client.promptAndWait("First.");
        return { tree: await client.getTree(), entries: await client.getEntries() };
        """,
        ONE,
    )
    branch: list[Any] = []
    nodes = result["tree"]["tree"]
    while nodes:
        [node] = nodes
        branch.append(node["entry"])
        nodes = node["children"]
    assert branch == result["entries"]["entries"]
    assert result["tree"]["leafId"] == result["entries"]["leafId"]


@clients
def test_a_host_has_the_session_compacted(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        await client.promptAndWait("First.");
        await client.promptAndWait("Second. " + "word ".repeat(20000));
        const [first, second] = await client.getForkMessages();
        const answer = await client.compact("Mind the harbour.");
        const messages = await client.getMessages();
        const stats = await client.getSessionStats();
        const refused = await refusal(client.compact());
        await client.promptAndWait("Third.");
        return { second, answer, messages, stats, refused, seen, later: await client.getMessages() };
        """,
        {"match": "Mind the harbour.", "text": "A short story.", "usage": {"input": 7, "output": 5}},
        ONE,
        TWO,
        THREE,
    )
    answer = result["answer"]
    assert answer["summary"].startswith("A short story.")
    assert answer["firstKeptEntryId"] == result["second"]["entryId"]
    assert answer["tokensBefore"] == 210
    assert answer["details"] == {"readFiles": [], "modifiedFiles": []}
    summary, *kept = result["messages"]
    assert (summary["role"], summary["summary"]) == ("compactionSummary", answer["summary"])
    assert (roles(kept), said(kept, "assistant")) == (["user", "assistant"], ["Answer two."])
    assert result["stats"]["contextUsage"]["tokens"] is None
    assert result["refused"] == "Already compacted"
    assert roles(result["later"]) == ["compactionSummary", "user", "assistant", "user", "assistant"]
    start, end, *_ = (event for event in result["seen"] if event["type"].startswith("compaction_"))
    assert (start["type"], start["reason"]) == ("compaction_start", "manual")
    assert (end["type"], end["aborted"], end["willRetry"], end["result"]) == ("compaction_end", False, False, answer)


def test_a_session_of_recent_messages_alone_is_not_compacted(drive: Drive) -> None:
    result = drive(
        PI_087,
        """
        await client.promptAndWait("First.");
        return { refused: await refusal(client.compact()), seen, messages: await client.getMessages() };
        """,
        ONE,
    )
    assert result["refused"] == "Nothing to compact (session too small)"
    assert said(result["messages"]) == ["First."]
    assert kinds(result["seen"])[-2:] == ["compaction_start", "compaction_end"]
    assert result["seen"][-1]["errorMessage"] == "Compaction failed: Nothing to compact (session too small)"


@clients
def test_automatic_compaction_is_switched_off_and_on(client: Peer, drive: Drive) -> None:
    result = drive(
        client,
        """
        const states = [await client.getState()];
        for (const enabled of [false, true]) {
          await client.setAutoCompaction(enabled);
          states.push(await client.getState());
        }
        return states.map((state) => state.autoCompactionEnabled);
        """,
    )
    assert result == [True, False, True]


@clients
def test_a_session_becomes_a_page(client: Peer, drive: Drive, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.html"
    result = drive(
        client,
        f"""
        await client.promptAndWait("A question for the page.");
        const state = await client.getState();
        return {{ state, chosen: await client.exportHtml({json.dumps(str(chosen))}), usual: await client.exportHtml() }};
        """,
        {"text": "An answer for the page."},
    )
    assert result["chosen"]["path"] == str(chosen)
    [usual] = tmp_path.glob("*/work/*.html")
    assert usual.name == result["usual"]["path"] == f"pi-session-{Path(result['state']['sessionFile']).stem}.html"
    for page in (chosen, usual):
        assert "An answer for the page." in page.read_text()
