"""Hooks that live in the host: they decide about calls, prompts and the end of a turn, and fail closed where they protect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import MODEL, ClaudeHost, Frame, another, claude
from tests.claude.test_claude_prompts import run
from tests.claude.test_claude_tools import bash, is_error, reply, results, text_of
from tests.support.stage import calls

from fairlead.config.home import Home
from fairlead.config.trust import save_decision
from fairlead.testing import ProviderServer

DONE = {"text": "done"}
SKIP = ("--dangerously-skip-permissions",)
ROOT = {"IS_SANDBOX": "1"}


def hook(event: str, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    return {event: [{"matcher": matcher, "hookCallbackIds": ["cb"], **more}]}


def wait_for_hook(host: ClaudeHost, nth: int = 1) -> Frame:
    frame = host.until("control_request", nth=nth)
    assert frame["request"]["subtype"] == "hook_callback"
    return frame


def decide(decision: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}}


def test_a_hook_refuses_changes_and_sees_calls(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), bash("touch b"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", "Bash|Write"))
        host.say("go")
        first = wait_for_hook(host)
        given = first["request"]["input"]
        assert (given["hook_event_name"], given["tool_name"], given["tool_input"]) == (
            "PreToolUse",
            "Bash",
            {"command": "touch a"},
        )
        assert given["session_id"] == first_session(host)
        host.send(reply(first, decide("deny", permissionDecisionReason="no way")))
        host.send(reply(wait_for_hook(host, 2), decide("allow", updatedInput={"command": "touch c"})))
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
        host.send(reply(wait_for_hook(host), decide("deny")))
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
        question = wait_for_hook(host)
        assert host.until("control_cancel_request")["request_id"] == question["request_id"]
        host.until("result")
        assert host.leave() == 0
    assert is_error(results(host)[0]) and not list((tmp_path / "cwd").iterdir())


def test_a_hook_that_cannot_be_asked_any_more_refuses_the_call(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse"))
        host.say("go")
        wait_for_hook(host)
        assert host.leave() == 0
    assert is_error(results(host)[0]) and not list((tmp_path / "cwd").iterdir())


def test_hooks_about_results_prompts_and_the_end(tmp_path: Path) -> None:
    hooks = {**hook("PostToolUse"), **hook("UserPromptSubmit"), **hook("Stop")}
    with claude(tmp_path, [bash("echo hi"), {"text": "early"}, {"text": "late"}], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hooks)
        host.say("go")
        context = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "CONTEXT"}}
        host.send(reply(wait_for_hook(host), context))
        result = wait_for_hook(host, 2)
        assert result["request"]["input"]["tool_response"]["stdout"] == "hi"
        host.send(reply(result, {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "SEEN"}}))
        host.send(reply(wait_for_hook(host, 3), {"decision": "block", "reason": "keep going"}))
        again = wait_for_hook(host, 4)
        assert again["request"]["input"]["stop_hook_active"] is True
        host.send(reply(again, {}))
        assert host.until("result")["result"] == "late"
        host.say("bad")
        host.send(reply(wait_for_hook(host, 5), {"decision": "block", "reason": "not allowed"}))
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


def test_a_guard_of_settings_that_cannot_run_is_refused_not_ignored(tmp_path: Path) -> None:
    guard = {"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "Is this harmless?"}]}]}}
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


# Other events


def specific(event: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **more}}


def test_hooks_of_an_event_are_asked_side_by_side_and_the_strictest_wins(tmp_path: Path) -> None:
    groups = {"PreToolUse": [{"hookCallbackIds": ["a", "b"]}, {"matcher": "Bash", "hookCallbackIds": ["c"]}]}
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=groups)
        host.say("go")
        first, second, third = (wait_for_hook(host, nth) for nth in (1, 2, 3))
        host.send(reply(third, decide("allow")))
        host.send(reply(second, decide("deny", permissionDecisionReason="b says no")))
        host.send(reply(first, decide("ask")))
        host.until("result")
        assert host.leave() == 0
    assert text_of(results(host)[0]).endswith("b says no") and not list((tmp_path / "cwd").iterdir())


def test_a_hook_that_allows_does_not_overrule_rules(tmp_path: Path) -> None:
    settings = json.dumps({"permissions": {"deny": ["Bash(touch a)"], "ask": ["Bash(touch b)"]}})
    turns = [bash("touch a"), bash("touch b"), bash("touch c"), DONE]
    with claude(tmp_path, turns, "--settings", settings) as host:
        host.control("initialize", hooks=hook("PreToolUse"))
        host.say("go")
        for nth in (1, 2, 3):
            host.send(reply(wait_for_hook(host, nth), decide("allow")))
        host.until("result")
        assert host.leave() == 0
    assert [path.name for path in (tmp_path / "cwd").iterdir()] == ["c"]


@pytest.mark.parametrize("on_failure", [None, "block"])
def test_a_failing_hook_is_silent_unless_it_has_to_block(on_failure: str | None, tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", **({} if on_failure is None else {"onFailure": on_failure})))
        host.say("go")
        question = wait_for_hook(host)
        failed = {"subtype": "error", "request_id": question["request_id"], "error": "it broke"}
        host.send({"type": "control_response", "response": failed})
        host.until("result")
        assert host.leave() == 0
    assert is_error(results(host)[0]) is (on_failure is not None)
    assert any("it broke" in frame["content"] for frame in host.of("system", subtype="informational"))


def test_a_matcher_that_would_never_end_does_not_hold_up_calls(tmp_path: Path) -> None:
    with claude(tmp_path, [calls(("Bash", {"command": "touch a"})), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse", r"(?=(\w+)+$)(B+a*s*h*)+!"))
        host.ask("go")
        assert host.leave() == 0


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"])
def test_an_interrupt_does_not_wait_for_a_hook(event: str, tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook(event))
        host.say("go")
        question = wait_for_hook(host)
        host.control("interrupt")
        assert host.until("control_cancel_request")["request_id"] == question["request_id"]
        assert host.until("result")["subtype"] == "error_during_execution"
        host.send(reply(question, {}))
        assert host.leave() == 1


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop"])
def test_the_end_of_input_does_not_wait_for_a_hook(event: str, tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook(event))
        host.say("go")
        wait_for_hook(host)
        assert host.leave() == 0
    assert host.of("result")[0]["result"] == "done"


def test_a_hook_may_decide_instead_of_the_host(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), bash("touch b"), DONE]) as host:
        host.control("initialize", hooks=hook("PermissionRequest", "Bash"))
        host.say("go")
        first = wait_for_hook(host)
        assert first["request"]["input"]["tool_input"] == {"command": "touch a"}
        assert first["request"]["input"]["permission_suggestions"]
        rule = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
        changed = {"behavior": "allow", "updatedInput": {"command": "touch c"}, "updatedPermissions": [rule]}
        host.send(reply(first, specific("PermissionRequest", decision=changed)))
        host.until("result")
        assert host.leave() == 0
    assert sorted(path.name for path in (tmp_path / "cwd").iterdir()) == ["b", "c"]


def test_the_first_answer_to_a_call_counts(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], "--permission-prompt-tool", "stdio") as host:
        host.control("initialize", hooks=hook("PermissionRequest"))
        host.say("go")
        both = [host.until("control_request", nth=nth) for nth in (1, 2)]
        (to_hook,) = (frame for frame in both if frame["request"]["subtype"] == "hook_callback")
        (to_host,) = (frame for frame in both if frame["request"]["subtype"] == "can_use_tool")
        host.send(reply(to_hook, specific("PermissionRequest", decision={"behavior": "deny", "message": "the hook says no"})))
        assert host.until("control_cancel_request")["request_id"] == to_host["request_id"]
        host.send(reply(to_host, {"behavior": "allow"}))
        host.until("result")
        assert host.leave() == 0
    assert "the hook says no" in text_of(results(host)[0]) and not list((tmp_path / "cwd").iterdir())


def test_sub_agents_have_hooks_of_their_own(tmp_path: Path) -> None:
    agent = calls(("Agent", {"description": "Look", "prompt": "look around", "run_in_background": False}))
    hooks = {**hook("SubagentStart", "general-purpose"), **hook("SubagentStop"), **hook("PreToolUse", "Bash")}
    turns = [agent, bash("touch a"), {"text": "early"}, {"text": "late"}, DONE]
    with claude(tmp_path, turns, *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hooks)
        host.say("go")
        start = wait_for_hook(host)
        given = start["request"]["input"]
        assert (given["hook_event_name"], given["agent_type"]) == ("SubagentStart", "general-purpose")
        host.send(reply(start, specific("SubagentStart", additionalContext="MIND THE GAP")))
        call = wait_for_hook(host, 2)
        assert call["request"]["input"]["agent_id"] == given["agent_id"]
        assert call["request"]["input"]["agent_type"] == "general-purpose"
        host.send(reply(call, {}))
        stop = wait_for_hook(host, 3)
        assert stop["request"]["input"]["last_assistant_message"] == "early"
        host.send(reply(stop, {"decision": "block", "reason": "look again"}))
        again = wait_for_hook(host, 4)
        assert again["request"]["input"]["stop_hook_active"] is True
        host.send(reply(again, {}))
        assert host.until("result")["result"] == "done"
        assert host.leave() == 0
    told = [json.dumps(request.body["messages"]) for request in host.provider.requests]
    assert "MIND THE GAP" in told[1] and "look again" in told[3] and "late" in told[4]


def test_a_hook_may_prevent_a_compaction_and_hears_of_others(tmp_path: Path) -> None:
    hooks = {**hook("PreCompact", "manual"), **hook("PostCompact"), **hook("SessionStart", "compact|clear")}
    with claude(tmp_path, [{"text": "one"}, {"text": "SUMMARY"}, DONE]) as host:
        host.control("initialize", hooks=hooks)
        host.ask("go")
        host.say("/compact be brief")
        before = wait_for_hook(host)
        assert before["request"]["input"] | {"trigger": "manual", "custom_instructions": "be brief"} == before["request"]["input"]
        host.send(reply(before, {"decision": "block", "reason": "not now"}))
        host.until("result", nth=2)
        assert not host.of("system", subtype="compact_boundary")
        host.say("/compact")
        host.send(reply(wait_for_hook(host, 2), {}))
        after = wait_for_hook(host, 3)
        assert "SUMMARY" in after["request"]["input"]["compact_summary"]
        host.send(reply(after, {}))
        started = wait_for_hook(host, 4)
        assert started["request"]["input"]["source"] == "compact"
        host.send(reply(started, {}))
        host.until("result", nth=3)
        host.say("/clear")
        cleared = wait_for_hook(host, 5)
        assert (cleared["request"]["input"]["hook_event_name"], cleared["request"]["input"]["source"]) == (
            "SessionStart",
            "clear",
        )
        host.send(reply(cleared, {}))
        host.until("result", nth=4)
        assert host.leave() == 0


def test_a_hook_hears_of_all_calls_of_an_answer(tmp_path: Path) -> None:
    both = calls(("Bash", {"command": "echo one"}), ("Bash", {"command": "echo two"}))
    with claude(tmp_path, [both, DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PostToolBatch"))
        host.say("go")
        question = wait_for_hook(host)
        told = question["request"]["input"]["tool_calls"]
        assert [call["tool_input"]["command"] for call in told] == ["echo one", "echo two"]
        assert told[1]["tool_response"]["stdout"] == "two"
        host.send(reply(question, specific("PostToolBatch", additionalContext="SEEN BOTH")))
        host.until("result")
        assert host.leave() == 0
    assert "SEEN BOTH" in json.dumps(host.provider.requests[1].body["messages"])


def test_a_call_that_is_put_off_ends_the_turn(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse"))
        host.say("go")
        host.send(reply(wait_for_hook(host), decide("defer")))
        result = host.until("result")
        assert host.leave() == 0
    assert result["terminal_reason"] == "tool_deferred" and not result["is_error"]
    assert result["deferred_tool_use"]["name"] == "Bash" and result["deferred_tool_use"]["input"] == {"command": "touch a"}
    assert not list((tmp_path / "cwd").iterdir())


def test_an_output_of_another_shape_is_not_used(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("echo hi"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PostToolUse"))
        host.say("go")
        host.send(reply(wait_for_hook(host), specific("PostToolUse", updatedToolOutput=["no"])))
        host.until("result")
        assert host.leave() == 0
    assert results(host)[0]["tool_use_result"]["stdout"] == "hi"


def test_hooks_of_another_form_are_refused(tmp_path: Path) -> None:
    with claude(tmp_path, [DONE]) as host:
        answer = host.control("initialize", hooks={"PreToolUse": [{"matcher": 7, "hookCallbackIds": ["cb"]}]})
        assert answer["subtype"] == "error" and "matcher" in answer["error"]
        assert host.leave() == 0


# Commands


def settings(*commands: tuple[str, str, str], **more: Any) -> tuple[str, str]:
    """The flag with hooks: an event, a matcher and a command each."""
    hooks: dict[str, Any] = {}
    for event, matcher, command in commands:
        hooks.setdefault(event, []).append({"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]})
    return "--settings", json.dumps({"hooks": hooks})


def test_a_command_gets_the_input_and_may_block(tmp_path: Path) -> None:
    guard = 'cat > seen.json; echo "$CLAUDE_PROJECT_DIR" > dir; echo "not that" >&2; exit 2'
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, *settings(("PreToolUse", "Bash", guard)), env=ROOT) as host:
        host.ask("go")
        assert host.leave() == 0
    assert text_of(results(host)[0]) == "PreToolUse:Bash hook error: not that"
    given = json.loads((tmp_path / "cwd" / "seen.json").read_text())
    assert (given["hook_event_name"], given["tool_input"]) == ("PreToolUse", {"command": "touch a"})
    assert (tmp_path / "cwd" / "dir").read_text().strip() == str(tmp_path / "cwd")
    assert not (tmp_path / "cwd" / "a").exists()


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("true", True),
        ("echo fine", True),
        ("exit 1", True),
        ("echo '{}'", True),
        ("""echo '{"hookSpecificOutput": {"permissionDecision": "deny"}}'""", False),
        ("""echo '{"decision": "block", "reason": "no"}'""", False),
        ("echo '{\"decision\": '", False),
        ("sleep 30", False),
        ("kill -9 $$", False),
        ("yes | head -c 1000000", False),
    ],
)
def test_what_a_command_answers(command: str, runs: bool, tmp_path: Path) -> None:
    flags = settings(("PreToolUse", "", command), timeout=1)
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, *flags, env=ROOT) as host:
        host.ask("go")
        assert host.leave() == 0
    assert (tmp_path / "cwd" / "a").exists() is runs


def test_commands_for_prompts_and_ends(tmp_path: Path) -> None:
    flags = settings(
        ("SessionStart", "", "echo FROM THE START"),
        ("UserPromptSubmit", "", "echo FROM THE PROMPT"),
        ("Stop", "", "test -e stopped || { touch stopped; echo once more >&2; exit 2; }"),
    )
    with claude(tmp_path, [{"text": "early"}, DONE], *flags, "--include-hook-events") as host:
        assert host.ask("go")["result"] == "done"
        assert host.leave() == 0
    told = [json.dumps(request.body["messages"]) for request in host.provider.requests]
    assert "FROM THE START" in told[0] and "FROM THE PROMPT" in told[0] and "once more" in told[1]
    started = [frame["hook_name"] for frame in host.of("system", subtype="hook_started")]
    assert started == ["SessionStart:startup", "UserPromptSubmit", "Stop", "Stop"]
    assert [frame["exit_code"] for frame in host.of("system", subtype="hook_response")] == [0, 0, 2, 0]


def test_an_interrupt_ends_a_command(tmp_path: Path) -> None:
    flags = settings(("PreToolUse", "", "touch begun; sleep 60"))
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, *flags, "--include-hook-events", env=ROOT) as host:
        host.say("go")
        host.until("system", subtype="hook_started")
        host.control("interrupt")
        assert host.until("result")["terminal_reason"] == "aborted_tools"
        assert host.leave() == 1
    assert not (tmp_path / "cwd" / "a").exists()


def test_commands_of_a_project_that_is_not_trusted_do_not_run(tmp_path: Path) -> None:
    evil = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch evil"}]}]}}
    for name in ("settings.json", "settings.local.json"):
        write(tmp_path / "cwd/.claude" / name, evil)
    with claude(tmp_path, [DONE]) as host:
        host.ask("go")
        assert host.leave() == 0
    assert not (tmp_path / "cwd" / "evil").exists()


def test_commands_that_a_project_got_after_it_was_trusted_do_not_run(tmp_path: Path) -> None:
    settings = tmp_path / "cwd/.claude/settings.json"
    write(settings, {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo known >> ran"}]}]}})
    save_decision(Home(tmp_path / "home/.fairlead"), tmp_path / "cwd", True)
    with claude(tmp_path, [DONE, DONE]) as host:
        host.ask("go")
        assert host.leave() == 0
        write(settings, {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo new >> ran"}]}]}})
        with another(host) as other:
            other.ask("go")
            assert any("not trusted: hooks" in frame["content"] for frame in other.of("system", subtype="informational"))
            assert other.leave() == 0
    assert (tmp_path / "cwd" / "ran").read_text() == "known\n"


def test_a_question_that_waits_for_long_is_a_notification(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("touch a"), DONE], "--permission-prompt-tool", "stdio") as host:
        host.control("initialize", hooks=hook("Notification", "permission_prompt"))
        host.say("go")
        question = host.until("control_request")
        notice = wait_for_hook(host, 2)
        assert notice["request"]["input"]["notification_type"] == "permission_prompt"
        assert "Bash" in notice["request"]["input"]["message"]
        host.send(reply(question, {"behavior": "allow"}))
        host.until("result")
        assert host.leave() == 0


def test_callbacks_are_not_called_when_a_session_begins(tmp_path: Path) -> None:
    with claude(tmp_path, [DONE]) as host:
        host.control("initialize", hooks=hook("SessionStart"))
        host.ask("go")
        assert host.leave() == 0
    assert not host.of("control_request")


def test_the_host_says_how_long_its_hooks_may_take(tmp_path: Path) -> None:
    write(tmp_path / "home/.fairlead/settings.json", {"extensionTimeoutSeconds": 0.01})
    with claude(tmp_path, [bash("touch a"), DONE], *SKIP, env=ROOT) as host:
        host.control("initialize", hooks=hook("PreToolUse"))
        host.say("go")
        question = wait_for_hook(host)
        for _ in range(30):
            host.control("get_settings")
        host.send(reply(question, {}))
        host.until("result")
        assert host.leave() == 0
    assert [path.name for path in (tmp_path / "cwd").iterdir()] == ["a"]
