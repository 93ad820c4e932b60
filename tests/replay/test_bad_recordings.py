"""Files that are not recordings, or not whole ones."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.surroundings import FAIRLEAD

HEADER = {
    "type": "recording",
    "version": 1,
    "dialect": "pi",
    "release": None,
    "fairlead": "0.1.0",
    "date": "2026-01-01T00:00:00Z",
}
FRAME = b'{"type":"out","ms":1,"frame":{"type":"agent_start"}}\n'


def header(**changes: object) -> bytes:
    return json.dumps({**HEADER, **changes}).encode() + b"\n"


def replay(file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [FAIRLEAD, "replay", str(file), *flags]
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty, so it is not a recording"),
        (b"\x00\x01\xff\xfe" * 100, "is not a recording: expected the header that `fairlead --record` writes"),
        (b"x" * (1 << 20), "is not a recording"),
        (b"[" * 100_000, "is not a recording"),
        (b'{"type":"session","version":3}\n', "is not a recording"),
        (header(version=2), "has version 2 of the format, and this fairlead reads version 1"),
        (header(dialect="klingon"), "was recorded in the dialect 'klingon', which this fairlead does not know"),
        (header() + b'{"type":"out"}\n' + FRAME, "line 2: not an entry of a recording"),
        (header() + FRAME + b"\xff\xfe\n" + FRAME, "line 3: not an entry of a recording"),
        (header() + b'{"type":"dance","ms":1}\n', "line 2: not an entry of a recording"),
    ],
)
def test_a_file_that_is_not_a_recording_is_explained(content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(content)
    for flags in ([], ["--provider"]):
        result = replay(file, *flags)
        assert (result.returncode, result.stdout) == (1, "")
        assert problem in result.stderr
        assert len(result.stderr) < 1000


def test_a_file_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    assert "No such file or directory" in replay(tmp_path / "missing").stderr
    assert "Is a directory" in replay(tmp_path).stderr


def test_a_file_that_is_too_long_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    with file.open("wb") as written:
        written.write(header())
        os.ftruncate(written.fileno(), (1 << 31) + 1)  # a hole, which takes no room on the disk
    assert "is too long for a recording: it has more than 2 GiB" in replay(file).stderr


def test_an_incomplete_last_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl"
    file.write_bytes(header() + FRAME + FRAME[:20])
    result = replay(file)
    assert (result.returncode, result.stdout) == (0, '{"type":"agent_start"}\n')
    assert f"the last line of {file} is incomplete and is left out" in result.stderr


def test_a_recording_without_requests_has_no_provider_to_play(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    file.write_bytes(header() + FRAME)
    assert "has no requests to a provider" in replay(file, "--provider").stderr


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--speed", "0"], "--speed: expected a number above 0"),
        (["--speed", "soon"], "--speed: expected a number above 0"),
        (["--speed"], "--speed needs a value"),
        (["--provider", "--port", "70000"], "--port: expected a port"),
        (["other.jsonl"], "usage: fairlead replay FILE"),
        (["--slow"], "usage: fairlead replay FILE"),
    ],
)
def test_an_invalid_command_line_is_explained(flags: list[str], problem: str, tmp_path: Path) -> None:
    result = replay(tmp_path / "any", *flags)
    assert result.returncode == 2
    assert problem in result.stderr


def test_help_is_a_result() -> None:
    result = subprocess.run([FAIRLEAD, "replay", "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "--lenient" in result.stdout
