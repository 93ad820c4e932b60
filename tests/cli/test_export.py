"""`fairlead export`: a session file as a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.command import Command

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


def test_export_rejects_non_session_files(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("hi")
    for word in ("other.txt", "missing.jsonl", "nothing"):
        done = export(tmp_path, word)
        assert done.returncode == 1 and word in done.stderr and done.stderr.count("\n") == 1
    assert export(tmp_path).returncode == 2


def test_a_page_replaces_no_session_and_nothing_that_no_export_made(tmp_path: Path) -> None:
    talk = a_session(tmp_path)
    other = tmp_path / "other"
    other.write_bytes(talk.read_bytes())
    (tmp_path / "link.html").symlink_to(talk)
    (tmp_path / "hard.html").hardlink_to(talk)
    (tmp_path / "titled.html").write_bytes(b'{"type":"title","title":"t"}\n' + talk.read_bytes())
    sessions = ("talk.jsonl", "./talk.jsonl", "other", "link.html", "hard.html", "titled.html", "new.jsonl")
    (tmp_path / "notes.md").write_text("notes")
    (tmp_path / "site.html").write_text("<!doctype html><p>mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name, flags in (*((name, ["--force"]) for name in sessions), ("notes.md", []), ("site.html", [])):
        done = export(tmp_path, "talk.jsonl", "--output", name, *flags)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: Cannot write the page {name.removeprefix('./')}: ")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_page_replaces_a_page_and_with_force_any_other_file(tmp_path: Path) -> None:
    talk = a_session(tmp_path)
    assert export(tmp_path, "talk.jsonl", "out.html").returncode == 0
    talk.write_text(talk.read_text().replace("Hello, page.", "Hello again."))
    (tmp_path / "site.html").write_text("<!doctype html><p>mine")
    assert export(tmp_path, "talk.jsonl", "out.html").returncode == 0
    assert export(tmp_path, "talk.jsonl", "site.html", "--force").returncode == 0
    for name in ("out.html", "site.html"):
        assert "Hello again." in (tmp_path / name).read_text()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_page_goes_to_standard_output(tmp_path: Path) -> None:
    a_session(tmp_path)
    for words in (["talk.jsonl", "-"], ["talk.jsonl", "--output", "-"], ["-o", "-", "talk.jsonl"]):
        done = export(tmp_path, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("<!doctype html>") and done.stdout.endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["talk.jsonl"]


def test_several_sessions_become_several_pages(tmp_path: Path) -> None:
    talk = a_session(tmp_path)
    for name in ("one.jsonl", "two.jsonl", "sub/two.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(talk.read_bytes())
    done = export(tmp_path, "one.jsonl", "two.jsonl")
    assert done.stdout.split() == ["fairlead-session-one.html", "fairlead-session-two.html"]
    done = export(tmp_path, "one.jsonl", "missing.jsonl", "two.jsonl", "sub/two.jsonl", "--output", "pages/")
    assert (done.returncode, done.stdout.split()) == (1, ["pages/fairlead-session-one.html", "pages/fairlead-session-two.html"])
    assert "missing.jsonl does not exist" in done.stderr and "is the page of another of these sessions" in done.stderr
    assert "If that is the name of the page, end it in .html" in export(tmp_path, "one.jsonl", "page").stderr
    done = export(tmp_path, "one.jsonl", "one.jsonl", "./one.jsonl")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fairlead-session-one.html\n", "")
    done = export(tmp_path, "one.jsonl", "two.jsonl", "both.html")
    assert (done.returncode, done.stdout) == (2, "") and "2 sessions do not fit into one page" in done.stderr


def test_a_session_is_exported_by_its_id_its_name_and_as_the_last(fairlead: Command) -> None:
    assert fairlead("-p", "--name", "the tides", "hi").returncode == 0
    (file,) = fairlead.around.home.rglob("*.jsonl")
    for word in ("last", "The Tides", file.stem[-8:], file.stem.partition("_")[2]):
        done = fairlead("export", word, "-")
        assert done.returncode == 0 and "<title>the tides</title>" in done.stdout
    assert fairlead("export", "last", env={"HOME": "/nowhere", "FAIRLEAD_HOME": "/nowhere"}).stderr.startswith(
        "Error: This directory has no session."
    )
