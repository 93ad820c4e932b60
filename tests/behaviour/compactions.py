"""Conversations that are about to be compacted, and how each dialect tells of a compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.host import Frame
from tests.support.session_host import SUMMARY, asked, session_file
from tests.support.stage import Stage, says

#: An answer of 100 tokens; a compaction keeps it, and the short prompt before it.
LONG = says("word " * 80)
KEEP_LITTLE = {"compaction": {"keepRecentTokens": 101}, "retry": {"baseDelayMs": 10}}
#: As much as leaves too little of the context.
NEARLY_FULL = {"input": 190_000, "output": 500}
TOO_LONG = {"status": 400, "error": "prompt is too long: 210000 tokens > 200000 maximum"}

HELD_SUMMARY = {**SUMMARY, "text": "what was said, at length", "holdAfter": 1}
ENDLESS_SUMMARY = {**SUMMARY, "hangAfter": 1}
BROKEN_SUMMARY = {"match": "<conversation>", "status": 400, "error": "no summaries today"}

COMPACTING = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."
OVERFLOW_AGAIN = "Context overflow recovery failed. The request still does not fit the context window"


def summary_requests(host: Stage) -> list[str]:
    return [asked(request) for request in host.provider.requests if "<conversation>" in asked(request)]


def told(frames: list[Frame]) -> list[str]:
    """What happened, without the messages: starts and ends, compactions in the words of the dialect."""
    left_out = ("message_", "turn_", "response", "tool_", "ready", "available_", "queue_update")
    left_out += ("prompt_result", "session_settled", "entry_")
    return [frame["type"] for frame in frames if not frame["type"].startswith(left_out)]


def compactions(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if "compaction_" in frame["type"]]


def start_of(dialect: str, reason: str) -> Frame:
    if dialect == "pi":
        return {"type": "compaction_start", "reason": reason}
    return {"type": "auto_compaction_start", "reason": reason, "action": "context-full"}


def end_of(dialect: str, reason: str, **fields: Any) -> Frame:
    """The end of a compaction; only pi says once more why it was made."""
    common = {"aborted": False, "willRetry": False, **fields}
    if dialect == "pi":
        return {"type": "compaction_end", "reason": reason, **common}
    return {"type": "auto_compaction_end", "action": "context-full", **common}


def two_prompts(host: Stage) -> Path:
    host.prompt("one")
    host.prompt("two")
    return session_file(host)
