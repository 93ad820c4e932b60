"""The flags of pi 1.5, omp 18 and xcsh: none ends the process, and those that mean something here do what they say."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command, Scripted
from tests.support.stage import bash, calls, says

from fairlead.cli.flags import parse

GET_STATE = '{"id":1,"type":"get_state"}\n'
EXTENSION = "def setup(fl):\n    pass\n"

PI = """--provider fake --model fake-1 --api-key k --system-prompt s --append-system-prompt a --no-session --name n --models
fake-1 --no-builtin-tools -nbt --tools read --exclude-tools ls --thinking max --extension ext.py -e builtin:mcp
--no-extensions -ne --no-mcp --skill skill --no-skills -ns --prompt-template p.md --no-prompt-templates -np --theme t
--use-theme dark --no-themes --no-context-files -nc --tui-mode x --approve -a --offline"""
OMP = """--cwd . --config c.yml --add-dir . --provider fake --model fake-1 --smol m --slow m --plan m --prewalk-into m
--plan-yolo-into m --max-time 10m --service-tier flex --api-key k --system-prompt s --system-prompt-template t
--append-system-prompt a --provider-session-id i --prompt-cache-key k --models fake-1 --tools read --thinking auto
--hook ext.py --extension ext.py --plugin-dir d --skills git-* --approval-mode yolo --allow-home --profile p --alias a
--from-claude --from-codex --no-session --no-lsp --no-pty --hide-thinking --advisor --external-thinking --prewalk
--no-prewalk --plan-yolo --print-thoughts --no-extensions --no-skills --no-rules --no-title --no-ui --auto-approve
--yolo"""
XCSH = """--provider fake --model fake-1 --thinking high --append-system-prompt a --provider-session-id i --tools read
--no-session --no-skills --no-rules --no-title --no-memory --no-startup-checks --no-hide-thinking --no-lsp --no-pty"""
PEERS = {"pi": PI, "omp": OMP, "xcsh": XCSH}


def state(done: Any) -> dict[str, Any]:
    """The answer to get_state, from a process that said nothing on stderr."""
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout.splitlines()[-1])["data"]


@pytest.mark.parametrize("peer", PEERS)
def test_no_flag_of_a_peer_ends_the_process_or_says_a_word(fairlead: Command, peer: str) -> None:
    (fairlead.around.cwd / "ext.py").write_text(EXTENSION)
    found = state(fairlead("--as", peer, "--mode", "rpc", *PEERS[peer].split(), input=GET_STATE))
    assert found["model"]["id"] == "fake-1"


@pytest.mark.parametrize("flag", sorted({word for flags in PEERS.values() for word in flags.split() if word.startswith("--")}))
def test_every_flag_of_a_peer_is_known(flag: str) -> None:
    assert parse([flag, "off"] if flag == "--approval" else [flag, "yolo"]).unknown == {}


def test_remarks_about_flags_are_in_the_log(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--thinking", "bogus", "--smol", "x", "--tools", "read,nope", "--verbose", input=GET_STATE)
    for remark in ('Invalid thinking level "bogus"', "--smol has no effect here", "Unknown tools, left out: nope"):
        assert remark in done.stderr


# Models and levels


@pytest.mark.parametrize("words", [["--provider", "fake", "--model", "meta/llama-9:free"], ["--model", "fake/meta/llama-9:free"]])
def test_a_model_that_is_not_known_is_asked_at_its_provider(fairlead: Command, words: list[str]) -> None:
    done = fairlead("-p", *words, "hi")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    assert done.stderr == 'fairlead: Model "meta/llama-9:free" not found for provider "fake". Using custom model id.\n'
    assert fairlead.asked["model"] == "meta/llama-9:free"


def test_hosts_may_choose_a_model_that_is_not_known(fairlead: Command) -> None:
    commands = [
        {"type": "set_model", "provider": "fake", "modelId": "llama-9"},
        {"type": "set_model", "provider": "nowhere", "modelId": "llama-9"},
        {"type": "prompt", "message": "hi"},
    ]
    text = "".join(json.dumps(command) + "\n" for command in commands)
    done = fairlead("--mode", "rpc", "--dialect", "pi", "--on-eof", "finish", input=text)
    answers = [frame for line in done.stdout.splitlines() if (frame := json.loads(line))["type"] == "response"]
    assert [answer["success"] for answer in answers] == [True, False, True] and done.stderr == ""
    assert answers[0]["data"]["id"] == "llama-9" and answers[1]["error"] == "Model not found: nowhere/llama-9"
    assert fairlead.asked["model"] == "llama-9"


@pytest.mark.parametrize("words", [["--model", "nowhere/x"], ["--provider", "nowhere", "--model", "x"], ["--model", "llama-9"]])
def test_without_a_known_provider_it_is_an_error(fairlead: Command, words: list[str]) -> None:
    done = fairlead("--mode", "rpc", *words, input=GET_STATE)
    assert (done.returncode, done.stdout) == (1, "") and len(done.stderr.splitlines()) == 1
    assert "not found. Use --list-models" in done.stderr


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (["--thinking", "max"], "high"),
        (["--thinking", "xhigh"], "high"),
        (["--thinking", "auto"], "medium"),
        (["--thinking", "bogus"], "medium"),
        (["--model", "fake/fake-1:max"], "high"),
        (["--models", "fake/fake-1:bogus"], "medium"),
    ],
)
def test_levels_are_made_to_fit(fairlead: Command, words: list[str], level: str) -> None:
    model = [] if words[0].startswith("--model") else ["--model", "fake/fake-1"]
    assert state(fairlead("--mode", "rpc", "--dialect", "pi", *model, *words, input=GET_STATE))["thinkingLevel"] == level


@pytest.mark.parametrize("words", [["--models", "zzz"], ["--models", "fake/zzz"], ["--model", ""]])
def test_models_that_do_not_exist_leave_the_default(fairlead: Command, words: list[str]) -> None:
    done = fairlead("--mode", "rpc", "--dialect", "pi", *words, input=GET_STATE)
    assert (done.returncode, done.stderr, state(done)["model"]["provider"]) == (0, "", "fake")


# What they do


def test_cwd_changes_the_directory_before_anything_is_read(fairlead: Command) -> None:
    folder = fairlead.around.cwd / "inner"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Speak Latin.")
    (folder / "note.txt").write_text("a note")
    assert fairlead("-p", "--cwd", "inner", "hi", "@note.txt").returncode == 0
    system = str(fairlead.asked["system"])
    assert "Speak Latin." in system and f"Current working directory: {folder}" in system
    done = fairlead("--mode", "rpc", "--cwd", "nowhere", input=GET_STATE)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Error: --cwd nowhere: No such file or directory.\n")


def test_add_dir_tells_the_model_about_more_directories(fairlead: Command, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    assert fairlead("-p", "--add-dir", str(tmp_path / "more"), "hi").returncode == 0
    assert f"Another directory of the workspace: {tmp_path / 'more'}" in str(fairlead.asked["system"])
    assert "there is no such directory" in fairlead("-p", "--add-dir", "nowhere", "hi").stderr


@pytest.mark.parametrize(
    ("flags", "written", "ran"),
    [
        (["--approval-mode", "always-ask"], False, False),
        (["--approval-mode", "write"], True, False),
        (["--approval-mode", "yolo"], True, True),
        (["--yolo"], True, True),
        (["--yolo", "--approval-mode", "always-ask"], False, False),
        (["--approval-mode", "yolo", "--approval", "deny"], False, False),
        (["--approval", "write"], True, False),
    ],
)
def test_approval_modes_of_omp(scripted: Scripted, flags: list[str], written: bool, ran: bool) -> None:
    fairlead = scripted(calls(("write", {"path": "a.txt", "content": "x"}), bash("touch b")), says("done"))
    assert fairlead("-p", *flags, "go").returncode == 0
    assert ((fairlead.around.cwd / "a.txt").exists(), (fairlead.around.cwd / "b").exists()) == (written, ran)


def test_the_mode_write_asks_about_files_elsewhere_and_rules_still_hold(scripted: Scripted, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "other").mkdir()
    paths = ["kept.txt", ".git/hooks/pre-commit", "more.txt", str(tmp_path / "more" / "a"), str(tmp_path / "other" / "a")]
    fairlead = scripted(calls(*(("write", {"path": path, "content": "x"}) for path in paths)), says("done"))
    rules = {"approvals": {"rules": [{"tool": "write", "pattern": "kept.txt", "action": "deny"}]}}
    (fairlead.around.home / "settings.json").write_text(json.dumps(rules))
    assert fairlead("-p", "--approval-mode", "write", "--add-dir", str(tmp_path / "more"), "go").returncode == 0
    assert [(fairlead.around.cwd / path).exists() for path in paths] == [False, False, True, True, False]


def test_max_time_aborts_the_run(scripted: Scripted) -> None:
    fairlead = scripted(calls(bash("sleep 60")), says("done"))
    begun = time.monotonic()
    done = fairlead("-p", "--max-time", "1s", "go")
    assert done.returncode == 1 and time.monotonic() - begun < 30
    assert done.stderr == "Error: The run was aborted: the time of --max-time 1s is over.\n"


def test_the_session_id_for_the_provider_is_the_one_that_hosts_see(fairlead: Command) -> None:
    flags = ["--mode", "rpc", "--dialect", "omp", "--provider-session-id", "mine-1"]
    assert state(fairlead(*flags, input=GET_STATE))["sessionId"] == "mine-1"


def test_export_writes_a_page_and_exits(fairlead: Command) -> None:
    assert fairlead("-p", "--session", "s.jsonl", "hi").returncode == 0
    done = fairlead("--as", "pi", "--export", "s.jsonl", "page.html")
    assert (done.returncode, done.stdout) == (0, "page.html\n")
    assert "Hello!" in (fairlead.around.cwd / "page.html").read_text()
    assert fairlead("--mode", "rpc", "--export", "nowhere.jsonl", input=GET_STATE).returncode == 1


def test_a_session_flag_without_a_value_resumes_the_latest(fairlead: Command) -> None:
    assert fairlead("-p", "first").returncode == 0
    assert fairlead("-p", "second", "--session").returncode == 0
    assert len(fairlead.asked["messages"]) == 3


# Tools


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--tools", "gr*,read"], ["read", "grep"]),
        (["--tools", "+grep,-write"], ["read", "bash", "edit", "grep"]),
        (["--exclude-tools", "*e*,ba*"], []),
        (["--tools", "*", "--exclude-tools", "t*,write,edit"], ["read", "bash", "grep", "find", "ls"]),
    ],
)
def test_tools_are_chosen_by_patterns_and_changes(fairlead: Command, flags: list[str], names: list[str]) -> None:
    assert fairlead("-p", "--dialect", "pi", *flags, "hi").returncode == 0
    assert [tool["name"] for tool in fairlead.asked.get("tools", [])] == names


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ("read,+grep", "--tools: tool names cannot be mixed with +name or -name entries"),
        ("+gr*", "--tools: +name and -name entries take exact tool names, not patterns: +gr*"),
    ],
)
def test_tools_that_contradict_each_other_are_an_error(fairlead: Command, tools: str, error: str) -> None:
    done = fairlead("--mode", "rpc", "--dialect", "pi", "--tools", tools, input=GET_STATE)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {error}\n")


def test_an_unknown_thinking_level_in_settings_is_not_reported_to_the_host(fairlead: Command) -> None:
    (fairlead.around.home / "settings.json").write_text('{"defaultThinkingLevel": "bogus"}')
    flags = ["--mode", "rpc", "--dialect", "pi", "--model", "fake/fake-1"]
    assert state(fairlead(*flags, input=GET_STATE))["thinkingLevel"] == "medium"
    assert "defaultThinkingLevel" in fairlead(*flags, "--verbose", input=GET_STATE).stderr


def test_settings_that_protect_and_cannot_be_used_are_still_printed(fairlead: Command) -> None:
    (fairlead.around.home / "settings.json").write_text('{"approvals": {"mode": "bogus"}}')
    assert "approvals.mode" in fairlead("--mode", "rpc", input=GET_STATE).stderr


def test_hosts_see_a_run_that_took_too_long_as_aborted(scripted: Scripted) -> None:
    fairlead = scripted(calls(bash("sleep 60")), says("done"))
    flags = ["--mode", "rpc", "--dialect", "omp", "--max-time", "1", "--on-eof", "finish"]
    begun = time.monotonic()
    done = fairlead(*flags, input='{"type":"prompt","message":"go"}\n')
    (end,) = [frame for line in done.stdout.splitlines() if (frame := json.loads(line))["type"] == "agent_end"]
    assert end["messages"][-1]["stopReason"] == "aborted" and time.monotonic() - begun < 30
