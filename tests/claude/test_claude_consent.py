"""Consent: what the host is asked about calls, what its answers may change, and what needs no question."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import ClaudeHost, Frame, another, claude
from tests.claude.test_claude_tools import bash, is_error, reply, results, text_of
from tests.support.stage import Turn, calls

DONE: Turn = {"text": "done"}
STDIO = ("--permission-prompt-tool", "stdio")
ALLOW: dict[str, Any] = {"behavior": "allow"}


def wait_for_question(host: ClaudeHost, nth: int = 1) -> Frame:
    frame = host.until("control_request", nth=nth)
    assert frame["request"]["subtype"] == "can_use_tool"
    return frame


def write(name: str) -> Turn:
    return calls(("Write", {"file_path": name, "content": "x\n"}))


def read(name: str) -> Turn:
    return calls(("Read", {"file_path": name}))


def play(work: Path, turns: list[Turn], *flags: str, answer: dict[str, Any] | None = None) -> ClaudeHost:
    """Let the model take these turns, and answer every question in the same way."""
    with claude(work, [*turns, DONE], *STDIO, *flags) as host:
        host.say("go")
        seen = 0
        while not host.of("result"):
            more = seen + 1
            host.wait_for(lambda f, more=more: f["type"] == "result" or len(host.of("control_request")) >= more, "a question")
            for question in host.of("control_request")[seen:]:
                host.send(reply(question, answer or {"behavior": "deny", "message": "no"}))
                seen += 1
        assert host.leave() == 0
    return host


def names(host: ClaudeHost) -> list[str]:
    return sorted(path.name for path in (host.work / "cwd").iterdir())


# What the host sees


def test_a_question_says_what_would_make_it_unnecessary(tmp_path: Path) -> None:
    outside = tmp_path / "out"
    outside.mkdir()
    (outside / "a.txt").write_text("a")
    turns = [
        bash("mkdir made", description="Make it"),
        bash("git push origin main"),
        bash("make; ls *"),
        write("$CWD/w.txt"),
        write(str(outside / "w.txt")),
        read(str(outside / "a.txt")),
    ]
    host = play(tmp_path, turns)
    made, push, unclear, inside, away, look = [frame["request"] for frame in host.of("control_request")]
    cwd = str(tmp_path / "cwd")
    edits = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    assert made["description"] == "Make it" and made["blocked_path"] == f"{cwd}/made"
    rule = {"toolName": "Bash", "ruleContent": "mkdir made *"}
    assert made["permission_suggestions"] == [
        {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"},
        {"type": "addDirectories", "directories": [cwd], "destination": "session"},
        edits,
    ]
    assert push["permission_suggestions"][0]["rules"] == [{"toolName": "Bash", "ruleContent": "git push *"}]
    assert "permission_suggestions" not in unclear, "a rule with a wildcard of the command would cover other commands"
    assert inside["permission_suggestions"] == [edits] and inside["description"] == "w.txt" and "blocked_path" not in inside
    assert away["blocked_path"] == str(outside / "w.txt")
    assert away["permission_suggestions"][0] == {
        "type": "addDirectories",
        "directories": [str(outside)],
        "destination": "session",
    }
    (readable,) = look["permission_suggestions"]
    assert readable["rules"] == [{"toolName": "Read", "ruleContent": f"/{outside}/**"}]


def test_paths_in_a_question_are_absolute(tmp_path: Path) -> None:
    host = play(tmp_path, [write("sub/../w.txt")], answer=ALLOW)
    assert host.of("control_request")[0]["request"]["input"]["file_path"] == str(tmp_path / "cwd" / "w.txt")
    assert names(host) == ["w.txt"]


def test_a_suggestion_that_comes_back_makes_the_next_question_unnecessary(tmp_path: Path) -> None:
    outside = tmp_path / "out"
    outside.mkdir()
    for name in "ab":
        (outside / name).write_text(name)
    with claude(tmp_path, [read(str(outside / "a")), read(str(outside / "b")), DONE], *STDIO) as host:
        host.say("go")
        question = wait_for_question(host)
        host.send(reply(question, {**ALLOW, "updatedPermissions": question["request"]["permission_suggestions"]}))
        host.until("result")
        assert host.leave() == 0
    assert len(host.of("control_request")) == 1 and not any(map(is_error, results(host)))


# What needs no question


def test_reading_is_free_inside_and_asked_about_outside(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / "in.txt").write_text("in")
    (tmp_path / "secret.txt").write_text("secret")
    for name in ("link.txt", "-n"):
        (tmp_path / "cwd" / name).symlink_to(tmp_path / "secret.txt")
    outside = [
        "cat -- -n",
        "grep -c -- s -n",
        "cat ../secret.txt",
        "cat link.txt",
        f"head {tmp_path}/secret.txt",
        "cat in.txt > copy.txt",
        "cat in.txt; make",
    ]
    inside = ["cat in.txt", "ls", "echo hi | wc -l", "pwd && grep -n i in.txt"]
    turns = [bash(command) for command in (*inside, *outside)]
    host = play(tmp_path, [*turns, read("$CWD/link.txt"), calls(("Glob", {"pattern": f"{tmp_path}/*.txt"}))])
    assert [is_error(frame) for frame in results(host)] == [False] * len(inside) + [True] * (len(outside) + 2)
    assert len(host.of("control_request")) == len(outside) + 2


def test_accept_edits_covers_commands_that_change_files_inside(tmp_path: Path) -> None:
    (tmp_path / "cwd" / "real").mkdir(parents=True)
    (tmp_path / "cwd" / "away").symlink_to(tmp_path)
    free = ["mkdir -p d/e", "touch d/a", "cp d/a d/b", "mv d/b c", "sed -i s/a/b/ c", "rm c", "rm -rf d"]
    asks = [
        "touch ../x",
        "touch away/x",
        "mkdir .git",
        "touch .envrc",
        "rm -rf .",
        "ln -s / l",
        "chmod 777 real",
        "sed -i 'w x' real",
        "sed -i 1e s",
        "cp --target-directory=/tmp x",
    ]
    host = play(tmp_path, [bash(command) for command in (*free, *asks)], "--permission-mode", "acceptEdits")
    assert [is_error(frame) for frame in results(host)] == [False] * len(free) + [True] * len(asks)
    assert names(host) == ["away", "real"] and not (tmp_path / "x").exists()


def test_the_place_of_a_command_is_where_the_shell_is(tmp_path: Path) -> None:
    """The same words lead outside from another directory."""
    (tmp_path / "cwd" / "sub").mkdir(parents=True)
    (tmp_path / "cwd" / "sub" / "d").symlink_to(tmp_path)
    flags = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash(cd sub)")
    host = play(tmp_path, [bash("mkdir d"), bash("cd sub"), bash("touch d/x")], *flags)
    assert [is_error(frame) for frame in results(host)] == [False, False, True]
    assert not (tmp_path / "x").exists()


def test_another_folder_counts_as_inside_with_add_dir(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    turns = [write(str(tmp_path / "more" / "a")), write(str(tmp_path / "other"))]
    host = play(tmp_path, turns, "--permission-mode", "acceptEdits", "--add-dir", str(tmp_path / "more"))
    assert [is_error(frame) for frame in results(host)] == [False, True]


def test_dont_ask_refuses_what_would_be_asked(tmp_path: Path) -> None:
    host = play(tmp_path, [bash("mkdir a"), bash("mkdir b")], "--permission-mode", "dontAsk", "--allowedTools", "Bash(mkdir b)")
    assert names(host) == ["b"] and not host.of("control_request")
    assert [frame["tool_use_id"] for frame in host.of("system", subtype="permission_denied")]


def test_without_prompts_a_call_is_refused(tmp_path: Path) -> None:
    host = play(tmp_path, [bash("mkdir a")], "--permission-prompts", "none")
    assert not names(host) and not host.of("control_request")


def test_a_tool_that_should_be_asked_and_is_not_there_refuses(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("mkdir a"), DONE], "--permission-prompt-tool", "mcp__gate__approve") as host:
        host.ask("go")
        assert host.leave() == 0
    assert "mcp__gate__approve" in text_of(results(host)[0]) and not names(host)


def test_bypass_needs_its_flag_and_keeps_deny_and_ask_rules(tmp_path: Path) -> None:
    skip = ("--dangerously-skip-permissions", "--disallowedTools", "Bash(rm:*)", "--settings")
    settings = json.dumps({"permissions": {"ask": ["Bash(touch b)"]}})
    turns = [bash("mkdir a"), bash("rm -r a"), bash("touch b"), DONE]
    with claude(tmp_path, turns, *STDIO, *skip, settings, env={"IS_SANDBOX": "1"}) as host:
        host.say("go")
        question = wait_for_question(host)
        assert question["request"]["decision_reason_type"] == "rule"
        assert "permission_suggestions" not in question["request"]
        host.send(reply(question, {"behavior": "deny", "message": "no"}))
        host.until("result")
        assert host.leave() == 0
    assert names(host) == ["a"]
    with claude(tmp_path, [DONE], *STDIO, "--allow-dangerously-skip-permissions") as refused:
        assert refused.leave() == (1 if os.geteuid() == 0 else 0)


def test_a_rule_that_asks_wins_over_one_that_allows(tmp_path: Path) -> None:
    settings = json.dumps({"permissions": {"ask": ["Bash(touch:*)"], "allow": ["Bash"]}})
    host = play(tmp_path, [bash("touch a"), bash("mkdir b")], "--settings", settings)
    assert names(host) == ["b"] and len(host.of("control_request")) == 1


@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        ("Edit(src/**)", ["src/a.py"]),
        ("Edit(./src/**)", ["src/a.py"]),
        ("Edit(/src/**)", ["src/a.py"]),
        ("Edit(*.md)", ["docs/b.md"]),
        ("Write(docs/)", ["docs/b.md"]),
        ("Edit", ["src/a.py", "docs/b.md"]),
    ],
)
def test_rules_about_paths(rule: str, denied: list[str], tmp_path: Path) -> None:
    turns = [write("$CWD/src/a.py"), write("$CWD/docs/b.md")]
    settings = json.dumps({"permissions": {"deny": [rule]}})
    play(tmp_path, turns, "--permission-mode", "acceptEdits", "--settings", settings)
    made = [name for name in ("src/a.py", "docs/b.md") if (tmp_path / "cwd" / name).exists()]
    assert sorted([*made, *denied]) == ["docs/b.md", "src/a.py"]


def test_a_denied_file_is_not_read_by_a_command_without_a_question(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / ".env").write_text("KEY=1")
    settings = json.dumps({"permissions": {"deny": ["Read(.env)"]}})
    host = play(tmp_path, [bash("cat .env"), read("$CWD/.env")], "--settings", settings)
    assert all(map(is_error, results(host))) and len(host.of("control_request")) == 1


def test_a_denied_file_is_not_found_by_a_search(tmp_path: Path) -> None:
    (tmp_path / "cwd" / "secret").mkdir(parents=True)
    (tmp_path / "cwd" / "secret" / "key").write_text("needle 1")
    (tmp_path / "cwd" / "open").write_text("needle 2")
    settings = json.dumps({"permissions": {"deny": ["Read(./secret/**)"]}})
    search = calls(("Grep", {"pattern": "needle", "output_mode": "content"}))
    host = play(tmp_path, [search, bash("grep -rn needle .")], "--settings", settings)
    found, refused = results(host)
    assert "needle 2" in text_of(found) and "needle 1" not in text_of(found) and is_error(refused)


def test_protected_files_are_not_read_by_commands_without_a_question(tmp_path: Path) -> None:
    (tmp_path / "home" / ".fairlead").mkdir(parents=True)
    (tmp_path / "home" / ".fairlead" / "settings.json").write_text(json.dumps({"protectedPaths": ["*.pem"]}))
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / "key.pem").write_text("KEY")
    host = play(tmp_path, [bash("cat key.pem")])
    assert len(host.of("control_request")) == 1 and "KEY" not in text_of(results(host)[0])


@pytest.mark.parametrize("named", [{}, {"subagent_type": "general-purpose"}])
def test_rules_about_kinds_of_sub_agents(named: dict[str, str], tmp_path: Path) -> None:
    agent = calls(("Agent", {"description": "x", "prompt": "look", **named}))
    host = play(tmp_path, [agent], "--disallowedTools", "Agent(general-purpose)")
    assert is_error(results(host)[0]) and not host.of("system", subtype="task_started")


# What answers change


def update(kind: str, **fields: Any) -> dict[str, Any]:
    return {**ALLOW, "updatedPermissions": [{"type": kind, **fields}]}


def bash_rule(content: str, behavior: str = "allow", **more: Any) -> dict[str, Any]:
    return {"rules": [{"toolName": "Bash", "ruleContent": content}], "behavior": behavior, **more}


@pytest.mark.parametrize(
    ("destination", "file"),
    [
        ("localSettings", "cwd/.claude/settings.local.json"),
        ("projectSettings", "cwd/.claude/settings.json"),
        ("userSettings", "home/.claude/settings.json"),
    ],
)
def test_a_rule_is_written_to_the_file_that_the_answer_names(destination: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"theme": "dark", "permissions": {"deny": ["Bash(rm:*)"], "allow": ["Read"], "later": 1}}))
    answer = update("addRules", **bash_rule("touch:*", destination=destination))
    host = play(tmp_path, [bash("touch a"), bash("touch b")], answer=answer)
    assert len(host.of("control_request")) == 1, "the rule holds at once"
    permissions = {"deny": ["Bash(rm:*)"], "allow": ["Read", "Bash(touch:*)"], "later": 1}
    assert json.loads(path.read_text()) == {"theme": "dark", "permissions": permissions}


def test_a_rule_of_the_user_holds_in_the_next_session(tmp_path: Path) -> None:
    turns = [bash("touch a"), DONE, bash("touch b"), DONE]
    with claude(tmp_path, turns, *STDIO) as host:
        host.say("go")
        host.send(reply(wait_for_question(host), update("addRules", **bash_rule("touch:*", destination="userSettings"))))
        host.until("result")
        assert host.leave() == 0
        with another(host) as later:
            later.ask("go")
            assert later.leave() == 0
    assert names(host) == ["a", "b"]


def test_rules_are_replaced_and_removed(tmp_path: Path) -> None:
    commands = ["touch a", "touch b", "mkdir c", "touch d"]
    with claude(tmp_path, [*map(bash, commands), DONE], *STDIO) as host:
        host.say("go")
        host.send(reply(wait_for_question(host), update("addRules", **bash_rule("touch:*"))))
        third = wait_for_question(host, 2)
        assert third["request"]["input"]["command"] == "mkdir c"
        host.send(reply(third, update("replaceRules", **bash_rule("mkdir:*"))))
        fourth = wait_for_question(host, 3)
        assert fourth["request"]["input"]["command"] == "touch d"
        host.send(reply(fourth, update("removeRules", **bash_rule("mkdir:*"))))
        host.until("result")
        assert host.leave() == 0
    assert names(host) == ["a", "b", "c", "d"]


def test_directories_are_added_and_removed(tmp_path: Path) -> None:
    outside = tmp_path / "out"
    outside.mkdir()
    turns = [read(str(outside / name)) for name in "abc"]
    for name in "abc":
        (outside / name).write_text(name)
    with claude(tmp_path, [turns[0], turns[1], bash("make"), turns[2], DONE], *STDIO) as host:
        host.say("go")
        host.send(reply(wait_for_question(host), update("addDirectories", directories=[str(outside)])))
        make = wait_for_question(host, 2)
        assert make["request"]["tool_name"] == "Bash"
        host.send(reply(make, update("removeDirectories", directories=[str(outside)])))
        host.send(reply(wait_for_question(host, 3), {"behavior": "deny", "message": "no"}))
        host.until("result")
        assert host.leave() == 0


def test_a_link_instead_of_a_file_of_settings_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim.json"
    victim.write_text("{}")
    (tmp_path / "cwd" / ".claude").mkdir(parents=True)
    (tmp_path / "cwd" / ".claude" / "settings.local.json").symlink_to(victim)
    answer = update("addRules", **bash_rule("touch:*", destination="localSettings"))
    host = play(tmp_path, [bash("touch a"), bash("touch b")], "--setting-sources", "user", answer=answer)
    assert victim.read_text() == "{}"
    assert len(host.of("control_request")) == 2, "what is not saved does not apply"
    assert any("link" in frame["content"] for frame in host.of("system", subtype="informational"))


def test_a_file_of_settings_with_comments_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"permissions": {}} // mine')
    answer = update("addRules", **bash_rule("touch:*", destination="userSettings"))
    with claude(tmp_path, [bash("touch a"), DONE], *STDIO, "--setting-sources=") as host:
        host.say("go")
        host.send(reply(wait_for_question(host), answer))
        host.until("result")
        assert host.leave() == 0
    assert path.read_text() == '{"permissions": {}} // mine' and names(host) == ["a"]


@pytest.mark.parametrize(
    "answer",
    [
        {"behavior": "maybe"},
        {"behavior": "allow", "updatedInput": "rm -rf /"},
        {"behavior": "allow", "updatedInput": {"command": 7}},
        {"behavior": "allow", "updatedPermissions": [{"type": "addRules", "rules": "Bash", "behavior": "allow"}]},
        {"behavior": "allow", "updatedPermissions": [{"type": "setMode"}]},
        {"behavior": "allow", "updatedPermissions": [{"type": "conquer", "destination": "session"}]},
        {"behavior": "allow", "updatedPermissions": [{"type": "addDirectories", "directories": ["/"], "destination": "moon"}]},
        {"behavior": "allow", "updatedPermissions": {"type": "setMode", "mode": "plan"}},
        [],
        "yes",
        None,
    ],
)
def test_an_answer_that_cannot_be_read_refuses_the_call(answer: Any, tmp_path: Path) -> None:
    host = play(tmp_path, [bash("mkdir a")], answer=answer)
    assert is_error(results(host)[0]) and not names(host)


def test_an_answer_cannot_bypass_consent_without_the_flag(tmp_path: Path) -> None:
    host = play(tmp_path, [bash("mkdir a"), bash("mkdir b")], answer=update("setMode", mode="bypassPermissions"))
    assert len(host.of("control_request")) == 2
    assert not host.of("system", subtype="status")


def test_answers_that_come_late_twice_or_for_nothing_change_nothing(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("mkdir a"), bash("mkdir b"), DONE], *STDIO) as host:
        host.say("go")
        first = wait_for_question(host)
        host.send(reply({**first, "request_id": "made-up"}, ALLOW))
        host.send(reply(first, {"behavior": "deny", "message": "no"}))
        host.send(reply(first, update("setMode", mode="acceptEdits")))
        second = wait_for_question(host, 2)
        host.send(reply(first, ALLOW))
        host.control("interrupt")
        host.send(reply(second, ALLOW))
        assert host.until("result")["terminal_reason"] == "aborted_tools"
        assert host.leave() == 1
    assert not names(host)
    withdrawn = host.of("control_cancel_request")
    assert [frame["request_id"] for frame in withdrawn] == [second["request_id"]]


def test_the_end_of_input_refuses_what_is_asked(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("mkdir a"), DONE], *STDIO) as host:
        host.say("go")
        wait_for_question(host)
        assert host.leave() == 0
    assert is_error(results(host)[0]) and not names(host)


# Questions to the user

QUESTION = {
    "question": "Which color?",
    "header": "Color",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    "multiSelect": False,
}


def test_the_answers_to_questions_are_those_of_the_user(tmp_path: Path) -> None:
    ask = calls(("AskUserQuestion", {"questions": [QUESTION]}))
    made_up = calls(("AskUserQuestion", {"questions": [QUESTION], "answers": {"Which color?": "Red"}}))
    with claude(tmp_path, [ask, ask, made_up, DONE], *STDIO, "--allowedTools", "AskUserQuestion") as host:
        host.say("go")
        first = wait_for_question(host)
        assert first["request"]["requires_user_interaction"] is True
        answered = {"questions": [QUESTION], "answers": {"Which color?": "Blue"}}
        host.send(reply(first, {**ALLOW, "updatedInput": answered}))
        host.send(reply(wait_for_question(host, 2), {"behavior": "deny", "message": "Later"}))
        host.until("result")
        assert host.leave() == 0
    blue, later, invalid = results(host)
    assert blue["tool_use_result"] == answered and "Blue" in text_of(blue)
    assert is_error(later) and "Later" in text_of(later)
    assert is_error(invalid) and "answers" in text_of(invalid)


def test_planning_ends_with_the_consent_to_the_plan(tmp_path: Path) -> None:
    leave = calls(("ExitPlanMode", {"plan": "# Plan"}))
    turns = [calls(("EnterPlanMode", {})), write("$CWD/a"), leave, write("$CWD/b"), leave, DONE]
    with claude(tmp_path, turns, *STDIO, "--permission-mode", "acceptEdits") as host:
        host.say("go")
        host.send(reply(wait_for_question(host), ALLOW))
        assert host.until("system", subtype="status")["permissionMode"] == "plan"
        second = wait_for_question(host, 2)
        assert (second["request"]["tool_name"], second["request"]["decision_reason_type"]) == ("Write", "mode")
        host.send(reply(second, {"behavior": "deny", "message": "not yet"}))
        third = wait_for_question(host, 3)
        assert third["request"]["input"] == {"plan": "# Plan"}
        host.send(reply(third, ALLOW))
        assert host.until("system", subtype="status", nth=2)["permissionMode"] == "acceptEdits"
        host.send(reply(wait_for_question(host, 4), ALLOW))
        host.until("result")
        assert host.leave() == 0
    assert names(host) == ["b"] and is_error(results(host)[-1])
    assert "ExitPlanMode" in json.dumps(host.provider.requests[1].body["messages"])


def test_a_turn_in_the_mode_plan_says_so_to_the_model(tmp_path: Path) -> None:
    with claude(tmp_path, [DONE], *STDIO, "--permission-mode", "plan") as host:
        host.ask("go")
        assert host.leave() == 0
    assert "change nothing" in json.dumps(host.provider.requests[0].body["messages"])


@pytest.mark.parametrize("flags", [(), (*STDIO, "--permission-prompts", "none")])
def test_without_a_user_the_model_cannot_ask(flags: tuple[str, ...], tmp_path: Path) -> None:
    with claude(tmp_path, [DONE], *flags) as host:
        host.ask("go")
        assert host.leave() == 0
    assert not {"AskUserQuestion", "ExitPlanMode", "EnterPlanMode"} & set(host.until("system", subtype="init")["tools"])


def test_questions_to_the_user_are_asked_although_consent_is_skipped(tmp_path: Path) -> None:
    turns = [calls(("AskUserQuestion", {"questions": [QUESTION]})), DONE]
    with claude(tmp_path, turns, *STDIO, "--dangerously-skip-permissions", env={"IS_SANDBOX": "1"}) as host:
        host.say("go")
        host.send(reply(wait_for_question(host), {"behavior": "deny", "message": "no"}))
        host.until("result")
        assert host.leave() == 0
