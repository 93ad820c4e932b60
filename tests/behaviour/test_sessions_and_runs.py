"""A session changes under nothing that runs: runs, tools and commands are ended first, with all that there is to tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.session_host import SUMMARY, conversation, kept, session_file, stage, state, user_entry
from tests.support.stage import ENDLESS, LASTING, Stage, bash, calls, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])

#: A compaction leaves no more than the last few words alone.
KEEP_LITTLE = {"compaction": {"keepRecentTokens": 5}}


MOVES: dict[str, dict[str, Any]] = {
    "new_session": {},
    "switch_session": {"sessionPath": "b.jsonl"},
    "fork": {"entryId": "first"},
    "branch": {"entryId": "first"},
    "clone": {},
    "navigate_tree": {"targetId": None},
    "compact": {},
}


def begin_endless_run(host: Stage) -> int:
    """Prompt a model that never ends; the place of the next frame."""
    since = host.mark()
    host.send({"id": "endless", "type": "prompt", "message": "slow"})
    host.update("text_delta", since=since)
    return since


@pytest.mark.parametrize("command", MOVES)
def test_a_run_is_ended_with_all_its_events_before_the_answer(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one " * 20), ENDLESS, says("after"), SUMMARY], settings=KEEP_LITTLE) as host:
        host.prompt("first")
        file = session_file(host)
        fields = MOVES[command] | ({"entryId": user_entry(host, "first")} if "entryId" in MOVES[command] else {})
        since = begin_endless_run(host)
        assert host.request(command, id="c", **fields)["success"] is True
        frames = [frame for frame in host.frames[since:] if frame["type"] != "message_update"]
        kinds = [frame["type"] for frame in frames]
        ends = (
            ["agent_end", "prompt_result", "session_settled", "agent_settled"]
            if dialect == "omp"
            else ["agent_end", "agent_settled"]
        )
        place = kinds.index("message_end", kinds.index("message_end") + 1)
        assert kinds[place : place + 2 + len(ends)] == ["message_end", "turn_end", *ends]
        aborted = frames[place]["message"]
        assert aborted.items() >= {"role": "assistant", "stopReason": "aborted"}.items()
        assert frames[kinds.index("agent_end")]["messages"][-1] == aborted
        assert frames[-1]["id"] == "c"
        assert all(kinds.count(kind) == 1 for kind in ends)
        assert aborted in kept(file).messages
        assert state(host).items() >= {"isStreaming": False, "isCompacting": False}.items()
        host.prompt("next")
        assert conversation(host)[-2:] == ["next", "after"]


@pytest.mark.parametrize("command", ["switch_session", "clone"])
def test_commands_of_the_host_are_ended_too_and_stay_with_their_session(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        file = session_file(host)
        since = host.mark()
        host.send({"id": "b", "type": "bash", "command": f"echo out; {LASTING}"})
        host.began.wait()
        host.request(command, id="c", **MOVES[command])
        answers = [frame["id"] for frame in host.frames[since:] if frame["type"] == "response"]
        assert answers == ["b", "c"]
        assert host.response("b")["data"]["cancelled"] is True
        host.lasting_command_ended()
        assert kept(file).messages[-1].items() >= {"role": "bashExecution", "output": "out\n", "cancelled": True}.items()
        assert state(host)["messageCount"] == (3 if command == "clone" else 0)


def test_a_tool_is_stopped_before_the_session_changes(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [calls(bash(LASTING)), says("after")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        file = session_file(host)
        host.request("new_session")
        host.lasting_command_ended()
        call, result, last = kept(file).messages[1:]
        assert result.items() >= {"toolCallId": call["content"][-1]["id"], "isError": True}.items()
        assert last["stopReason"] == "aborted"
        assert conversation(host) == []
