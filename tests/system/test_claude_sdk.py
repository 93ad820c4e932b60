"""Hosts that use claude-agent-sdk, in Python and in TypeScript, start this program instead of Claude Code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from tests.claude.host import environment
from tests.support.stage import ENDLESS, Turn, calls, says

from fairlead.testing import ProviderServer

pytestmark = pytest.mark.system

LIMIT = 240
HERE = Path(__file__).parent


def launcher(work: Path) -> Path:
    """Write the program that hosts start."""
    made = [sys.executable, "-m", "fairlead", "shim", "claude", str(work / "bin")]
    subprocess.run(made, check=True, capture_output=True)
    return work / "bin" / "claude"


def host(work: Path, command: Sequence[str], provider: ProviderServer, cli: str | Path | None = None, *more: str) -> Any:
    for folder in ("home", "cwd", "tmp"):
        (work / folder).mkdir(exist_ok=True)
    words = [*command, str(cli or launcher(work)), str(work / "cwd"), *more]
    env = {**environment(work, provider), "PATH": f"{peers.node().parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=work, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def python(what: str) -> list[str]:
    return [*peers.CLAUDE_PYTHON.command(), str(HERE / "claude_python_host.py"), what]


def typescript(what: str) -> list[str]:
    return [str(peers.node()), str(HERE / "claude_host.mjs"), *peers.CLAUDE_TYPESCRIPT.command(), what]


#: Returns the command that runs a flow.
Sdk = Callable[[str], list[str]]
both_sdks = pytest.mark.parametrize("sdk", [python, typescript])
BASH = calls(("Bash", {"command": "mkdir a"}))
WRITE = calls(("Write", {"file_path": "$CWD/w.txt", "content": "x"}))


def play(work: Path, command: Sequence[str], turns: Sequence[Turn], *more: str, loop: bool = False) -> tuple[Any, ProviderServer]:
    script = json.loads(json.dumps(list(turns)).replace("$CWD", str(work / "cwd")))
    with ProviderServer(script, loop=loop) as provider:
        return host(work, command, provider, None, *more), provider


def test_one_shot_with_a_tool(tmp_path: Path) -> None:
    turns = [BASH, says("done")]
    seen, _ = play(tmp_path, python("one_shot"), turns)
    assert (seen["result"], seen["turns"], seen["error"]) == ("done", 2, False)
    assert seen["cost"] > 0
    (tmp_path / "ts").mkdir()
    seen, _ = play(tmp_path / "ts", typescript("oneShot"), turns)
    assert seen == {"result": "done", "turns": 2}


def test_pieces_of_answers(tmp_path: Path) -> None:
    seen, _ = play(tmp_path, python("partial"), [says("Hello there, friend.")])
    assert seen == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "assistant",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


@both_sdks
def test_prompts_models_and_interrupts_in_one_process(sdk: Sdk, tmp_path: Path) -> None:
    command = sdk("streaming")
    # The interrupt may come before the second request is sent.
    seen, provider = play(tmp_path, command, [says("third", match="three"), says("first"), ENDLESS])
    assert sorted(map(str, seen)) == sorted(["True", "first", "error_during_execution", "third"])
    assert [provider.requests[at].body["model"] for at in (0, -1)] == ["claude-sonnet-4-5", "claude-haiku-4-5"]


@both_sdks
def test_the_host_decides_about_calls(sdk: Sdk, tmp_path: Path) -> None:
    command = sdk("consent")
    seen, provider = play(tmp_path, command, [BASH, WRITE, says("done")])
    assert [name for name, _ in seen["asked"]] == ["Bash", "Write"]
    assert "changed" in json.dumps(provider.requests[1].body) and "Not today" in json.dumps(provider.requests[2].body)
    assert not list((tmp_path / "cwd").iterdir())
    assert "Write" in json.dumps(seen["denied"])


def test_every_hook_of_the_python_sdk_is_called(tmp_path: Path) -> None:
    agent = calls(("Agent", {"description": "x", "prompt": "CHILD", "subagent_type": "helper", "run_in_background": False}))
    turns = [
        calls(("Bash", {"command": "echo hi"})),
        calls(("Bash", {"command": "rm x"})),
        calls(("Read", {"file_path": "$CWD/none"})),
        WRITE,
        calls(("Write", {"file_path": "$CWD/w2.txt", "content": "x"})),
        agent,
        says("helped"),
        says("done"),
        says("SUMMARY"),
    ]
    seen, provider = play(tmp_path, python("hooks"), turns)
    names = {*"PreToolUse PostToolUse PostToolUseFailure UserPromptSubmit Stop SubagentStop PreCompact".split()}
    assert set(seen["seen"]) == names | {"Notification", "SubagentStart", "PermissionRequest"}
    assert seen["seen"].count("PermissionRequest") == 1, "the suggestion that came back makes the second question unnecessary"
    assert seen["results"][0] == "done"
    assert "SEEN" in json.dumps(provider.requests[1].body) and "keep x" in json.dumps(provider.requests[2].body)
    assert sorted(path.name for path in (tmp_path / "cwd").iterdir()) == ["w.txt", "w2.txt"]


def test_hooks_of_the_typescript_sdk_are_called(tmp_path: Path) -> None:
    turns = [
        calls(("Bash", {"command": "rm x"})),
        calls(("Read", {"file_path": "$CWD/none"})),
        WRITE,
        calls(("Write", {"file_path": "$CWD/w2.txt", "content": "x"})),
        says("done"),
    ]
    seen, provider = play(tmp_path, typescript("hooks"), turns)
    names = "PreToolUse PostToolUse PostToolUseFailure UserPromptSubmit Stop PermissionRequest PostToolBatch"
    assert (set(seen["seen"]), seen["result"]) == (set(names.split()), "done")
    assert "keep x" in json.dumps(provider.requests[1].body)
    assert sorted(path.name for path in (tmp_path / "cwd").iterdir()) == ["w.txt", "w2.txt"]


@both_sdks
def test_structured_output(sdk: Sdk, tmp_path: Path) -> None:
    command = sdk("structured")
    seen, _ = play(tmp_path, command, [calls(("StructuredOutput", {"answer": "x"})), calls(("StructuredOutput", {"answer": 42}))])
    assert seen == {"answer": 42}


def test_a_refused_key_is_an_exception_at_once(tmp_path: Path) -> None:
    seen, provider = play(tmp_path, python("failing"), [{"status": 401, "error": "who are you?"}])
    assert seen is not None and "401" in seen[1]
    assert len(provider.requests) == 1


def test_the_functions_of_the_sdk_work_on_our_sessions(tmp_path: Path) -> None:
    seen, _ = play(
        tmp_path, python("sessions"), [calls(("Bash", {"command": "echo hi"})), *[says(f"answer {n}") for n in range(1, 6)]]
    )
    assert seen["listed"] == [True, "first"]
    assert [kind for kind, _ in seen["said"]] == ["user", "assistant", "user", "assistant"]
    assert seen["said"][-1] == ["assistant", [{"type": "text", "text": "answer 1"}]]
    assert seen["ids"] == [True, True, True] and seen["continued"]
    assert (seen["titles"], seen["left"]) == (["New title"], 2)
    (tmp_path / "ts").mkdir()
    seen, _ = play(tmp_path / "ts", typescript("sessions"), [says("ok")])
    assert seen == {"ids": [True, True], "listed": 2, "said": ["user", "assistant", "user", "assistant"]}


def test_sessions_of_claude_code_resume_here_and_ours_there(tmp_path: Path) -> None:
    sdk = Path(peers.CLAUDE_PYTHON.command()[0]).parent.parent
    [real] = sdk.glob("lib/python*/site-packages/claude_agent_sdk/_bundled/claude")
    with ProviderServer([{"text": f"answer {number}"} for number in range(1, 12)]) as provider:
        for begins, resumes in ((None, real), (real, None)):
            host(tmp_path, python("one_shot"), provider, begins)
            [session] = (tmp_path / "home/.claude/projects").glob("*/*.jsonl")
            seen = host(tmp_path, python("resume"), provider, resumes, session.stem)
            assert seen[0]
            body = next(request.body for request in reversed(provider.requests) if "more" in json.dumps(request.body["messages"]))
            assert "go" in json.dumps(body["messages"]) and "answer" in json.dumps(body["messages"])
            session.unlink()


def test_a_thousand_prompts_in_one_process(tmp_path: Path) -> None:
    seen, _ = play(tmp_path, python("many"), [says("ok")], loop=True)
    assert seen["count"] == 1000
    early, late = seen["weights"]
    assert late["threads"] <= early["threads"] and late["files"] <= early["files"] + 4
    # The conversation itself, of 2,000 messages, is kept.
    assert late["memory"] - early["memory"] < 24 * 1024, seen


def test_a_thousand_prompts_of_typescript_in_one_process(tmp_path: Path) -> None:
    seen, _ = play(tmp_path, typescript("many"), [says("ok")], loop=True)
    assert seen == 1000


@both_sdks
def test_turns_and_budgets_end_a_run(sdk: Sdk, tmp_path: Path) -> None:
    seen, _ = play(tmp_path, sdk("limits"), [calls(("Bash", {"command": "true"}))], loop=True)
    ends: list[Any] = [each[:2] for each in seen if isinstance(each, list)]
    assert ends == [["error_max_turns", True], ["error_max_budget_usd", True]]
    assert [each for each in seen if isinstance(each, str)]  # the exit code becomes an exception


def test_pieces_of_answers_reach_typescript(tmp_path: Path) -> None:
    seen, _ = play(tmp_path, typescript("partial"), [says("Hello there, friend.")])
    assert {"message_start", "content_block_delta", "assistant", "message_stop", "result"} <= set(seen)
    assert seen.index("content_block_delta") < seen.index("assistant") < seen.index("content_block_stop")


def test_a_command_can_be_interrupted(tmp_path: Path) -> None:
    turns = [calls(("Bash", {"command": "sleep 100"})), says("next")]
    seen, _ = play(tmp_path, python("interrupt_tool"), turns)
    assert seen == ["error_during_execution", "next"]


def test_a_host_keeps_sessions_in_a_store(tmp_path: Path) -> None:
    seen, provider = play(tmp_path, python("store"), [says("one"), says("two")])
    assert seen["same"] and seen["result"] == "two" and seen["sizes"] >= 4
    assert "first" in json.dumps(provider.requests[-1].body["messages"])


def test_files_of_the_project_reach_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "cwd/.claude/commands").mkdir(parents=True)
    (tmp_path / "cwd/.claude/agents").mkdir()
    (tmp_path / "cwd/.claude/commands/greet.md").write_text("Say hello to $1.")
    (tmp_path / "cwd/.claude/agents/reviewer.md").write_text("---\nname: reviewer\ndescription: Reviews\n---\nYou review.")
    seen, provider = play(tmp_path, python("files"), [says("hello")])
    assert seen["greet"] and "reviewer" in seen["agents"] and seen["results"] == ["hello"]
    assert "Say hello to Bob." in json.dumps(provider.requests[0].body["messages"])


def test_session_files_change_while_the_agent_runs_and_are_torn(tmp_path: Path) -> None:
    with ProviderServer([says("ok")], loop=True) as provider:
        seen = host(tmp_path, python("while_it_runs"), provider, None, str(tmp_path / "home/.claude"))
    assert seen == {
        "listed": ["While it runs", "mine"],
        "said": 4,
        "torn": 4,
        "resumed": [True, 6],
        "forked": [True, 4],
        "title": "While it runs",
    }


def test_the_functions_of_the_typescript_sdk_work_on_our_sessions(tmp_path: Path) -> None:
    seen, _ = play(tmp_path, typescript("functions"), [says("one"), says("two")])
    assert seen == {"info": ["New title", "mine", "first"], "resumed": [True, "two"], "left": [2, 1]}


ADD = calls(("mcp__calc__add", {"a": 2, "b": 3}), ("mcp__calc__fail", {}))


def test_tools_in_a_python_host(tmp_path: Path) -> None:
    turns = [ADD, calls(("mcp__calc__draw", {})), says("done"), calls(("mcp__calc__wait", {}))]
    seen, provider = play(tmp_path, python("servers"), turns)
    added, failed, drawn, *_ = seen["results"]
    assert added == [{"type": "text", "text": "5"}] and "it broke" in failed
    assert drawn[0]["type"] == "image" and drawn[0]["source"]["data"] in json.dumps(provider.requests[2].body)
    assert seen["status"] == ["calc", "connected", ["add", "draw", "fail", "wait"]]
    assert (seen["interrupted"], seen["ended"], seen["off"]) == (["error_during_execution"], ["wait"], "disabled")


def test_tools_in_a_typescript_host(tmp_path: Path) -> None:
    zod = Path(peers.CLAUDE_AI_SDK.command()[0]) / "zod" / "index.js"
    seen, _ = play(tmp_path, typescript("servers"), [ADD, says("done")], str(zod))
    assert json.loads(seen["results"][0]) == {"sum": 5} and "it broke" in seen["results"][1]
    assert seen["status"] == [["calc", "connected", ["add", "fail"]]]


AGENT: Turn = {"match": "PARENT", **calls(("Agent", {"description": "d", "prompt": "SUBTASK", "subagent_type": "reviewer"}))}
SUBTASK: Turn = {"match": "SUBTASK", **calls(("Bash", {"command": "echo from sub"}))}


def test_sub_agents_of_hosts_and_their_transcripts(tmp_path: Path) -> None:
    turns = [AGENT, SUBTASK, says("Sub done."), says("Parent done.")]
    seen, _ = play(tmp_path, python("agents"), turns)
    assert seen["said"] == [["user", True], ["assistant", True], ["user", True], ["assistant", True]]
    assert seen["main"] == ["user", "assistant", "user", "assistant"]
    assert {"TaskStartedMessage", "TaskNotificationMessage", "AssistantMessage", "UserMessage"} <= set(seen["seen"])
    (tmp_path / "ts").mkdir()
    seen, _ = play(tmp_path / "ts", typescript("agents"), turns)
    assert seen["said"] == ["user", "assistant", "user", "assistant"]
    assert {"task_started", "task_notification", "assistant", "user"} <= set(seen["seen"])
