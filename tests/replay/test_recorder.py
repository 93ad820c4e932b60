"""The recorder in this process, where a test can hold it up."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from fairlead.core.secrets import learn, redacted
from fairlead.replay import recorder as module
from fairlead.replay.cleaning import SplitSecrets, clean_headers, clean_url
from fairlead.replay.recorder import Recorder


def open_recorder(path: Path, warnings: list[str]) -> Recorder:
    return Recorder.open(path, dialect="pi", release=None, overwrite=False, warn=warnings.append)


def test_a_disk_that_is_too_slow_ends_the_recording_and_blocks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 1000)
    warnings: list[str] = []
    held, file = threading.Event(), tmp_path / "session.jsonl"
    recorder = open_recorder(file, warnings)
    recorder.add(lambda ms: held.wait() and None)
    for _ in range(200):
        recorder.frame_sent(b'{"type":"a frame"}\n')
    assert warnings == []
    held.set()
    recorder.close(0)
    assert warnings == [f"The recording {file} ends here: more than 0 MiB wait to be written. The agent continues."]
    assert [json.loads(line)["type"] for line in file.read_text().splitlines()] == ["recording"]


def test_a_line_with_a_lone_surrogate_is_kept_as_text(tmp_path: Path) -> None:
    recorder = open_recorder(tmp_path / "session.jsonl", [])
    recorder.line_received(rb'{"type":"prompt","message":"\ud800"}')
    recorder.line_received(b"  ")
    recorder.line_received(None)
    recorder.close(0)
    entries = [json.loads(line) for line in (tmp_path / "session.jsonl").read_text().splitlines()]
    assert [entry.get("text", "-") for entry in entries[1:]] == [r'{"type":"prompt","message":"\ud800"}', None, "-"]


def test_only_headers_that_carry_no_secret_are_kept() -> None:
    headers = {"Authorization": "Bearer x", "cookie": "a=b", "x-own": "?", "Content-Type": "text/plain", "x-ratelimit-left": "3"}
    hidden = dict.fromkeys(["Authorization", "cookie", "x-own"], "[redacted]")
    assert clean_headers(headers.items()) == {**headers, **hidden}


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://user:pass@host/v1?key=abc&alt=sse", "https://host/v1?key=[redacted]&alt=sse"),
        ("http://host:8080/v1#x", "http://host:8080/v1"),
        ("http://[broken", "[redacted]"),
    ],
)
def test_urls_are_kept_without_secrets(url: str, clean: str) -> None:
    assert clean_url(url) == clean


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_a_secret_in_pieces_is_left_out_and_the_text_around_it_stays(size: int) -> None:
    learn("split-secret-value-123456")
    split, text = SplitSecrets(), "before split-secret-value-123456 after, split apart and more"
    assert redacted(text) == "before [redacted] after, split apart and more"
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    frames = [split.frame(json.dumps({"type": "x", "delta": piece}).encode()) for piece in pieces]
    joined = "".join(json.loads(frame)["delta"] for frame in frames)
    assert "split-secret" not in joined
    assert joined.startswith("before ")
    assert joined.endswith("[redacted] after, split apart and more")
