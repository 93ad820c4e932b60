"""pi's protocol of 2025: three commands in, eleven kinds of events out, no responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.stage import ENDLESS, HELD, Stage, bash, calls, says, stage

KNOWN = {
    *("agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update", "message_end"),
    *("tool_execution_start", "tool_execution_end", "compaction", "error"),
}


def kinds(host: Stage) -> list[str]:
    return [frame["type"] for frame in host.frames if frame["type"] != "message_update"]


def errors(host: Stage) -> list[str]:
    return [frame["error"] for frame in host.frames if frame["type"] == "error"]


def attachment(kind: str, name: str, **fields: Any) -> Frame:
    return {"id": name, "type": kind, "fileName": name, "mimeType": "x/y", "size": 3, "content": "aGkh", **fields}


def test_a_prompt_is_answered_by_events_alone(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [says("Hello.")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "hi"})
        end = host.until("agent_end")
        assert host.leave() == 0
        assert kinds(host) == [
            *(
                "agent_start",
                "turn_start",
                "message_start",
                "message_end",
                "message_start",
                "message_end",
                "turn_end",
                "agent_end",
            ),
        ]
        assert [message["content"] for message in end["messages"]] == ["hi", [{"type": "text", "text": "Hello."}]]
        assert "willRetry" not in end


def test_tools_run_one_after_another_and_a_failure_is_a_text(tmp_path: Path) -> None:
    turns = [calls(bash("echo one; exit 3"), bash("echo two")), says("done")]
    with stage(tmp_path, "pi-2025", turns) as host:
        host.send({"type": "prompt", "message": "go"})
        host.until("agent_end")
        failed, fine = (frame for frame in host.frames if frame["type"] == "tool_execution_end")
        assert failed["result"] == "one\n\n\nCommand exited with code 3"
        assert fine["result"]["content"] == [{"type": "text", "text": "two\n"}]
        order = [kind for kind in kinds(host) if kind.startswith("tool")]
        assert order == ["tool_execution_start", "tool_execution_end"] * 2
        assert set(kinds(host)) <= KNOWN


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", "Failed to parse command"),
        (b'{"type":"bogus","id":1}', "Unknown command: bogus"),
        (b'{"type":"get_state","id":1}', "Unknown command: get_state"),
        (b'{"type":"prompt"}', "message: required, but missing"),
        (b'{"type":"host_tool_result","id":"x"}', "Unknown command: host_tool_result"),
        (b'{"type":"compact"}', "Nothing to compact (session too small)"),
    ],
)
def test_failures_become_error_events(tmp_path: Path, line: bytes, error: str) -> None:
    with stage(tmp_path, "pi-2025") as host:
        host.write(line + b"\n")
        told = host.until("error")
        assert told["error"].startswith(error)
        assert told.keys() == {"type", "error"}


def test_a_prompt_to_a_busy_agent_is_an_error(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [HELD]) as host:
        host.send({"type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.send({"type": "prompt", "message": "no"})
        assert "already processing" in host.until("error")["error"]
        host.provider.release()
        host.until("agent_end")


def test_an_abort_ends_the_run(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [ENDLESS]) as host:
        host.send({"type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.send({"type": "abort"})
        assert host.until("agent_end")["messages"][-1]["stopReason"] == "aborted"


def test_images_are_attached_and_documents_named_in_the_prompt(tmp_path: Path) -> None:
    given = [attachment("document", "notes.pdf", extractedText="the notes"), attachment("image", "cat.png", mimeType="image/png")]
    with stage(tmp_path, "pi-2025") as host:
        host.send({"type": "prompt", "message": "look", "attachments": given})
        host.until("agent_end")
        user = next(frame["message"] for frame in host.frames if frame["type"] == "message_start")
        assert (user["content"], user["attachments"]) == ("look", given)
        (asked,) = (message["content"] for message in host.provider.requests[0].body["messages"])
        assert [block["type"] for block in asked] == ["text", "text", "image"]
        assert asked[0]["text"] == "look"
        assert "notes.pdf" in asked[1]["text"]
        assert "the notes" in asked[1]["text"]
        assert asked[2]["source"]["data"] == "aGkh"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("Z3LDvMOfZSEK", "grüße!\n"),
        ("77u/aGkh", "hi!"),
        ("AAEC/w==", "(x/y, 4 bytes; its content is not text, and the host did not extract any)"),
        ("aGkAaGk=", "(x/y, 5 bytes; its content is not text, and the host did not extract any)"),
        ("a", "(x/y, 3 bytes; its content is not text, and the host did not extract any)"),
        ("", ""),
    ],
)
def test_a_document_without_its_text_is_read_if_it_is_text(tmp_path: Path, content: str, told: str) -> None:
    with stage(tmp_path, "pi-2025") as host:
        attached = attachment("document", "notes.md", content=content)
        host.send({"type": "prompt", "message": "look", "attachments": [attached]})
        host.until("agent_end")
        assert errors(host) == []
        (asked,) = (message["content"] for message in host.provider.requests[0].body["messages"])
        assert asked[1]["text"] == f"\n\n[Document: notes.md]\n{told}"


def test_a_compaction_is_one_event(tmp_path: Path) -> None:
    settings = {"compaction": {"keepRecentTokens": 10}}
    with stage(tmp_path, "pi-2025", [says("word " * 100), says("sum")], settings=settings) as host:
        host.send({"type": "prompt", "message": "hi"})
        host.until("agent_end")
        host.send({"type": "compact", "customInstructions": "be brief"})
        told = host.until("compaction")
        assert told.keys() == {"type", "summary", "tokensBefore"}
        assert "sum" in told["summary"]
        assert "be brief" in str(host.provider.requests[1].body)
        assert errors(host) == []


def test_an_automatic_compaction_says_so(tmp_path: Path) -> None:
    full = says("word " * 100, usage={"input": 185_000, "output": 10})
    settings = {"compaction": {"keepRecentTokens": 10}}
    with stage(tmp_path, "pi-2025", [full, says("sum")], settings=settings) as host:
        host.send({"type": "prompt", "message": "hi"})
        assert host.until("compaction")["auto"] is True


def test_a_retry_is_part_of_the_run(tmp_path: Path) -> None:
    turns = [{"status": 529, "error": "Overloaded"}, says("fine")]
    with stage(tmp_path, "pi-2025", turns, settings={"retry": {"baseDelayMs": 1}}) as host:
        host.send({"type": "prompt", "message": "hi"})
        assert [message["role"] for message in host.until("agent_end")["messages"]] == ["user", "assistant", "assistant"]
        assert kinds(host).count("agent_start") == 1 == kinds(host).count("agent_end")
        assert set(kinds(host)) <= KNOWN
