"""The form, the pace and the size of what is sent while an answer streams."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import PATIENCE, Frame
from tests.support.stage import bash, calls, says, stage

PIECE = "abcdefg "


def updates(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame["type"] == "message_update"]


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["assistantMessageEvent"]["type"] for frame in updates(frames)]


def text(frames: list[Frame]) -> str:
    inner = [frame["assistantMessageEvent"] for frame in updates(frames)]
    return "".join(event["delta"] for event in inner if event["type"] == "text_delta")


# Form


def test_delta_updates_leave_the_message_out(tmp_path: Path) -> None:
    turns = [{"thinking": "Hm.", **calls(bash("true"), text=PIECE * 20)}, says("ok")]
    with stage(tmp_path, "pi", turns, flags=["--updates", "delta"]) as host:
        frames = host.prompt("go")
        assert text(frames) == PIECE * 20 + "ok"
        for frame in updates(frames):
            assert frame.keys() == {"type", "assistantMessageEvent", "usage"}
            assert "partial" not in frame["assistantMessageEvent"]
        start = next(f["assistantMessageEvent"] for f in updates(frames) if "toolcall_start" in str(f))
        assert start.keys() == {"type", "contentIndex", "id", "toolName"}
        ends = [frame for frame in frames if frame["type"] == "message_end"]
        assert ends[1]["message"]["content"][1]["text"] == PIECE * 20


def test_the_form_can_be_changed_at_any_time(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [{"text": PIECE * 4, "holdAfter": 1}, says("full again")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        assert "message" in host.update("text_delta")
        since = host.mark()
        assert host.request("set_updates", updates="delta")["success"] is True
        host.provider.release()
        host.until("agent_settled")
        assert updates(host.frames[since:])
        assert not [frame for frame in updates(host.frames[since:]) if "message" in frame]
        assert text(host.frames) == PIECE * 4
        host.request("set_updates", updates="full")
        assert all("message" in frame for frame in updates(host.prompt("more")))


def test_a_change_of_form_sends_first_what_was_held_back(tmp_path: Path) -> None:
    turn = {"text": PIECE * 5, "holdAfter": 4, "delayMs": 20}
    with stage(tmp_path, "pi", [turn], settings={"output": {"paceMs": 600_000}}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        # The other pieces are still on their way from the provider. Once they are here, they do not wait for their time.
        deadline = time.monotonic() + PATIENCE
        while text(host.frames) != PIECE * 4 and time.monotonic() < deadline:
            host.request("set_updates", updates="full")
        assert text(host.frames) == PIECE * 4


def test_a_message_that_has_grown_long_is_no_longer_repeated(tmp_path: Path) -> None:
    settings = {"output": {"fullUpdateBytes": 1000}}
    with stage(tmp_path, "pi", [{"text": PIECE * 200, "holdAfter": 1}], settings=settings) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        assert "message" in host.update("text_delta")
        host.provider.release()
        host.until("agent_settled")
        assert "message" not in updates(host.frames)[-1]
        assert text(host.frames) == PIECE * 200
        assert host.until("agent_end")["messages"][1]["content"][0]["text"] == PIECE * 200


# Pace


def test_pieces_that_come_faster_than_the_pace_are_joined(tmp_path: Path) -> None:
    turn = {"text": PIECE * 1000, "holdAfter": 1}
    with stage(tmp_path, "pi", [turn], settings={"output": {"paceMs": 600_000}}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")  # the first piece of a block never waits
        host.provider.release()
        host.until("agent_settled")
        assert kinds(host.frames) == ["text_start", "text_delta", "text_delta", "text_end"]
        assert text(host.frames) == PIECE * 1000


def test_when_the_byte_rate_is_spent_updates_are_joined_and_do_not_repeat_the_message(tmp_path: Path) -> None:
    turn = {"text": PIECE * 1000, "holdAfter": 1}
    with stage(tmp_path, "pi", [turn], settings={"output": {"bytesPerSecond": 1, "paceMs": 0}}) as host:
        host.provider.release()
        frames = host.prompt("go")
        assert [frame["assistantMessageEvent"]["type"] for frame in updates(frames) if "message" in frame] == ["text_start"]
        assert len(updates(frames)) <= 4
        assert text(frames) == PIECE * 1000


@pytest.mark.parametrize("form", ["full", "delta"])
def test_a_long_answer_costs_no_more_than_a_few_times_its_length(form: str, tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says(PIECE * 20_000)], flags=["--updates", form]) as host:
        frames = host.prompt("go")
        assert text(frames) == PIECE * 20_000
        # Repeated whole in each of 20,000 updates, twice, it would be 3.2 GB.
        assert host.bytes_read < (16 << 20 if form == "full" else 4 << 20)
        assert len(updates(frames)) < 5_000


# Size


def reassembled(frames: list[Frame]) -> list[Frame]:
    """The frames, with chunks joined to what they are pieces of."""
    whole: list[Frame] = []
    pieces: list[bytes] = []
    for frame in frames:
        if frame["type"] != "rpc_chunk":
            assert not pieces, "other frames came between the chunks of one"
            whole.append(frame)
            continue
        assert frame["index"] == len(pieces)
        pieces.append(base64.b64decode(frame["data"], validate=True))
        if len(pieces) == frame["count"]:
            joined = b"".join(pieces)
            assert len(joined) == frame["byteLength"]
            whole.append(json.loads(joined))
            pieces = []
    assert not pieces
    return whole


def test_frames_over_the_limit_come_in_chunks(tmp_path: Path) -> None:
    long = "\u00e9\U0001f600 " * 3_000
    with stage(tmp_path, "omp", [says(long)], flags=["--max-frame-bytes", "2000"]) as host:
        host.prompt("x" * 10_000)
        host.send({"id": "m", "type": "get_messages"})
        host.send({"id": "s", "type": "get_last_assistant_text"})
        host.send({"id": "end", "type": "abort"})
        host.response("end")
        assert host.longest_line <= 2000
        found = reassembled(host.frames)
    messages = next(frame for frame in found if frame.get("id") == "m")["data"]["messages"]
    ends = [frame["message"] for frame in found if frame["type"] == "message_end"]
    assert messages == ends
    assert ends[0]["content"][0]["text"] == "x" * 10_000
    assert ends[1]["content"][0]["text"] == long
    assert text(found) == long
    assert next(frame for frame in found if frame.get("id") == "s")["data"] == {"text": long.strip()}


def test_under_a_frame_limit_the_end_of_a_run_counts_the_messages_it_leaves_out(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [says(PIECE * 1000), says("short")], flags=["--max-frame-bytes", "4000"]) as host:
        host.prompt("go")
        assert host.until("agent_end") == {"type": "agent_end", "messages": [], "messageCount": 2, "isTerminal": True}
        since = host.mark()
        host.prompt("go on")
        assert [message["role"] for message in host.until("agent_end", since=since)["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("limit", ["0", "-5", "many", "100"])
def test_a_frame_limit_that_makes_no_sense_is_refused(limit: str, tmp_path: Path) -> None:
    with stage(tmp_path, "omp", flags=["--max-frame-bytes", limit]) as host:
        assert host.exit_code() == 2
        assert "--max-frame-bytes" in host.stderr()


def test_chunks_of_different_frames_are_distinguished(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", flags=["--max-frame-bytes", "1024"]) as host:
        host.prompt("x" * 5_000)
        chunks: dict[str, list[Any]] = {}
        for frame in host.frames:
            if frame["type"] == "rpc_chunk":
                chunks.setdefault(frame["chunkId"], []).append((frame["index"], frame["count"]))
        assert len(chunks) >= 2
        for pieces in chunks.values():
            assert pieces == [(index, len(pieces)) for index in range(len(pieces))]
