"""Transcripts as sequences of steps: what kind of frame came after what kind, without its contents.

A step is a frame's type, with what decides its meaning: the command and success of a response, the role of a
message and the stop reason of a finished one, the kind of an update, a tool's name and whether it failed, why a
compaction started and what came of it, the number of a reminder, the rules that were broken.

Some things are chance, and are taken out on both sides. Like updates that follow one another count once, and so do
all updates of one tool call: how many there are depends on timing. An update counts as sent before the responses
that precede it, and before the outcome of a prompt that was refused: commands are answered while an answer streams.
Tools that run at once may end in any order. And what the host is asked for the sake of a tool counts as asked after the
tool's start: some programs ask before they tell of that.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.host import Frame

Steps = list[str]

QUESTIONS = ("host_tool_call", "host_uri_request")


class Departure(NamedTuple):
    """A place where two sequences differ: these steps were expected, those came."""

    expected: tuple[str, ...]
    actual: tuple[str, ...]


def read_transcript(path: Path) -> list[Frame]:
    """The frames that the agent sent."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [row["frame"] for row in rows if row["dir"] == "out"]


def steps(frames: Iterable[Frame], left_out: Collection[str] = (), *, signs: bool = False) -> Steps:
    """The steps that `frames` make. Those that are left out part no updates that are alike.

    With `signs`, steps tell what became of a prompt, and whether a run was aborted.
    """
    result: Steps = []
    updated_calls: set[str] = set()
    for frame in frames:
        kind = frame["type"]
        step = _step(frame) + (_sign(frame) if signs else "")
        if step in left_out:
            continue
        if kind == "tool_execution_update":
            if frame["toolCallId"] in updated_calls:
                continue
            updated_calls.add(frame["toolCallId"])
        if kind not in ("message_update", "tool_execution_update"):
            place = _before_questions(result, step)
            while place and kind == "tool_execution_end" and result[place - 1].startswith(kind) and result[place - 1] > step:
                place -= 1
            result.insert(place, step)
            continue
        place = _before_questions(result, step)
        while place and result[place - 1].startswith(("response ", "queue_update", "prompt_result")):
            place -= 1
        if not place or result[place - 1] != step:
            result.insert(place, step)
    return result


def _before_questions(result: Steps, step: str) -> int:
    """The place of a step that counts as sent before the questions which precede it, or the end for one that does not."""
    place = len(result)
    if step.startswith(("tool_execution_start", "message_end assistant", "update ")):
        while place and result[place - 1] in QUESTIONS:
            place -= 1
    return place


def departures(expected: Steps, actual: Steps) -> list[Departure]:
    """Where the sequences differ, in order."""
    matcher = difflib.SequenceMatcher(None, expected, actual, autojunk=False)
    return [
        Departure(tuple(expected[i:j]), tuple(actual[k:l]))
        for what, i, j, k, l in matcher.get_opcodes()  # noqa: E741
        if what != "equal"
    ]


def _step(frame: Frame) -> str:
    kind = frame["type"]
    match kind:
        case "response":
            return f"response {frame.get('command')} {'ok' if frame['success'] else 'error'}"
        case "message_start" | "message_end":
            message = frame["message"]
            # An answer that has only begun has no reason to stop: pi 1.5 says "pending", other programs "stop".
            stopped = f" {message['stopReason'].replace('pending', 'stop')}" if message["role"] == "assistant" else ""
            return f"{kind} {message['role']}{stopped}"
        case "message_update":
            return f"update {frame['assistantMessageEvent']['type']}"
        case "tool_execution_start" | "tool_execution_update":
            return f"{kind} {frame['toolName']}"
        case "tool_execution_end":
            return f"{kind} {frame['toolName']} {'error' if frame['isError'] else 'ok'}"
        case "auto_retry_end":
            return f"{kind} {'ok' if frame['success'] else 'error'}"
        case "compaction_start" | "auto_compaction_start":
            return f"{kind} {frame['reason']}"
        case "compaction_end" | "auto_compaction_end":
            return f"{kind} {_outcome(frame)}"
        case "todo_reminder":
            return f"{kind} {frame['attempt']}/{frame['maxAttempts']}"
        case "ttsr_triggered":
            return f"{kind} {' '.join(rule['name'] for rule in frame['rules'])}"
        case "extension_ui_request":
            return f"{kind} {frame['method']} {frame.get('widgetKey') or ''}".rstrip()
        case _:
            return str(kind)


def _sign(frame: Frame) -> str:
    disposition = (
        frame["data"].get("disposition") if frame["type"] == "response" and isinstance(frame.get("data"), dict) else None
    )
    if frame["type"] == "agent_settled":
        return " aborted" if frame.get("aborted") else ""
    return f" {disposition}" if disposition else ""


def _outcome(compaction_end: Frame) -> str:
    """What came of a compaction. One that succeeded may be followed by another attempt at what was too long."""
    for what in ("skipped", "aborted"):
        if compaction_end.get(what):
            return what
    if compaction_end.get("result") is None:
        return "error"
    return "ok, retry" if compaction_end["willRetry"] else "ok"
