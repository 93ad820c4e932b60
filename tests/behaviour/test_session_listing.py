"""Which sessions there are, and taking them away."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.session_host import another, session_file, stage, state

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


def test_sessions_are_listed_those_that_changed_last_first(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request("list_sessions")["data"] == {"sessions": []}
        host.request("set_session_name", name="the older")
        host.prompt("in the older")
        older = state(host)
        host.request("new_session", parentSession=older["sessionFile"])
        host.prompt("in the newer")
        newer = state(host)
        folder = Path(older["sessionFile"]).parent
        elsewhere = folder.parent / "--elsewhere--"
        elsewhere.mkdir()
        header = {"type": "session", "version": 3, "id": "abc", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/elsewhere"}
        (elsewhere / "other.jsonl").write_text(json.dumps(header) + "\n")
        (folder / "broken.jsonl").write_text("no session\n")
        os.mkfifo(folder / "fifo.jsonl")
        by_age = [
            newer["sessionFile"],
            older["sessionFile"],
            elsewhere / "other.jsonl",
            folder / "broken.jsonl",
            folder / "fifo.jsonl",
        ]
        for age, path in enumerate(by_age):
            os.utime(path, (1_800_000_000 - age, 1_800_000_000 - age))

        first, second, broken, pipe = host.request("list_sessions")["data"]["sessions"]
        assert first.pop("created") <= second.pop("created") + 60_000
        common = {"cwd": str(host.around.cwd), "messageCount": 2}
        assert first == common | {
            "path": newer["sessionFile"],
            "id": newer["sessionId"],
            "modified": 1_800_000_000_000,
            "firstMessage": "in the newer",
            "parentSession": older["sessionFile"],
        }
        assert second == common | {
            "path": older["sessionFile"],
            "id": older["sessionId"],
            "name": "the older",
            "modified": 1_799_999_999_000,
            "firstMessage": "in the older",
        }
        assert broken["path"] == str(folder / "broken.jsonl")
        assert "is not a session file" in broken["problem"]
        assert "is not a regular file" in pipe["problem"]
        everywhere = host.request("list_sessions", all=True)["data"]["sessions"]
        assert [entry["id"] for entry in everywhere[:3]] == [newer["sessionId"], older["sessionId"], "abc"]
        assert everywhere[2]["created"] == 1_767_225_600_000


def test_a_session_is_deleted_unless_it_is_in_use(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, files={"notes.txt": "precious\n"}) as host:
        host.prompt("first")
        first = session_file(host)
        host.request("new_session")
        host.prompt("second")
        second = session_file(host)
        os.mkfifo(host.around.cwd / "fifo.jsonl")
        with another(host, dialect, "--session", "used.jsonl") as other:
            other.prompt("mine")
            refused = {
                name: host.request("delete_session", sessionPath=name)["error"]
                for name in (str(second), "used.jsonl", "notes.txt", "gone.jsonl", "fifo.jsonl", ".", "a\0b")
            }
            assert refused[str(second)] == "This session is in use. Switch to another one before you delete it."
            assert refused["used.jsonl"].endswith(f"is in use by another process (pid {other.process.pid}).")
            assert "is not a session file" in refused["notes.txt"]
            assert refused["gone.jsonl"].endswith("does not exist.")
            assert not any("Internal error" in error for error in refused.values())
        assert second.exists()
        assert (host.around.cwd / "used.jsonl").exists()
        assert (host.around.cwd / "notes.txt").read_text() == "precious\n"

        assert host.request("delete_session", sessionPath=str(first), id="d") == {
            "type": "response",
            "id": "d",
            "command": "delete_session",
            "success": True,
        }
        assert not first.exists()
        assert host.request("delete_session", sessionPath="used.jsonl")["success"] is True
        listed = host.request("list_sessions")["data"]["sessions"]
        assert [entry["path"] for entry in listed] == [str(second)]


def test_a_page_cannot_be_written_to_a_name_that_no_file_can_have(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("hi")
        for name in ("a\0b", "~nobody-of-that-name/page.html"):
            answer = host.request("export_html", outputPath=name)
            assert "Internal error" not in answer.get("error", ""), name
        assert "NUL" in host.request("export_html", outputPath="a\0b")["error"]
        assert host.request("export_html", outputPath="~/page.html")["success"] is True
        assert (host.around.home / "page.html").exists()


def test_a_page_replaces_no_session_and_nothing_that_is_not_a_file(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("hi")
        file = session_file(host)
        before = file.read_bytes()
        assert "own file" in host.request("export_html", outputPath=str(file))["error"]
        assert file.read_bytes() == before
        os.mkfifo(host.around.cwd / "fifo")
        for name in ("fifo", ".", "/"):
            assert host.request("export_html", outputPath=name)["error"].startswith("Cannot write the page")
        assert (host.around.cwd / "fifo").is_fifo()
        (host.around.cwd / "link.html").symlink_to("page.html")
        assert host.request("export_html", outputPath="link.html")["success"] is True
        assert (host.around.cwd / "link.html").is_symlink()
        assert (host.around.cwd / "page.html").stat().st_mode & 0o777 == 0o600
