"""The examples of hosts that use the Python client, and the first extension, do what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from tests.support.stage import ENDLESS, Turn, bash, calls, says

from fairlead.testing import ProviderServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE = 30


@contextmanager
def host(
    name: str, cwd: Path, *turns: Turn, flags: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Generator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """Start an example whose agent asks a model that plays `turns`."""
    with ProviderServer(turns) as provider:
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(cwd),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "no-secret",
            "ANTHROPIC_BASE_URL": provider.url,
            **(env or {}),
        }
        command = [sys.executable, "-W", "error", str(EXAMPLES / name), *flags]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=cwd, env=environment, text=True, bufsize=1, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdin and process.stdout
            try:
                yield process, process.stdin, process.stdout
            finally:
                process.kill()


def test_the_first_host_answers_asks_before_a_tool_runs_fails_and_resumes(tmp_path: Path) -> None:
    failing: Turn = {"status": 400, "error": "bad request"}
    turns = [calls(bash("touch made")), says("Made."), failing, says("Fine.")]
    with host("first_host.py", tmp_path, *turns) as (process, _, _):
        said, _ = process.communicate("Make it.\ny\nFail.\nWell?\n", timeout=PATIENCE)
        assert process.returncode == 0, said
        assert (tmp_path / "made").exists()
        lines = [line for line in said.splitlines() if line]
        assert "touch made" in "".join(lines[:3])
        assert lines[-3].endswith("Made.")
        assert lines[-2].startswith("That did not work: ")
        assert "bad request" in lines[-2]
        assert lines[-1] == "Fine."
    with host("first_host.py", tmp_path, says("I remember."), flags=["--continue"]) as (process, _, _):
        assert "I remember." in process.communicate("Do you remember?\n", timeout=PATIENCE)[0]
    [session] = tmp_path.glob(".fairlead/sessions/*/*.jsonl")
    assert "Make it." in session.read_text()
    assert "Do you remember?" in session.read_text()


def test_the_first_host_runs_no_tool_without_a_yes(tmp_path: Path) -> None:
    with host("first_host.py", tmp_path, calls(bash("touch made")), says("Not made.")) as (process, _, _):
        said, _ = process.communicate("Make it.\nmaybe\n", timeout=PATIENCE)
    assert "Not made." in said
    assert not (tmp_path / "made").exists()


def test_ctrl_c_aborts_the_run_and_not_the_first_host(tmp_path: Path) -> None:
    with host("first_host.py", tmp_path, ENDLESS, says("Still here.")) as (process, given, said):
        given.write("Go on.\n")
        assert said.read(4) == "word"
        process.send_signal(signal.SIGINT)
        while said.readline() != "(aborted)\n":
            pass
        assert process.communicate("Well?\n", timeout=PATIENCE)[0].strip() == "Still here."
    assert process.returncode == 0


def test_the_chat_shows_tools_asks_and_reports_failures(tmp_path: Path) -> None:
    failing: Turn = {"status": 400, "error": "out of credit"}
    turns = [
        calls(bash("echo made")),
        says("Made."),
        calls(("read", {"path": "nope"})),
        says("Gone."),
        failing,
        says("Hello again."),
    ]
    with host("chat.py", tmp_path, *turns, flags=["--approval", "ask"]) as (process, _, _):
        said, _ = process.communicate("Make it.\ny\n\nRead it.\nFail.\nHello?\n", timeout=PATIENCE)
    assert process.returncode == 0, said
    for part in (
        "Allow? [y/N]",
        "[Tool: bash]\n",
        "$ echo made\nmade\n",
        "Made.\n[completed, ",
        "read failed: ",
        "out of credit",
        "Hello again.\n[completed, ",
    ):
        assert part in said, said


DIALECTS = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh", "pi-2025"])
AGENT = "fairlead --mode rpc"


@DIALECTS
def test_the_chat_works_with_every_dialect_of_the_family(tmp_path: Path, dialect: str) -> None:
    failing: Turn = {"status": 400, "error": "out of credit"}
    turns = [calls(bash("echo made")), says("Made."), failing, says("Hello again.")]
    with host("chat.py", tmp_path, *turns, flags=["--dialect", dialect]) as (process, _, _):
        said, _ = process.communicate("Make it.\nFail.\nHello?\n", timeout=PATIENCE)
    assert process.returncode == 0, said
    for part in ("Made.\n[completed, ", "out of credit", "Hello again.\n[completed, "):
        assert part in said, said


@pytest.mark.parametrize(
    "env",
    [
        {"AGENT": f"{AGENT} --dialect=pi-2025"},
        {"AGENT": AGENT, "FAIRLEAD_DIALECT": "pi-2025"},
        {"AGENT": "launchers/pi --mode rpc", "RESPONSES": "no"},
    ],
)
def test_the_chat_knows_that_pi_of_2025_sends_no_responses(tmp_path: Path, env: dict[str, str]) -> None:
    fairlead = Path(sys.executable).with_name("fairlead")
    subprocess.run([fairlead, "shim", "pi-2025", tmp_path / "launchers"], env={**os.environ, "HOME": str(tmp_path)}, check=True)
    with host("chat.py", tmp_path, says("Hello again."), env=env) as (process, _, _):
        said, _ = process.communicate("Hello?\n", timeout=PATIENCE)
    assert "Hello again.\n[completed, " in said


def test_the_chat_shows_why_it_tries_again_as_a_sentence(tmp_path: Path) -> None:
    overloaded: Turn = {"status": 529, "error": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}}
    with host("chat.py", tmp_path, overloaded, says("Back.")) as (process, _, _):
        said, _ = process.communicate("Hello?\n", timeout=PATIENCE)
    assert "[Trying again: 529 Overloaded]\nBack." in said


@DIALECTS
def test_ctrl_c_stops_the_answer_and_the_chat_continues(tmp_path: Path, dialect: str) -> None:
    with host("chat.py", tmp_path, ENDLESS, says("Still here."), flags=["--dialect", dialect]) as (process, given, said):
        given.write("Go on.\n")
        assert said.read(6) == "> word"
        process.send_signal(signal.SIGINT)
        while "aborted" not in said.readline():
            pass
        assert "Still here." in process.communicate("Well?\n", timeout=PATIENCE)[0]
    assert process.returncode == 0


def test_the_first_tool_is_called_and_its_error_reaches_the_model(tmp_path: Path) -> None:
    turns = [calls(("restock", {"item": "door", "count": 1})), calls(("restock", {"item": "lamp", "count": 2})), says("Five.")]
    with ProviderServer(turns) as provider:
        env = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "no-secret", "ANTHROPIC_BASE_URL": provider.url}
        command = [sys.executable, "-W", "error", str(EXAMPLES / "first_tool.py"), "Fetch some."]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "Five.\n"
    [tool] = provider.requests[0].body["tools"]
    assert set(tool["input_schema"]["properties"]) == {"item", "count"}, "the context is not for the model"
    results = [json.dumps(request.body["messages"][-1]) for request in provider.requests[1:]]
    assert "There is no shelf for a door. There are shelves for lamp, desk." in results[0]
    assert r"{\"lamp\":5,\"desk\":1}" in results[1]


def test_the_first_host_tool_is_called_and_its_error_reaches_the_model(tmp_path: Path) -> None:
    turns = [calls(("restock", {"item": "door", "count": 1})), calls(("restock", {"item": "lamp", "count": 2})), says("Five.")]
    with host("host_tool.py", tmp_path, *turns, flags=["Fetch some."]) as (process, _, _):
        said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "Five.\n")
    [session] = tmp_path.glob(".fairlead/sessions/*/*.jsonl")
    assert "There is no shelf for a door." in session.read_text()
    assert r"{\"lamp\":5,\"desk\":1}" in session.read_text()


def test_the_first_extension_blocks_a_call_and_adds_a_tool_and_a_command(tmp_path: Path) -> None:
    turns = [calls(bash("git push --force"), ("word_count", {"text": "one two three"})), says("Counted.")]
    flags = ["-e", str(EXAMPLES / "first_extension.py")]
    with host("chat.py", tmp_path, *turns, flags=flags) as (process, _, _):
        said, _ = process.communicate("/count-tools\nCount.\n", timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "[The model has 5 tools.]" in said
    assert "bash failed: Do not force a push." in said
    assert "word_count: 3" in said
    assert "Counted." in said


def test_the_bot_keeps_rooms_apart_and_resumes_them(tmp_path: Path) -> None:
    touch, failing = calls(bash("touch made")), {"status": 400, "error": "out of credit"}
    with host("bot.py", tmp_path, touch, says("Not allowed.")) as (process, _, _):
        said, _ = process.communicate("kitchen: Make it.\nkitchen: And now?\n", timeout=PATIENCE)
    assert (process.returncode, said) == (0, "kitchen: Not allowed.\n" * 2)
    assert not (tmp_path / "made").exists()
    with host("bot.py", tmp_path, failing) as (process, _, _):
        said, _ = process.communicate("garden: Hi.\nkitchen: Do you remember?\n", timeout=PATIENCE)
    assert sorted(line.partition(":")[0] for line in said.splitlines()) == ["garden", "kitchen"]
    assert said.count("Sorry, that did not work: ") == 2
    garden, kitchen = sorted(tmp_path.glob(".fairlead/sessions/*/*.jsonl"), key=lambda path: path.stem.partition("_")[2])
    assert "Make it." in kitchen.read_text()
    assert "Do you remember?" in kitchen.read_text()
    assert "remember" not in garden.read_text()
