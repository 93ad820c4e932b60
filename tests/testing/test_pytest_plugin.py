"""The pytest plug-in in a separate test project: pytest runs in another process and finds the plug-in by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.stage import says

from fairlead.testing import MakeRecording

HOST = '''
"""A host: asks its agent two things."""
import sys

from fairlead.client import SyncClient


def talk(client):
    first = client.ask("Hello?")
    return first.text, client.ask("And now?").text
'''

PASSING = """
import asyncio
import sys

from host import talk

from fairlead.testing import Turn


def test_importing_the_plug_in_loads_no_engine():
    assert "fairlead.testing.plugin" in sys.modules
    assert not [name for name in sys.modules if name.startswith(("fairlead.agent", "fairlead.session", "fairlead.wire"))]


def test_an_agent_in_this_process(fairlead_agent):
    async def work():
        async with fairlead_agent("Hello.", Turn(text="Bye.")) as agent:
            return [str(await agent.ask("Hi")), str(await agent.ask("Bye"))]

    assert asyncio.run(work()) == ["Hello.", "Bye."]


def test_a_provider(fairlead_provider, fairlead_process):
    assert fairlead_provider("Hello.").url.startswith("http://127.0.0.1:")
    with fairlead_process("One.", {"text": "Two."}).sync_client() as client:
        assert talk(client) == ("One.", "Two.")


def test_a_recording_is_made_and_played(fairlead_record, fairlead_replay, tmp_path):
    with fairlead_record(tmp_path / "new.jsonl", "Recorded.", "Well.").sync_client() as client:
        first = talk(client)
    with fairlead_replay(tmp_path / "new.jsonl").sync_client() as client:
        assert talk(client) == first == ("Recorded.", "Well.")


def test_a_recording_from_the_repository(fairlead_replay):
    with fairlead_replay("session.jsonl").sync_client() as client:
        assert talk(client) == ("It was recorded.", "Good.")
"""

DEPARTING = """
import pytest

from fairlead.errors import CommandRefused


def test_another_prompt(fairlead_replay):
    with fairlead_replay("session.jsonl").sync_client() as client:
        client.ask("Something else?")


def test_a_departure_that_the_host_hides(fairlead_replay):
    with fairlead_replay("session.jsonl").sync_client() as client:
        with pytest.raises(CommandRefused):
            client.ask("Something else?")


def test_a_host_that_leaves_early(fairlead_replay):
    with fairlead_replay("session.jsonl").sync_client() as client:
        assert client.ask("Hello?").text == "It was recorded."


def test_a_lenient_replay(fairlead_replay):
    with fairlead_replay("session.jsonl", lenient=True).sync_client() as client:
        assert client.ask("Something else?").text == "It was recorded."
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False)


async def make_project(folder: Path, fairlead_record: MakeRecording) -> None:
    folder.mkdir()
    (folder / "host.py").write_text(HOST)
    async with fairlead_record(folder / "session.jsonl", says("It was recorded."), says("Good.")).client() as client:
        await client.ask("Hello?")
        await client.ask("And now?")


async def test_a_project_uses_the_fixtures(tmp_path: Path, fairlead_record: MakeRecording) -> None:
    project = tmp_path / "project"
    await make_project(project, fairlead_record)
    (project / "test_host.py").write_text(PASSING)
    result = pytest_in(project, "-q")
    assert result.returncode == 0, result.stdout
    assert "5 passed" in result.stdout


async def test_a_host_that_departs_fails_its_test(tmp_path: Path, fairlead_record: MakeRecording) -> None:
    project = tmp_path / "project"
    await make_project(project, fairlead_record)
    (project / "test_host.py").write_text(DEPARTING)
    result = pytest_in(project, "-q", "-rA")
    assert result.returncode == 1, result.stdout
    assert "3 errors" in result.stdout
    for name in ("test_another_prompt", "test_a_departure_that_the_host_hides", "test_a_host_that_leaves_early"):
        assert f"ERROR test_host.py::{name}" in result.stdout
    assert "FAILED test_host.py::test_another_prompt" in result.stdout
    assert "PASSED test_host.py::test_a_lenient_replay" in result.stdout
    assert "ERROR test_host.py::test_a_lenient_replay" not in result.stdout
    assert 'prompt: message: expected "Hello?", got "Something else?"' in result.stdout
    assert 'expected prompt {"message": "And now?"}' in result.stdout


def test_the_fixtures_are_listed_with_their_help(tmp_path: Path) -> None:
    listed = pytest_in(tmp_path, "--fixtures", "-q").stdout
    for name in ("agent", "provider", "process", "record", "replay"):
        assert f"\nfairlead_{name} " in listed
