"""`fairlead export`: a session file as a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
ENTRY = {
    "type": "message",
    "id": "00000001",
    "parentId": None,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "message": {"role": "user", "content": [{"type": "text", "text": "Hello, page."}], "timestamp": 1},
}


def export(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairlead", "export", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def a_session(folder: Path) -> Path:
    path = folder / "talk.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in (HEADER, ENTRY)) + "\n")
    return path


def test_a_page_is_written_beside_and_named(tmp_path: Path) -> None:
    a_session(tmp_path)
    done = export(tmp_path, "talk.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hello, page." in (tmp_path / done.stdout.strip()).read_text()


def test_a_page_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    a_session(tmp_path)
    done = export(tmp_path, "talk.jsonl", "out.html")
    assert done.stdout.strip().endswith("out.html") and (tmp_path / "out.html").exists()


def test_what_is_no_session_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("hi")
    for words in (["other.txt"], ["missing.jsonl"]):
        done = export(tmp_path, *words)
        assert done.returncode == 1 and words[0] in done.stderr and done.stderr.count("\n") == 1
    assert export(tmp_path).returncode == 2


def test_a_page_replaces_no_session_and_nothing_that_is_not_a_page(tmp_path: Path) -> None:
    talk = a_session(tmp_path)
    other = tmp_path / "other"
    other.write_bytes(talk.read_bytes())
    (tmp_path / "link.html").symlink_to(talk)
    (tmp_path / "hard.html").hardlink_to(talk)
    (tmp_path / "titled.html").write_bytes(b'{"type":"title","title":"t"}\n' + talk.read_bytes())
    (tmp_path / "notes.md").write_text("notes")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("talk.jsonl", "./talk.jsonl", "other", "link.html", "hard.html", "titled.html", "new.jsonl", "notes.md"):
        done = export(tmp_path, "talk.jsonl", name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: Cannot write the page {name.removeprefix('./')}: ")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_page_replaces_a_page(tmp_path: Path) -> None:
    a_session(tmp_path)
    (tmp_path / "out.html").write_text("old")
    (tmp_path / "page").write_text("<!DOCTYPE html><p>old")
    for name in ("out.html", "page"):
        assert export(tmp_path, "talk.jsonl", name).returncode == 0
        assert "Hello, page." in (tmp_path / name).read_text()
    assert len(list(tmp_path.iterdir())) == 3
