"""Stream rules in a run: the answer that breaks one is cut off, the model is told, and asked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.stage import Stage, bash, calls, says, stage

NO_ANY = "---\ncondition: '\\bFORBIDDEN\\b'\n{more}---\nNever write that word.\n"


def rule(more: str = "") -> dict[str, str]:
    return {".fairlead/rules/no-word.md": NO_ANY.format(more=more)}


def told(host: Stage, kind: str) -> list[Frame]:
    return [frame for frame in host.frames if frame["type"] == kind]


def answers(host: Stage) -> list[tuple[str, str | None]]:
    ended = (frame["message"] for frame in told(host, "message_end"))
    return [(message["stopReason"], message.get("errorMessage")) for message in ended if message["role"] == "assistant"]


def asked(host: Stage, number: int) -> str:
    return json.dumps(host.provider.requests[number].body["messages"])


BAD = says("I say FORBIDDEN things, and then a great many more. " + "more " * 50)


@pytest.fixture(params=["pi", "omp", "xcsh"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_answer_that_breaks_a_rule_is_cut_off_and_asked_for_again(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [BAD, says("Sorry."), BAD], files=rule()) as host:
        frames = host.prompt("why?")
        kinds = [frame["type"] for frame in frames]
        (triggered,) = told(host, "ttsr_triggered")
        (broken,) = triggered["rules"]
        assert broken.items() >= {"name": "no-word", "content": "Never write that word."}.items()
        assert broken["path"].endswith(".fairlead/rules/no-word.md")
        assert answers(host) == [("aborted", "TTSR matched rule: no-word"), ("stop", None)]
        place = kinds.index("ttsr_triggered")
        assert kinds[place : place + 3] == ["ttsr_triggered", "message_end", "turn_end"]
        assert kinds.count("agent_end") == (2 if dialect == "pi" else 1)
        assert kinds.count("agent_settled") == 1
        assert len(host.provider.requests) == 2
        assert "Never write that word." in asked(host, 1)
        assert "I say" not in asked(host, 1)
        # Once in a session: the second time it passes.
        host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 1
        assert host.request("get_last_assistant_text")["data"]["text"].startswith("I say FORBIDDEN")


def test_an_interrupted_answer_may_stay_in_the_context(tmp_path: Path) -> None:
    settings = {"ttsr": {"contextMode": "keep"}}
    with stage(tmp_path, "omp", [BAD, says("Sorry.")], files=rule(), settings=settings) as host:
        host.prompt("why?")
        roles = [message["role"] for message in host.request("get_messages")["data"]["messages"]]
        assert roles == ["user", "assistant", "custom", "assistant"]


def test_a_rule_reminds_again_after_a_gap(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [BAD, says("ok"), BAD, BAD, says("ok")], files=rule("repeat: after-gap\nrepeatGap: 1\n")) as host:
        for _ in range(3):
            host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 2


def test_a_model_that_keeps_breaking_a_rule_is_stopped(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [BAD], files=rule("repeat: after-gap\nrepeatGap: 0\n")) as host:
        host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 5
        assert answers(host)[-1] == ("stop", None)
        host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 10


def test_rule_reminders_survive_a_restart(tmp_path: Path) -> None:
    with stage(tmp_path / "1", "omp", [BAD, says("ok")], files=rule()) as host:
        host.prompt("why?")
        file = host.request("get_state")["data"]["sessionFile"]
        host.leave()
    with stage(tmp_path / "2", "omp", [BAD, BAD, says("ok")], files=rule(), flags=["--session", file]) as host:
        host.prompt("why?")
        assert told(host, "ttsr_triggered") == []
        assert answers(host) == [("stop", None)]
        host.request("new_session")
        host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 1, "another conversation was told nothing yet"


def test_a_tool_call_is_stopped_before_it_runs(tmp_path: Path) -> None:
    files = rule("scope: tool:bash\n")
    with stage(tmp_path, "omp", [calls(bash("touch FORBIDDEN")), says("ok")], files=files) as host:
        host.prompt("why?")
        assert told(host, "tool_execution_start") == []
        assert not (host.around.cwd / "FORBIDDEN").exists()
        assert len(told(host, "ttsr_triggered")) == 1


def test_the_new_text_of_a_file_is_looked_at(tmp_path: Path) -> None:
    files = rule("scope: 'write(*.py)'\n")
    turns = [
        calls(("write", {"path": "notes.txt", "content": "FORBIDDEN\n"})),
        calls(("write", {"path": "a.py", "content": "x = 'FORBIDDEN'\n"})),
        says("ok"),
    ]
    with stage(tmp_path, "omp", turns, files=files) as host:
        host.prompt("why?")
        assert (host.around.cwd / "notes.txt").exists()
        assert not (host.around.cwd / "a.py").exists()


def test_a_rule_that_does_not_interrupt_reminds_before_the_next_turn(tmp_path: Path) -> None:
    turn = {"text": "FORBIDDEN, but let me.", **calls(bash("echo hi"))}
    with stage(tmp_path, "omp", [turn, says("ok")], files=rule("interruptMode: never\n")) as host:
        host.prompt("why?")
        assert told(host, "ttsr_triggered") == []
        assert answers(host) == [("toolUse", None), ("stop", None)]
        assert "Never write that word." in asked(host, 1)


def test_thinking_is_not_looked_at_unless_a_rule_says_so(tmp_path: Path) -> None:
    thought = {"thinking": "FORBIDDEN thoughts", "text": "fine"}
    with stage(tmp_path / "1", "omp", [thought], files=rule(), model="fake/fake-1") as host:
        host.prompt("why?")
        assert told(host, "ttsr_triggered") == []
    with stage(tmp_path / "2", "omp", [thought, says("ok")], files=rule("scope: thinking\n")) as host:
        host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 1


@pytest.mark.parametrize("how", [{"settings": {"ttsr": {"enabled": False}}}, {"flags": ["--no-rules"]}], ids=["setting", "flag"])
def test_rules_can_be_turned_off(how: dict[str, Any], tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [BAD], files=rule(), **how) as host:
        host.prompt("why?")
        assert answers(host) == [("stop", None)]


def test_a_rule_that_takes_too_long_is_switched_off_and_reported(tmp_path: Path) -> None:
    slow = {".fairlead/rules/slow.md": "---\ncondition: '(?=x)(x+x+)+y'\n---\nNo.\n"}
    with stage(tmp_path, "omp", [says("x" * 4000), says("x" * 4000)], files=slow) as host:
        host.prompt("why?")
        (error,) = told(host, "extension_error")
        assert (error["event"], "slow is off" in error["error"]) == ("rule", True)
        host.prompt("why?")
        assert len(told(host, "extension_error")) == 1


def test_an_unusable_rule_is_named_on_stderr_and_the_rest_works(tmp_path: Path) -> None:
    bad = {".fairlead/rules/bad.md": "---\ncondition: '('\n---\nNo.\n"}
    with stage(tmp_path, "omp", [BAD, says("ok")], files=rule() | bad) as host:
        host.prompt("why?")
        assert len(told(host, "ttsr_triggered")) == 1
        host.leave()
        assert "bad.md" in host.stderr()
