"""What a tool declares about its calls is what approval rules and stream rules look at."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, Tool, ToolContext, ToolResult, ToolSubject
from fairlead.core.messages import ToolCall, ToolResultMessage
from fairlead.session.rules.rule_keeper import RuleWatch
from fairlead.session.rules.stream_rules import Rule, RuleSource
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult.text("ran")


def tool(name: str, **declared: Any) -> Tool:
    return Tool(name, "A test.", {"type": "object"}, run, **declared)


def answer(root: Path, tool: Tool, rule: dict[str, str], arguments: dict[str, Any], mode: str = "auto") -> str:
    """The result of one call under one approval rule."""
    home = root / "home"
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_text(json.dumps({"approvals": {"mode": mode, "rules": [{"tool": tool.name, **rule}]}}))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "FAIRLEAD_HOME": str(home)}

    async def main() -> str:
        stream = Scripted([Turn(tool_calls=[ToolCall("c", tool.name, arguments)]), Turn(text="done")])
        async with Agent(model=SCRIPTED_MODEL, stream=stream, cwd=root, env=env, extra_tools=[tool]) as agent:
            await agent.ask("go")
            (result,) = [each for each in agent.session.messages if isinstance(each, ToolResultMessage)]
            return "".join(getattr(block, "text", "") for block in result.content)

    return asyncio.run(main())


DENY_RM = {"pattern": "rm *", "action": "deny"}
DENY_ENV = {"pattern": ".env", "action": "deny"}


@pytest.mark.parametrize("line", ["rm x", "true; rm x"])
def test_a_rule_about_commands_holds_for_a_tool_that_declares_a_command(tmp_path: Path, line: str) -> None:
    runner = tool("make_run", subject=ToolSubject("command", "line"))
    assert "the settings forbid it" in answer(tmp_path, runner, DENY_RM, {"line": line})
    assert answer(tmp_path, runner, DENY_RM, {"line": "ls"}) == "ran"


def test_a_call_that_the_subject_does_not_apply_to_is_a_command_that_cannot_be_read(tmp_path: Path) -> None:
    runner = tool("make_run", subject=ToolSubject("command", "line", lambda arguments: "stdin" not in arguments))
    allow = {"pattern": "ls", "action": "allow"}
    assert answer(tmp_path, runner, allow, {"line": "ls"}, mode="deny") == "ran"
    assert "the settings forbid it" in answer(tmp_path, runner, allow, {"line": "ls", "stdin": "rm x"}, mode="deny")


def test_a_rule_about_files_holds_for_a_tool_that_declares_a_path(tmp_path: Path) -> None:
    opener = tool("show", subject=ToolSubject("path", "file"))
    (tmp_path / "link").symlink_to(tmp_path / ".env")
    assert "the settings forbid it" in answer(tmp_path, opener, DENY_ENV, {"file": "link"})
    assert answer(tmp_path, opener, DENY_ENV, {"file": "other"}) == "ran"


@pytest.mark.parametrize(
    ("name", "rule", "arguments"),
    [
        ("shell", DENY_RM, {"command": "true && rm x"}),
        ("bash", DENY_RM, {"command": "true && rm x"}),
        ("read_file", DENY_ENV, {"path": "a/../.env"}),
        ("write", DENY_ENV, {"path": "a/../.env"}),
    ],
)
def test_a_tool_that_declares_nothing_has_the_subject_that_its_name_implies(
    tmp_path: Path, name: str, rule: dict[str, str], arguments: dict[str, Any]
) -> None:
    assert "the settings forbid it" in answer(tmp_path, tool(name), rule, arguments)


def matches(declared: Tool, **arguments: Any) -> bool:
    """Whether a rule about Python files matches a call with these arguments."""
    source = RuleSource("native", "fairlead", "tabs.md", "project")
    rule = Rule("tabs", "tabs.md", "No tabs.", source, condition=["^\tx"], globs=["*.py"])
    watch = RuleWatch([rule], tools=lambda: {declared.name: declared})
    watch.begin()
    return bool(watch.feed("tool", 0, json.dumps(arguments), tool=declared.name) or watch.end_block(0))


def test_stream_rules_read_the_texts_and_the_path_that_a_tool_declares() -> None:
    patch = tool("patch", subject=ToolSubject("path", "file"), file_texts=frozenset({("hunks", "text")}))
    assert matches(patch, file="a.py", hunks=[{"text": "\tx"}])
    assert matches(patch, file="a.py", hunks=json.dumps([{"text": "\tx"}]))
    assert not matches(patch, file="a.c", hunks=[{"text": "\tx"}])
    assert not matches(patch, path="a.py", hunks=[{"text": "\tx"}])
    assert not matches(patch, file="a.py", old="\tx", hunks=[{"text": "x"}])
