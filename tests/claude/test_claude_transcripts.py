"""Scenarios that were played to Claude Code, played to this program: the same frames come in the same order.

A transcript has what the host sent, and a step for each frame that it got. The host sends a line once it has as many steps of the
kind that came last before that line. `DEPARTURES` has the places in which this program differs, and why.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from tests.claude.host import ClaudeHost, Frame, claude

GOLDEN = Path(__file__).parent.parent / "golden" / "claude-2.1"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.jsonl"))
#: Frames that a host may not get, and that are not compared.
OPTIONAL = {"command_lifecycle"}
OPTIONAL_SYSTEM = {"session_state_changed", "informational", "task_progress", "session_title_changed", "permission_denied"}

#: Why this program departs from a transcript, and the lines of the difference: `-` is missing, `+` is new.
DEPARTURES: Mapping[str, tuple[str, list[str]]] = {
    "drop_mid_stream": (
        "The pieces that had arrived are sent; the next attempt starts over with its own message_start.",
        ["+stream message_start", "+stream content_block_start", "+stream content_block_delta text_delta"],
    ),
    "hooks_of_settings": (
        "The commands for the start of a session run at the first prompt, when there is a session.",
        ["+answer initialize success", "-answer initialize success"],
    ),
    "slash_commands": (
        "/clear ends nothing in the background, so it does not say so.",
        ["-system background_tasks_changed"],
    ),
    "tools_reading": (
        "NotebookEdit is not offered.",
        ["-user tool_result ok", "+user tool_result error"],
    ),
    "unknown_model": (
        "A refused request is not sent again without streaming, so the second prompt gets the second refusal.",
        [
            "-user text replay",
            "-assistant text",
            "-result success ok completed",
            "-exit 0",
            "+assistant text error",
            "+result success error api_error",
            "+exit 1",
        ],
    ),
}


def step(frame: Frame, asked: Mapping[str, str]) -> str:
    """What is compared of a frame."""
    kind, sub = frame["type"], frame.get("subtype")
    nested = " (sub-agent)" if frame.get("parent_tool_use_id") else ""
    match kind:
        case "control_response":
            inner = frame["response"]
            return f"answer {asked.get(inner['request_id'], '?')} {inner['subtype']}"
        case "control_request":
            request = frame["request"]
            inner = request.get("input", {}).get("hook_event_name") or request.get("message", {}).get("method")
            return f"asks {request['subtype']} {request.get('tool_name') or inner or ''}"
        case "assistant":
            blocks = [block["name"] if block["type"] == "tool_use" else block["type"] for block in frame["message"]["content"]]
            marks = f"{' aborted' if frame.get('aborted') else ''}{' error' if frame.get('error') else ''}"
            return f"assistant {' '.join(blocks)}{marks}{nested}"
        case "user":
            content: Any = frame["message"]["content"]
            told = cast("list[Frame]", content) if isinstance(content, list) else [{"type": "text"}]
            kinds = [
                f"tool_result {'error' if block.get('is_error') else 'ok'}" if block["type"] == "tool_result" else block["type"]
                for block in told
            ]
            return f"user {' '.join(kinds)}{' replay' if frame.get('isReplay') else ''}{nested}"
        case "system":
            more: dict[Any, str] = {
                "status": f" {frame.get('status')} {frame.get('permissionMode', '')}".rstrip(),
                "task_notification": f" {frame.get('status')}",
                "task_updated": f" {frame.get('patch', {}).get('status')}",
            }
            return f"system {sub}{more.get(sub, '')}"
        case "result":
            return f"result {sub} {'error' if frame['is_error'] else 'ok'} {frame.get('terminal_reason') or ''}".rstrip()
        case "stream_event":
            event = frame["event"]
            delta = event["delta"]["type"] if event["type"] == "content_block_delta" else ""
            return f"stream {event['type']} {delta}".rstrip()
        case _:
            return kind


def steps(frames: list[Frame], asked: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for frame in frames:
        kind, sub = frame["type"], frame.get("subtype")
        if kind in OPTIONAL or (kind == "system" and (sub in OPTIONAL_SYSTEM or frame.get("status") == "requesting")):
            continue
        name = step(frame, asked)
        if not (found and found[-1] == name and name.startswith("stream content_block_delta")):
            found.append(name)
    return found


class Player:
    """Plays the part of the host."""

    def __init__(self, host: ClaudeHost, rows: list[Frame]) -> None:
        self._host = host
        self._rows = rows
        self._asked: dict[str, str] = {}
        self._replies = 0

    def play(self) -> list[str]:
        before: list[str] = []
        for row in self._rows:
            if row["dir"] == "out":
                before.append(row["step"])
            elif row["dir"] == "in":
                self._send(row, before)
        results = sum(step.startswith("result ") for step in before)
        self._host.wait_for(lambda _: len(self._host.of("result")) >= results, f"{results} results")
        code = self._host.leave()
        return [*steps(self._host.frames, self._asked), f"exit {code}"]

    def _send(self, row: Frame, before: list[str]) -> None:
        host = self._host
        frame: Frame = row["frame"]
        if frame["type"] == "control_response":
            self._replies += 1
            question = host.until("control_request", nth=self._replies)
            frame = {**frame, "response": {**frame["response"], "request_id": question["request_id"]}}
        elif before:
            count = before.count(before[-1])
            host.wait_for(lambda _: steps(host.frames, self._asked).count(before[-1]) >= count, before[-1])
        if frame["type"] == "control_request":
            self._asked[frame["request_id"]] = frame["request"]["subtype"]
        host.send(frame)


@pytest.mark.parametrize("name", NAMES)
def test_a_host_sees_what_it_saw_of_claude_code(name: str, tmp_path: Path) -> None:
    provider, start, *rows = [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]
    for path, content in provider.get("files", {}).items():
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.lstrip("/")).write_text(content if isinstance(content, str) else json.dumps(content))
    env, loop = provider.get("env"), provider.get("loop", False)
    with claude(tmp_path, provider["turns"], *start["argv"], base=(), model=None, env=env, loop=loop) as host:
        actual = Player(host, _with_folder(rows, tmp_path)).play()
    expected = [row["step"] for row in rows if row["dir"] in ("out", "exit")]
    found = [line for line in difflib.unified_diff(expected, actual, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]
    assert found == DEPARTURES.get(name, ("", []))[1]


def _with_folder(rows: list[Frame], work: Path) -> list[Frame]:
    return json.loads(json.dumps(rows).replace("$CWD", str(work / "cwd")))


def test_every_departure_belongs_to_a_transcript_and_has_a_reason() -> None:
    assert set(DEPARTURES) <= set(NAMES)
    assert all(reason.endswith(".") and lines for reason, lines in DEPARTURES.values())
