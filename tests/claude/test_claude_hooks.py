"""Hooks that live in the host: they decide about calls, prompts and the end of a turn, and fail closed where they protect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import MODEL, ClaudeHost, Frame, claude
from tests.claude.test_claude_prompts import run
from tests.claude.test_claude_tools import bash, is_error, reply, results, text_of
from tests.support.stage import calls

from fairlead.testing import ProviderServer

DONE = {"text": "done"}
SKIP = ("--dangerously-skip-permissions",)
ROOT = {"IS_SANDBOX": "1"}


def hook(event: str, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    return {event: [{"matcher": matcher, "hookCallbackIds": ["cb"], **more}]}


def asked(host: ClaudeHost, nth: int = 1) -> Frame:
    frame = host.until("control_request", nth=nth)
    assert frame["request"]["subtype"] == "hook_callback"
    return frame


def decide(decision: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}}


def test_a_hook_refuses_changes_and_sees_calls(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), bash("touch b"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", "Bash|Write"))
        host.say("go")
        first = asked(host)
        given = first["request"]["input"]
        assert (given["hook_event_name"], given["tool_name"], given["tool_input"]) == (
            "PreToolUse",
            "Bash",
            {"command": "touch a"},
        )
        assert given["session_id"] == first_session(host)
        host.send(reply(first, decide("deny", permissionDecisionReason="no way")))
        host.send(reply(asked(host, 2), decide("allow", updatedInput={"command": "touch c"})))
        host.until("result")
        assert host.leave() == 0
    assert text_of(results(host)[0]) == "PreToolUse:Bash hook error: no way"
    assert [path.name for path in (tmp_path / "cwd").iterdir()] == ["c"]


def first_session(host: ClaudeHost) -> str:
    return host.until("system", subtype="init")["session_id"]


@pytest.mark.parametrize("matcher", ["^(?!Read$).*", "Write,Bash", "*", "", None])
def test_matchers_that_fit(matcher: str | None, tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", matcher))
        host.say("go")
        host.send(reply(asked(host), decide("deny")))
        host.until("result")
        assert host.leave() == 0
    assert is_error(results(host)[0])


@pytest.mark.parametrize("matcher", ["Read", "bash", "(", "^Ba$"])
def test_matchers_that_do_not_fit(matcher: str, tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", matcher))
        host.ask("go")
        assert host.leave() == 0
    assert not host.of("control_request")


def test_a_hook_that_does_not_answer_refuses_the_call(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", timeout=0.2))
        host.say("go")
        question = asked(host)
        assert host.until("control_cancel_request")["request_id"] == question["request_id"]
        host.until("result")
        assert host.leave() == 0
    assert is_error(results(host)[0]) and not list((tmp_path / "cwd").iterdir())


def test_a_hook_that_cannot_be_asked_any_more_refuses_the_call(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse"))
        host.say("go")
        asked(host)
        assert host.leave() == 0
    assert is_error(results(host)[0]) and not list((tmp_path / "cwd").iterdir())


def test_hooks_about_results_prompts_and_the_end(tmp_path: Path) -> None:
    hooks = {**hook("PostToolUse"), **hook("UserPromptSubmit"), **hook("Stop")}
    with claude(tmp_path, [bash("echo hi"), {"text": "early"}, {"text": "late"}], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hooks)
        host.say("go")
        context = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "CONTEXT"}}
        host.send(reply(asked(host), context))
        result = asked(host, 2)
        assert result["request"]["input"]["tool_response"]["stdout"] == "hi"
        host.send(reply(result, {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "SEEN"}}))
        host.send(reply(asked(host, 3), {"decision": "block", "reason": "keep going"}))
        again = asked(host, 4)
        assert again["request"]["input"]["stop_hook_active"] is True
        host.send(reply(again, {}))
        assert host.until("result")["result"] == "late"
        host.say("bad")
        host.send(reply(asked(host, 5), {"decision": "block", "reason": "not allowed"}))
        blocked = host.until("result", nth=2)
        assert host.leave() == 0
    assert (blocked["subtype"], blocked["num_turns"]) == ("success", 0)
    told = json.dumps([request.body["messages"] for request in host.provider.requests])
    assert "CONTEXT" in told and "SEEN" in told and "keep going" in told and "bad" not in told


def test_rules_of_settings_protect(tmp_path: Path) -> None:
    write(tmp_path / "cwd/.claude/settings.json", {"permissions": {"deny": ["Bash(rm:*)"], "allow": ["Bash(touch a)"]}})
    write(tmp_path / "home/.claude/settings.json", {"permissions": {"allow": ["Bash(touch b)"]}})
    turns = [bash("rm -rf b"), bash("touch a"), bash("touch b"), bash("touch c"), DONE]
    flags = ("--settings", '{"permissions": {"allow": ["Bash(touch c)"]}}')
    with claude(tmp_path, turns, *flags) as host:
        host.ask("go")
        assert host.leave() == 0
    assert [is_error(frame) for frame in results(host)] == [True, True, False, False]


def test_a_hook_of_settings_that_guards_calls_is_refused_not_ignored(tmp_path: Path) -> None:
    guard = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}}
    write(tmp_path / "home/.claude/settings.json", guard)
    with ProviderServer([DONE]) as provider:
        code, out, err = run(tmp_path, provider, "--model", MODEL, "-p", "go")
        assert (code, out) == (1, "") and "hooks.PreToolUse" in err
        assert run(tmp_path, provider, "--model", MODEL, "-p", "go", "--setting-sources=")[0] == 0


def test_an_answer_may_add_a_rule_for_the_session(tmp_path: Path) -> None:
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch:*"}], "behavior": "allow"}
    with claude(
        tmp_path,
        [bash("touch a"), bash("touch b"), calls(("Write", {"file_path": "$CWD/w", "content": ""})), DONE],
        "--permission-prompt-tool",
        "stdio",
    ) as host:
        host.say("go")
        host.send(reply(host.until("control_request"), {"behavior": "allow", "updatedPermissions": [rule]}))
        last = host.until("control_request", nth=2)
        assert last["request"]["tool_name"] == "Write"
        host.send(reply(last, {"behavior": "deny", "message": "no", "interrupt": True}))
        assert host.until("result")["terminal_reason"] == "aborted_tools"
        host.leave()
    assert sorted(path.name for path in (tmp_path / "cwd").iterdir()) == ["a", "b"]


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
