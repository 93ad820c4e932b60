"""MCP servers as their users install them, from PyPI and from npm, and a real process whose model uses them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from tests.support.stage import Stage, calls, says, stage

pytestmark = pytest.mark.system


def written(path: Path, **servers: Mapping[str, Any]) -> str:
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def entry(command: list[str], *arguments: str) -> dict[str, Any]:
    return {"command": command[0], "args": [*command[1:], *arguments]}


def results(host: Stage, text: str) -> list[tuple[str, str, bool]]:
    """What came of each call in the run of a prompt: the tool, the text, and whether it is an error."""
    ends = [frame for frame in host.prompt(text) if frame["type"] == "tool_execution_end"]
    return [(end["toolName"], "\n".join(b["text"] for b in end["result"]["content"]), end["isError"]) for end in ends]


def test_git_from_pypi_works_on_a_real_repository(tmp_path: Path) -> None:
    repository = tmp_path / "project"
    config = written(tmp_path / "servers.json", git=entry(peers.MCP_GIT.command()))
    path = {"repo_path": str(repository)}
    turns = [
        calls(("mcp__git__git_status", path)),
        calls(("mcp__git__git_add", {**path, "files": ["new.txt"]})),
        calls(("mcp__git__git_commit", {**path, "message": "Add a file"})),
        calls(("mcp__git__git_log", path)),
        calls(("mcp__git__git_show", {**path, "revision": "no-such-revision"})),
        says("done"),
    ]
    with stage(tmp_path, "pi", turns, flags=["--mcp-config", config], files={"new.txt": "hello\n"}) as host:
        git("init", "--quiet", folder=repository)
        git("config", "user.email", "ada@example.com", folder=repository)
        git("config", "user.name", "Ada", folder=repository)
        status, added, committed, log, missing = results(host, "Commit it.")
        assert "new.txt" in status[1] and not status[2]
        assert not added[2] and not committed[2]
        assert "Add a file" in log[1]
        assert missing[2], missing[1]
        assert host.leave() == 0
        assert "extension_error" not in {frame["type"] for frame in host.frames}, host.stderr()
    assert git("log", "--format=%s", folder=repository) == "Add a file\n"


def test_the_filesystem_from_npm_stays_within_its_folder(tmp_path: Path) -> None:
    project = tmp_path / "project"
    config = written(tmp_path / "servers.json", files=entry(peers.MCP_FILES.command(), str(project)))
    turns = [
        calls(("mcp__files__write_file", {"path": str(project / "note.txt"), "content": "one\ntwo\n"})),
        calls(("mcp__files__read_text_file", {"path": str(project / "note.txt"), "head": 1})),
        calls(("mcp__files__list_directory", {"path": str(project)})),
        calls(("mcp__files__read_text_file", {"path": "/etc/hostname"})),
        says("done"),
    ]
    with stage(tmp_path, "omp", turns, flags=["--mcp-config", config]) as host:
        wrote, read, listed, outside = results(host, "Write a note.")
        assert not wrote[2] and (project / "note.txt").read_text() == "one\ntwo\n"
        assert read[1].strip() == "one"
        assert "note.txt" in listed[1]
        assert outside[2] and "denied" in outside[1].lower()
        assert host.leave() == 0
        assert "extension_error" not in {frame["type"] for frame in host.frames}, host.stderr()


def git(*arguments: str, folder: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout
