"""Session files, whole and damaged, become pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.export.sessions import HEADER, pleasant

from fairlead.errors import ConfigError
from fairlead.export import export_file


def session(folder: Path, extra: bytes = b"") -> Path:
    path = folder / "2026-11-15_abc.jsonl"
    lines = [json.dumps(entry) for entry in (HEADER, *pleasant().entries)]
    path.write_bytes("\n".join(lines).encode() + b"\n" + extra)
    return path


def test_a_page_is_named_after_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sessions").mkdir()
    monkeypatch.chdir(tmp_path)
    target = export_file(session(tmp_path / "sessions"))
    assert target == Path("fairlead-session-2026-11-15_abc.html")
    assert b"<h1>Tide times an hour off</h1>" in (tmp_path / target).read_bytes()


def test_lines_that_cannot_be_read_are_owned_up_to(tmp_path: Path) -> None:
    whole = export_file(session(tmp_path), tmp_path / "whole.html").read_text()
    torn = export_file(session(tmp_path, b'[1]\n\n{"type":"mess'), tmp_path / "torn.html").read_text()
    assert "could not be read" not in whole
    assert "2 lines of the file could not be read and are missing here." in torn


def test_lone_surrogates_and_invalid_utf8_become_replacement_characters(tmp_path: Path) -> None:
    extra = b'{"type":"message","message":{"role":"user","content":"a\\ud800b"}}\n{"type":"session_info","name":"x\xffy"}\n'
    page = export_file(session(tmp_path, extra), tmp_path / "page.html").read_text()
    assert "a\ufffdb" in page and "<h1>x\ufffdy</h1>" in page


def test_files_of_the_first_version_read_as_one_conversation(tmp_path: Path) -> None:
    lines = [{"type": "session", "id": "x"}, *({"type": "message", "message": {"role": "user", "content": c}} for c in "abc")]
    source = tmp_path / "old.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)))
    page = export_file(source, tmp_path / "old.html").read_text()
    assert page.count("<article") == 3 and " hidden>" not in page


def test_a_file_that_is_not_a_session_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "notes.txt"
    source.write_text("hello\n")
    with pytest.raises(ConfigError, match=r"notes\.txt is not a session file: it does not begin with a session header\."):
        export_file(source)
    with pytest.raises(ConfigError, match=r"Cannot read the session .*: No such file or directory"):
        export_file(tmp_path / "absent.jsonl")


def test_a_page_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot write the page .*: No such file or directory"):
        export_file(session(tmp_path), tmp_path / "absent" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ConfigError, match="Cannot write the page"):
        export_file(session(tmp_path), tmp_path / "folder.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-11-15_abc.jsonl", "folder.html"]
