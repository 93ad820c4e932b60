"""What omp's own RpcClient, of two versions, can do with sessions."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from bench.contestants import Turn
from bench.peers import OmpClient
from tests.system.omp_clients import DriveOmp, client_18, clients
from tests.system.pi_clients import WAIT, roles, said

pytestmark = pytest.mark.system

ONE: Turn = {"text": "Answer one.", "usage": {"input": 100, "output": 50}}
TWO: Turn = {"text": "Answer two.", "usage": {"input": 200, "output": 10}}
THREE: Turn = {"text": "Answer three."}


def header(session_file: str) -> dict[str, Any]:
    with Path(session_file).open() as lines:
        return json.loads(next(lines))


# From one session to another


@clients
def test_a_new_session_is_empty_and_the_old_one_resumes(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.promptAndWait("First.");
        const before = await client.getState();
        const answers = [await client.newSession(before.sessionFile)];
        const none = await client.getMessages();
        await client.promptAndWait("Elsewhere.");
        const child = await client.getState();
        answers.push(await client.switchSession(before.sessionFile));
        const after = await client.getState();
        await client.promptAndWait("Second.");
        return { answers, none, before, child, after, messages: await client.getMessages() };
        """,
        ONE,
        TWO,
        THREE,
    )
    before, child, after = result["before"], result["child"], result["after"]
    assert [answer["cancelled"] for answer in result["answers"]] == [False, False]
    assert result["none"] == []
    assert child["sessionId"] != before["sessionId"]
    assert header(child["sessionFile"])["parentSession"] == before["sessionFile"]
    for field in ("sessionId", "sessionFile", "messageCount", "model"):
        assert after[field] == before[field]
    assert said(result["messages"]) == ["First.", "Second."]
    assert "Elsewhere." not in Path(before["sessionFile"]).read_text()


@clients
def test_a_branch_has_what_came_before_a_message(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const none = await client.getBranchMessages();
        await client.promptAndWait("First.");
        await client.promptAndWait("Second.");
        const source = await client.getState();
        const choices = await client.getBranchMessages();
        const refused = await refusal(client.branch("nonsense"));
        const answer = await client.branch(choices[1].entryId);
        const branch = await client.getState();
        const messages = await client.getMessages();
        await client.promptAndWait("Another second.");
        return { none, source, choices, refused, answer, branch, messages, left: await client.getBranchMessages() };
        """,
        ONE,
        TWO,
        THREE,
    )
    assert result["none"] == []
    assert [choice["text"] for choice in result["choices"]] == ["First.", "Second."]
    assert result["refused"] == "Invalid entry ID for branching"
    assert (result["answer"]["text"], result["answer"]["cancelled"]) == ("Second.", False)
    assert (said(result["messages"]), said(result["messages"], "assistant")) == (["First."], ["Answer one."])
    assert [choice["text"] for choice in result["left"]] == ["First.", "Another second."]
    source, branch = result["source"], result["branch"]
    assert header(branch["sessionFile"])["parentSession"] == source["sessionFile"]
    assert "Another second." not in Path(source["sessionFile"]).read_text()


@clients
def test_work_is_handed_off_to_a_new_session(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        const refused = await refusal(client.handoff());
        await client.promptAndWait("First.");
        const before = await client.getState();
        const answer = await client.handoff("Mind the harbour.");
        const after = await client.getState();
        await client.promptAndWait("Second.");
        return { refused, before, answer, after, later: await client.getMessages() };
        """,
        {"match": "Mind the harbour.", "text": "All that matters."},
        ONE,
        TWO,
    )
    assert result["refused"] == "Nothing to hand off (no messages yet)"
    assert result["after"]["sessionId"] != result["before"]["sessionId"]
    assert result["answer"]["savedPath"] == result["after"]["sessionFile"]
    assert "All that matters." in json.dumps(result["later"][0])
    assert roles(result["later"])[-2:] == ["user", "assistant"]
    assert "First." not in json.dumps(result["later"])


@client_18
def test_a_host_has_a_folder_of_sessions_for_each_of_its_own(client: OmpClient, drive_omp: DriveOmp, tmp_path: Path) -> None:
    folder = json.dumps(str(tmp_path / "conversation"))
    result = drive_omp(
        client,
        f"""
        const opened = [await client.openSession({folder})];
        await client.promptAndWait("First.");
        await client.newSession();
        const other = new client.constructor(options);
        await other.start();
        opened.push(await other.openSession({folder}));
        const messages = await other.getMessages();
        await other.stop();
        return {{ opened, messages }};
        """,
        ONE,
    )
    first, again = result["opened"]
    assert (first["resumed"], again["resumed"]) == (False, True)
    assert first["sessionFile"] == again["sessionFile"]
    assert Path(first["sessionFile"]).parent == tmp_path / "conversation"
    assert said(result["messages"]) == ["First."]


# What is in a session


@client_18
def test_a_host_reads_a_long_history_in_pages(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.promptAndWait("First.");
        await client.promptAndWait("Second.");
        const pages = [await client.getMessagesPage({ limit: 3 })];
        pages.push(await client.getMessagesPage({ limit: 3, cursor: pages[0].nextCursor }));
        const all = await client.getMessages();
        await client.promptAndWait("Third.");
        const stale = await client.getMessagesPage({ cursor: pages[0].nextCursor }).catch((error) => error.code);
        return { pages, all, stale, refused: await refusal(client.getMessagesPage({ limit: 0 })) };
        """,
        ONE,
        TWO,
        THREE,
    )
    first, last = result["pages"]
    assert [len(page["messages"]) for page in (first, last)] == [3, 1]
    assert [page["totalMessages"] for page in (first, last)] == [4, 4]
    assert "nextCursor" not in last
    assert first["messages"] + last["messages"] == result["all"]
    assert result["stale"] == "stale_cursor"
    assert result["refused"] == "RPC message page limit must be between 1 and 256"


@client_18
def test_a_history_can_be_read_while_it_grows(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.promptAndWait("First.");
        await client.prompt("Second.");
        await until((event) => event.type === "tool_execution_start");
        const messages = await client.getMessages();
        await client.bash("touch go");
        await until((event) => event.type === "agent_end" && event.messages[0].content[0].text === "Second.");
        return messages;
        """,
        ONE,
        WAIT,
        TWO,
    )
    assert roles(result) == ["user", "assistant", "user", "assistant"]


@client_18
def test_a_history_beyond_all_bounds_is_read_in_pages_alone(client: OmpClient, drive_omp: DriveOmp, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    size, count = 2 << 20, 33  # the client puts together 64 MiB
    when = "2026-01-01T00:00:00.000Z"
    message = {"role": "user", "content": [{"type": "text", "text": "x" * size}], "timestamp": 0}
    entries = [
        {"type": "message", "id": f"{i:08}", "parentId": f"{i - 1:08}" if i else None, "timestamp": when, "message": message}
        for i in range(count)
    ]
    first = {"type": "session", "version": 3, "id": "long", "timestamp": when, "cwd": str(tmp_path)}
    file.write_text("".join(json.dumps(line) + "\n" for line in (first, *entries)))
    result = drive_omp(
        client,
        f"""
        await client.switchSession({json.dumps(str(file))});
        const refused = await refusal(client.getEntries());
        return {{ refused, lengths: (await client.getMessages()).map((message) => message.content[0].text.length) }};
        """,
    )
    assert result["refused"].startswith("RPC response exceeded the transport limit.")
    assert result["lengths"] == [size] * count


@client_18
def test_a_host_reads_the_entries_and_their_tree(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.promptAndWait("First.");
        const first = await client.getEntries();
        await client.promptAndWait("Second.");
        const unknown = await client.getEntries("nonsense").catch((error) => error.code);
        const later = await client.getEntries(first.leafId);
        return { first, later, unknown, all: await client.getEntries(), tree: await client.getTree() };
        """,
        ONE,
        TWO,
    )
    first, later, everything = (result[name]["entries"] for name in ("first", "later", "all"))
    assert everything == first + later
    messages = [entry["message"] for entry in later if entry["type"] == "message"]
    assert (said(messages), said(messages, "assistant")) == (["Second."], ["Answer two."])
    assert result["unknown"] == "unknown_since"
    branch: list[Any] = []
    nodes = result["tree"]["tree"]
    while nodes:
        [node] = nodes
        branch.append(node["entry"])
        nodes = node["children"]
    assert branch == everything
    assert result["tree"]["leafId"] == result["all"]["leafId"] == everything[-1]["id"]


@clients
def test_a_session_is_counted(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
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
    counted = [stats[what] for what in ("userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages")]
    assert counted == [1, 2, 1, 1, state["messageCount"]]
    assert stats["tokens"] == {"input": 300, "output": 60, "cacheRead": 0, "cacheWrite": 0, "total": 360}
    assert stats["cost"] == pytest.approx((300 * 3 + 60 * 15) / 1e6)


# Compaction


@clients
def test_a_host_has_the_session_compacted(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
        client,
        """
        await client.promptAndWait("First.");
        const small = await refusal(client.compact());
        await client.promptAndWait("Second. " + "word ".repeat(20000));
        const [first, second] = await client.getBranchMessages();
        const answer = await client.compact("Mind the harbour.");
        const messages = await client.getMessages();
        return { small, second, answer, messages, again: await refusal(client.compact()) };
        """,
        {"match": "Mind the harbour.", "text": "A short story.", "usage": {"input": 7, "output": 5}},
        ONE,
        TWO,
    )
    answer = result["answer"]
    assert answer["summary"].startswith("A short story.")
    assert answer["firstKeptEntryId"] == result["second"]["entryId"]
    assert answer["tokensBefore"] == 210
    summary, *kept = result["messages"]
    assert (summary["role"], summary["summary"]) == ("compactionSummary", answer["summary"])
    assert (roles(kept), said(kept, "assistant")) == (["user", "assistant"], ["Answer two."])
    assert result["small"] == "Nothing to compact (session too small)"
    assert result["again"] == "Already compacted"


@clients
def test_automatic_compaction_is_switched_off_and_on(client: OmpClient, drive_omp: DriveOmp) -> None:
    result = drive_omp(
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


# Outside


@clients
def test_a_session_becomes_a_page(client: OmpClient, drive_omp: DriveOmp, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.html"
    result = drive_omp(
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
    assert usual.name == result["usual"]["path"] == f"omp-session-{Path(result['state']['sessionFile']).stem}.html"
    for page in (chosen, usual):
        assert "An answer for the page." in page.read_text()


@clients
def test_a_stopped_agent_leaves_its_session_whole(client: OmpClient, drive_omp: DriveOmp) -> None:
    """The client does not say goodbye: it ends the launcher and what that started, while a tool is at work."""
    session_file = drive_omp(
        client,
        """
        await client.prompt("Begin.");
        await until((event) => event.type === "tool_execution_start");
        const { sessionFile } = await client.getState();
        await client.stop();
        return sessionFile;
        """,
        WAIT,
    )
    with Path(session_file).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the agent has it until it is gone
        entries = [json.loads(line) for line in file]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    assert said(messages) == ["Begin."]
    assert roles(messages)[:2] == ["user", "assistant"]
