"""Consent to tool calls, as a host is asked for it, whatever it then does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.host_tools import ECHO, PROMPT, echo, ends, of_type, offer, output, result
from tests.support.stage import Stage, bash, calls, says, stage

DIALECTS = ["pi", "omp", "xcsh"]
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

ASK = ["--approval", "ask"]
INSTEAD = "Do not try to do the same in another way: go on without it, or tell the user why it is needed."
CHOICES = ["Approve", "Approve for session", "Deny"]

#: What a question says: the call, and what an approval for the session covers.
COMMAND = 'Allow bash?\n\n{}\n\n"Approve for session" covers the same command.'
WRITE = 'Allow write?\n\n{}\n\n"Approve for session" covers the same file, with any content.'


def question(host: Stage, since: int = 0) -> Frame:
    return host.until("extension_ui_request", since=since, method="select")


def answer(asked: Frame, **fields: Any) -> Frame:
    return {"type": "extension_ui_response", "id": asked["id"], **fields}


def questions(host: Stage) -> list[str]:
    return [frame["title"] for frame in of_type(host, "extension_ui_request") if frame["method"] == "select"]


def writes(path: str, content: str = "x") -> tuple[str, Mapping[str, Any]]:
    return "write", {"path": path, "content": content}


def refused(tool: str, why: str) -> tuple[str, bool]:
    return f"{tool} was not run: {why}. {INSTEAD}", True


@every_dialect
def test_by_default_no_approval_is_asked(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(bash("echo ran > ran")), says("ok")]) as host:
        host.prompt("go")
        assert (host.around.cwd / "ran").read_text() == "ran\n"
        assert not questions(host)


@every_dialect
def test_a_call_waits_until_it_is_approved(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(bash("echo ran > ran; echo done")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        asked = question(host)
        assert asked["options"] == CHOICES
        assert asked["title"] == COMMAND.format("echo ran > ran; echo done")
        assert asked["timeout"] == 300_000
        assert not (host.around.cwd / "ran").exists()
        host.send(answer(asked, value="Approve"))
        host.until("agent_settled")
        assert ends(host) == [("done\n", False)]
        assert not any(frame["type"].startswith("tool_approval") for frame in host.frames)
        assert host.leave() == 0


@every_dialect
@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"value": "Always approve bash: ls *, in this project"}, {"pattern": "ls *"}),
        ({"value": "Approve", "rule": "ls *"}, {"pattern": "ls *"}),
        ({"value": "Approve", "rule": "ls -*", "everywhere": True}, {"pattern": "ls -*", "project": None}),
    ],
)
def test_an_answer_writes_a_rule_and_later_calls_are_not_asked_about(
    tmp_path: Path, dialect: str, fields: Mapping[str, Any], rule: Mapping[str, Any]
) -> None:
    with stage(tmp_path, dialect, [calls(bash("ls -l")), calls(bash("ls -a")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        asked = question(host)
        assert asked["rules"] == ["ls -l", "ls *"]
        always = ["Always approve bash: ls -l, in this project", "Always approve bash: ls *, in this project"]
        assert asked["options"] == [*CHOICES, *always]
        host.send(answer(asked, **fields))
        host.until("agent_settled")
        assert len(questions(host)) == 1 and [is_error for _, is_error in ends(host)] == [False, False]
        (saved,) = json.loads((host.around.home / "settings.json").read_text())["approvals"]["rules"]
        expected: dict[str, Any] = {"tool": "bash", "action": "allow", "project": str(host.around.cwd), **rule}
        assert saved == {key: value for key, value in expected.items() if value is not None}


@every_dialect
@pytest.mark.parametrize("rule", ["*", "rm *", "", "ls -a", "ls -l ", 7])
def test_an_answer_with_a_rule_that_does_not_fit_is_an_error_and_no_consent(tmp_path: Path, dialect: str, rule: Any) -> None:
    with stage(tmp_path, dialect, [calls(bash("ls -l")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        asked = question(host)
        host.send(answer(asked, value="Approve", rule=rule))
        assert "rule" in host.until("response", id=asked["id"], success=False)["error"]
        host.until("agent_settled")
        assert ends(host) == [refused("bash", "the user dismissed the question")]
        assert not (host.around.home / "settings.json").exists()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"value": "Deny"}, "the user refused it"),
        ({"value": "approve"}, "the user refused it"),
        ({"value": "Approve "}, "the user refused it"),
        ({"value": ""}, "the user refused it"),
        ({"cancelled": True}, "the user dismissed the question"),
        ({"confirmed": True}, "the user dismissed the question"),
        ({"value": True}, "the user dismissed the question"),
        ({}, "the user dismissed the question"),
    ],
)
def test_any_answer_but_consent_refuses_and_reaches_the_model(tmp_path: Path, fields: Frame, why: str) -> None:
    with stage(tmp_path, "pi", [calls(bash("echo ran > ran")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        host.send(answer(question(host), **fields))
        host.until("agent_settled")
        assert ends(host) == [refused("bash", why)]
        (block,) = host.provider.requests[1].body["messages"][-1]["content"]
        assert block["content"][0]["text"] == refused("bash", why)[0] and block["is_error"]
        assert not (host.around.cwd / "ran").exists()


def test_no_answer_in_time_refuses(tmp_path: Path) -> None:
    settings = {"approvals": {"mode": "ask", "timeoutSeconds": 0.05}}
    with stage(tmp_path, "pi", [calls(bash("echo ran > ran")), says("ok")], settings=settings) as host:
        host.prompt("go")
        assert ends(host) == [refused("bash", "it was not approved within 0.05 seconds")]
        host.send(answer(question(host), value="Approve"))  # too late
        host.prompt("again")
        assert not (host.around.cwd / "ran").exists()


def test_reading_needs_no_question_and_changing_does(tmp_path: Path) -> None:
    script = [calls(("read", {"path": "a"}), ("ls", {}), ("grep", {"pattern": "x"}), ("find", {"pattern": "*"}), writes("b"))]
    tools = ["--tools", "read,ls,grep,find,write"]
    with stage(tmp_path, "pi", [*script, says("ok")], flags=[*ASK, *tools], files={"a": "text x"}) as host:
        host.send(PROMPT)
        host.send(answer(question(host), value="Approve"))
        host.until("agent_settled")
        assert questions(host) == [WRITE.format(host.around.cwd / "b")]
        assert not any(is_error for _, is_error in ends(host))


def test_approval_for_the_session_covers_only_that_command(tmp_path: Path) -> None:
    script = [calls(bash("echo a >> log")), calls(bash("echo a >> log")), calls(bash("echo a >> log; echo b >> log")), says("ok")]
    with stage(tmp_path, "pi", [*script, calls(bash("echo a >> log")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        host.send(answer(question(host), value="Approve for session"))
        since = host.mark()
        host.send(answer(question(host, since), value="Deny"))
        host.until("agent_settled")
        assert (host.around.cwd / "log").read_text() == "a\na\n"
        assert len(questions(host)) == 2
        # Another conversation is another session.
        host.request("new_session")
        since = host.mark()
        host.send(PROMPT)
        host.send(answer(question(host, since), value="Deny"))
        host.until("agent_settled", since=since)
        assert (host.around.cwd / "log").read_text() == "a\na\n"


def test_a_file_approved_for_the_session_is_that_file_by_every_name(tmp_path: Path) -> None:
    script = [calls(writes("a", "1")), calls(writes("./x/../a", "2")), calls(writes("b", "3")), says("ok")]
    with stage(tmp_path, "pi", script, flags=ASK) as host:
        host.send(PROMPT)
        host.send(answer(question(host), value="Approve for session"))
        since = host.mark()
        host.send(answer(question(host, since), value="Deny"))
        host.until("agent_settled")
        assert (host.around.cwd / "a").read_text() == "2"
        assert not (host.around.cwd / "b").exists()


def test_one_answer_is_good_for_one_of_two_calls(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash("echo one >> log"), bash("echo one >> log")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        first = question(host)
        second = host.until("extension_ui_request", since=host.frames.index(first) + 1, method="select")
        host.send(answer(first, value="Approve"))
        host.send(answer(first, value="Approve"))
        host.until("tool_execution_end")
        assert (host.around.cwd / "log").read_text() == "one\n"
        host.send(answer(second, value="Deny"))
        host.until("agent_settled")
        assert (host.around.cwd / "log").read_text() == "one\n"
        assert sorted(is_error for _, is_error in ends(host)) == [False, True]


def test_an_answer_to_another_question_does_not_approve(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash("echo ran > ran")), says("ok")], flags=ASK) as host:
        host.send(answer({"id": "1"}, value="Approve"))
        host.send(PROMPT)
        asked = question(host)
        host.send(answer({"id": asked["id"] + "x"}, value="Approve"))
        host.send(answer({"id": host.frames[0].get("id", "p")}, value="Approve"))
        assert host.request("get_state")["success"]
        assert not (host.around.cwd / "ran").exists()
        host.send(answer(asked, value="Deny"))
        host.until("agent_settled")
        assert not (host.around.cwd / "ran").exists()


def test_an_abort_while_it_is_asked_ends_the_call_and_a_late_consent_does_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash("echo ran > ran")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        asked = question(host)
        host.send({"type": "abort"})
        host.until("agent_settled")
        host.send(answer(asked, value="Approve"))
        assert host.request("get_state")["success"]
        assert ends(host) == [("Command aborted", True)]
        assert not (host.around.cwd / "ran").exists()
        assert host.leave() == 0


def test_a_host_that_leaves_has_not_agreed(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash("echo ran > ran")), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        question(host)
        assert host.leave() == 0
        assert not (host.around.cwd / "ran").exists()


def test_calls_that_need_approval_are_refused_without_a_user(tmp_path: Path) -> None:
    with stage(tmp_path, "pi-2025", [calls(bash("echo ran > ran")), says("ok")], flags=ASK) as host:
        host.send({"type": "prompt", "message": "go"})
        end = host.until("tool_execution_end")
        assert end["result"] == refused("bash", "it needs approval, and there is no user to ask")[0]
        host.until("agent_end")
        assert not (host.around.cwd / "ran").exists()


def test_denied_is_what_would_be_asked_for(tmp_path: Path) -> None:
    script = [calls(bash("echo ran > ran"), ("read", {"path": "a"})), says("ok")]
    with stage(tmp_path, "pi", script, flags=["--approval", "deny"], files={"a": "text"}) as host:
        host.prompt("go")
        assert not questions(host)
        assert sorted(ends(host)) == sorted(
            [refused("bash", 'the settings forbid it (approvals.mode is "deny")'), ("text", False)]
        )


def test_rules_decide_by_tool_and_pattern(tmp_path: Path) -> None:
    rules = [{"tool": "bash", "pattern": "echo *", "action": "allow"}, {"tool": "write", "pattern": "*.key", "action": "deny"}]
    script = [calls(bash("echo fine"), bash("echo a; true"), writes("x.key"), writes("y")), says("ok")]
    with stage(tmp_path, "pi", script, settings={"approvals": {"mode": "ask", "rules": rules}}) as host:
        host.send(PROMPT)
        first = question(host)
        second = host.until("extension_ui_request", since=host.frames.index(first) + 1, method="select")
        for asked in (first, second):
            host.send(answer(asked, value="Deny"))
        host.until("agent_settled")
        assert sorted(questions(host)) == [COMMAND.format("echo a; true"), WRITE.format(host.around.cwd / "y")]
        assert ("fine\n", False) in ends(host)
        assert refused("write", 'the settings forbid it (approvals.rules: deny write "*.key")') in ends(host)


#: Lines that bash runs `touch` for, although they look like `echo` alone.
HIDDEN_TOUCH = ['echo "$\\\n(touch PWN)"', "echo hi {a['$(touch PWN)']}>/dev/null"]


@every_dialect
@pytest.mark.parametrize("line", HIDDEN_TOUCH)
def test_a_rule_that_allows_a_command_does_not_allow_what_an_expansion_hides_in_it(
    tmp_path: Path, dialect: str, line: str
) -> None:
    rules = [{"tool": "bash", "pattern": "echo *", "action": "allow"}]
    script = [calls(bash("echo fine")), calls(bash(line)), says("ok")]
    with stage(tmp_path, dialect, script, settings={"approvals": {"mode": "ask", "rules": rules}}) as host:
        host.send(PROMPT)
        asked = question(host)
        assert asked["title"] == COMMAND.format(line)
        assert not (host.around.cwd / "PWN").exists()
        host.send(answer(asked, value="Deny"))
        host.until("agent_settled")
        assert ends(host) == [("fine\n", False), refused("bash", "the user refused it")]
        assert not (host.around.cwd / "PWN").exists()


@pytest.mark.parametrize(
    "line", [*HIDDEN_TOUCH, "FO\\\nO=1 touch PWN", "bash /dev/./stdin <<< 'touch PWN'", "a['$(touch PWN)']=1"]
)
def test_a_rule_that_denies_a_command_sees_through_the_usual_detours(tmp_path: Path, line: str) -> None:
    rules = [{"tool": "bash", "pattern": "touch *", "action": "deny"}]
    script = [calls(bash("echo fine")), calls(bash(line)), says("ok")]
    with stage(tmp_path, "pi", script, settings={"approvals": {"rules": rules}}) as host:
        host.prompt("go")
        fine, (text, is_error) = ends(host)
        assert fine == ("fine\n", False)
        assert text.startswith('bash was not run: the settings forbid it (approvals.rules: deny bash "touch *"') and is_error
        assert not (host.around.cwd / "PWN").exists()


def test_tools_of_the_host_are_asked_about_too(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo("a")), calls(echo("b")), says("ok")], flags=ASK) as host:
        offer(host, ECHO)
        host.send(PROMPT)
        asked = question(host)
        assert asked["title"] == 'Allow echo?\n\n{"text":"a"}\n\n"Approve for session" covers echo with any arguments.'
        assert not of_type(host, "host_tool_call")
        host.send(answer(asked, value="Approve for session"))
        for text in ("a", "b"):
            host.send(result(host.until("host_tool_call", arguments={"text": text}), output(text)))
        host.until("agent_settled")
        assert len(questions(host)) == 1 and ends(host) == [("a", False), ("b", False)]


def test_a_uri_approved_for_the_session_is_that_uri_alone(tmp_path: Path) -> None:
    script = [calls(writes("db://a")), calls(writes("db://a")), calls(writes("db://b")), says("ok")]
    with stage(tmp_path, "omp", script, flags=ASK) as host:
        host.request("set_host_uri_schemes", schemes=[{"scheme": "db", "writable": True}])
        host.send(PROMPT)
        host.send(answer(question(host), value="Approve for session"))
        since = host.mark()
        for number in (1, 2):
            asked = host.until("host_uri_request", nth=number)
            host.send({"type": "host_uri_result", "id": asked["id"]})
        host.send(answer(question(host, since), value="Deny"))
        host.until("agent_settled")
        assert questions(host) == [
            f'Allow write?\n\n{uri}\n\n"Approve for session" covers the same URI.' for uri in ("db://a", "db://b")
        ]
        assert len(of_type(host, "host_uri_request")) == 2


def test_calls_of_sub_agents_need_approval_too(tmp_path: Path) -> None:
    task = {"agent": "task", "tasks": [{"id": "one", "description": "d", "assignment": "dig"}]}
    script = [{"match": "dig", **calls(bash("echo ran > ran"))}, calls(("task", task)), says("done"), says("done")]
    with stage(tmp_path, "omp", script, flags=[*ASK, "--tools", "bash,task"]) as host:
        host.send(PROMPT)
        asked = question(host)
        assert asked["title"] == COMMAND.format("echo ran > ran")
        host.send(answer(asked, value="Deny"))
        host.until("agent_settled")
        assert len(questions(host)) == 1
        assert not (host.around.cwd / "ran").exists()


def test_the_users_own_commands_are_not_asked_about(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=["--approval", "deny"]) as host:
        assert host.request("bash", command="echo mine")["data"]["output"] == "mine\n"


def test_a_question_shows_what_would_hide(tmp_path: Path) -> None:
    command = "echo safe\u202e; rm x\x1b[2K\r # " + "y" * 5000
    with stage(tmp_path, "pi", [calls(bash(command)), says("ok")], flags=ASK) as host:
        host.send(PROMPT)
        asked = question(host)
        assert asked["title"].startswith("Allow bash?\n\necho safe\\u{202e}; rm x\\u{1b}[2K\\u{d} # yyy")
        assert f"y\n… ({len(command) - 4000:,} of {len(command):,} characters are left out here)\ny" in asked["title"]
        host.send(answer(asked, value="Deny"))
        host.until("agent_settled")


LOOSER = {"mode": "auto", "rules": [{"tool": "*", "action": "allow"}]}


@pytest.mark.parametrize(("project", "asked"), [(LOOSER, True), ({"mode": "deny"}, False)])
def test_a_project_can_make_it_stricter_but_not_looser(tmp_path: Path, project: Frame, asked: bool) -> None:
    files = {".fairlead/settings.json": json.dumps({"approvals": project})}
    script = [calls(bash("echo ran > ran")), says("ok")]
    with stage(tmp_path, "pi", script, settings={"approvals": {"mode": "ask"}}, files=files) as host:
        host.send(PROMPT)
        if asked:
            host.send(answer(question(host), value="Deny"))
        host.until("agent_settled")
        assert bool(questions(host)) is asked
        assert not (host.around.cwd / "ran").exists()
