"""Answers to approvals that write rules to the settings of the user: an agent in this process, with a home."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.test_asking import Person, always, bash, in_turn, ran

from fairlead import Agent, Allow, ApprovalRequest, CancelToken, Deny, NewRule
from fairlead.core.events import ToolApprovalResolved
from fairlead.core.messages import ToolCall
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "sub").mkdir(parents=True)
    return made


class Listener(Person):
    """A person who also hears what the agent tells."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(in_turn(*answers))
        self.told: list[str] = []

    def notify(self, message: str, kind: Any = None) -> None:
        self.told.append(message)


def options(home: Path) -> dict[str, Any]:
    return {"isolated": False, "env": {"PATH": "/usr/bin:/bin", "HOME": str(home), "FAIRLEAD_HOME": str(home)}}


def saved(home: Path) -> Any:
    path = home / "settings.json"
    return json.loads(path.read_text())["approvals"]["rules"] if path.exists() else []


def test_a_rule_is_written_and_later_calls_and_sessions_are_not_asked_about(home: Path, project: Path) -> None:
    person = Listener(Allow(rule=NewRule("ls *")))
    done = ran(project, person, bash("ls"), bash("ls -a"), **options(home))
    assert [request.subject for request in person.asked] == ["ls"]
    assert [is_error for _, is_error in done.results] == [False, False]
    assert saved(home) == [{"tool": "bash", "pattern": "ls *", "action": "allow", "project": str(project)}]
    assert person.told == ["From now on, your settings allow bash: ls *, in this project."]
    later = Listener()
    ran(project / "sub", later, bash("ls -l"), **options(home))
    assert not later.asked or not (project / ".git").exists()


def test_a_rule_of_a_repository_holds_in_its_subdirectories_and_nowhere_else(home: Path, project: Path, tmp_path: Path) -> None:
    (project / ".git").mkdir()
    ran(project / "sub", Listener(Allow(rule=NewRule("ls"))), bash("ls"), **options(home))
    assert saved(home)[0]["project"] == str(project)
    inside, outside = Listener(), Listener(Deny())
    ran(project, inside, bash("ls"), **options(home))
    ran(tmp_path, outside, bash("ls"), **options(home))
    assert (len(inside.asked), len(outside.asked)) == (0, 1)


def test_a_rule_for_every_project_names_none(home: Path, project: Path, tmp_path: Path) -> None:
    ran(project, Listener(Allow(rule=NewRule("ls", everywhere=True))), bash("ls"), **options(home))
    assert saved(home) == [{"tool": "bash", "pattern": "ls", "action": "allow"}]
    elsewhere = Listener()
    ran(tmp_path, elsewhere, bash("ls"), **options(home))
    assert not elsewhere.asked


def test_rules_are_added_to_what_the_settings_say(home: Path, project: Path) -> None:
    before = {"theme": 1, "approvals": {"mode": "ask", "rules": [{"tool": "write", "action": "ask"}]}}
    (home / "settings.json").write_text(json.dumps(before))
    for _ in range(2):
        ran(project, Listener(Allow(rule=NewRule("ls"))), bash("ls"), **options(home))
    content = json.loads((home / "settings.json").read_text())
    assert content["theme"] == 1 and content["approvals"]["mode"] == "ask"
    assert [rule["tool"] for rule in content["approvals"]["rules"]] == ["write", "bash"]


@pytest.mark.parametrize("content", ['{"approvals": {"rules": 7}}', '{"approvals": []}', "{ // mine\n}", "{"])
def test_a_rule_that_cannot_be_saved_does_not_apply(home: Path, project: Path, content: str) -> None:
    (home / "settings.json").write_text(content)
    person = Listener(*[Allow(rule=NewRule("ls"))] * 2)
    done = ran(project, person, bash("ls"), bash("ls"), **options(home))
    assert (home / "settings.json").read_text() == content
    if person.asked[0].rules is None:  # a rule for all calls asks as long as the file cannot be understood
        assert all(is_error for _, is_error in done.results)
        return
    assert len(person.asked) == 2 and all(told.startswith("The rule was not saved") for told in person.told)
    assert [is_error for _, is_error in done.results] == [False, False], "the call itself was allowed"


@pytest.mark.parametrize("pattern", ["*", "rm *", "ls -la", "", "ls \u200b"])
def test_a_rule_that_is_not_about_the_call_approves_nothing(home: Path, project: Path, pattern: str) -> None:
    person = Listener(Allow(rule=NewRule(pattern)))
    done = ran(project, person, bash("ls; touch made") if pattern == "ls -la" else bash("ls"), **options(home))
    assert done.results[0][1] and "the rule in the answer cannot be used" in done.results[0][0]
    assert saved(home) == [] and not (project / "made").exists()


@pytest.mark.parametrize("rule", ["ls *", True, {"pattern": "ls"}])
def test_a_rule_of_another_type_approves_nothing(home: Path, project: Path, rule: Any) -> None:
    done = ran(project, Listener(Allow(rule=rule)), bash("ls"), **options(home))
    assert done.results[0][1] and saved(home) == []


def test_an_isolated_agent_offers_and_writes_no_rule(home: Path, project: Path) -> None:
    person = Listener(Allow(rule=NewRule("ls")))
    done = ran(project, person, bash("ls"), **options(home) | {"isolated": True})
    assert person.asked[0].rules is None
    assert done.results[0][1] and saved(home) == []


def test_a_project_cannot_grant_itself_anything(home: Path, project: Path) -> None:
    """Neither with a rule that allows, nor with one that names a project as those of the user do."""
    (project / ".fairlead").mkdir()
    rules = [
        {"tool": "bash", "pattern": "ls", "action": "allow"},
        {"tool": "bash", "pattern": "ls", "action": "allow", "project": str(project)},
        {"tool": "bash", "pattern": "ls", "action": "allow", "project": "/"},
    ]
    (project / ".fairlead" / "settings.json").write_text(json.dumps({"approvals": {"rules": rules}}))
    person = Listener(Deny())
    ran(project, person, bash("ls"), **options(home))
    assert len(person.asked) == 1


@pytest.mark.parametrize("value", ["", "relative", 7, None, ["/"]])
def test_a_rule_of_the_user_with_an_unusable_project_asks(home: Path, project: Path, value: Any) -> None:
    rule = {"tool": "bash", "pattern": "ls", "action": "allow", "project": value}
    (home / "settings.json").write_text(json.dumps({"approvals": {"rules": [rule]}}))
    person = Listener(Deny())
    ran(project, person, bash("ls"), **options(home))
    assert len(person.asked) == 1


def test_arguments_that_the_user_changed_are_what_the_rule_is_about(home: Path, project: Path) -> None:
    pwd = {"command": "pwd"}
    person = Listener(Allow(arguments=pwd, rule=NewRule("ls")), Allow(arguments=pwd, rule=NewRule("pwd")))
    done = ran(project, person, bash("ls"), bash("ls"), **options(home))
    assert [is_error for _, is_error in done.results] == [True, False]
    assert [rule["pattern"] for rule in saved(home)] == ["pwd"]


class Patient(Person):
    """A person with several questions at once, who answers one of them after all have come."""

    def __init__(self, count: int, answer: Allow) -> None:
        super().__init__(always(answer))
        self._all_came = asyncio.Event()
        self._count = count
        self.withdrawn = 0

    async def approve(self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None) -> Any:
        self.asked.append(request)
        if len(self.asked) == self._count:
            self._all_came.set()
        await self._all_came.wait()
        if request is self.asked[0]:
            return await self._answering(request)
        assert cancel is not None
        gone = asyncio.Event()
        cancel.on_fire(gone.set)
        await asyncio.wait_for(gone.wait(), 20)
        self.withdrawn += 1
        return None


@pytest.mark.parametrize(
    ("answer", "commands", "by"),
    [
        (Allow(rule=NewRule("ls *")), ["ls", "ls -a", "ls -l"], "settings"),
        (Allow(for_session=True), ["ls", "ls", "ls"], "session"),
    ],
)
async def test_questions_that_the_answer_covers_are_withdrawn_and_their_calls_run(
    home: Path, project: Path, answer: Allow, commands: Sequence[str], by: str
) -> None:
    calls = [ToolCall(f"c{number}", "bash", {"command": command}) for number, command in enumerate(commands)]
    person = Patient(len(calls), answer)
    model = Scripted([Turn(tool_calls=calls), Turn(text="done")])
    async with Agent(model=SCRIPTED_MODEL, stream=model, cwd=project, approval="ask", **options(home)) as agent:
        agent.session.host.make_ui = lambda: person
        resolved: list[ToolApprovalResolved] = []
        agent.session.subscribe(lambda event: resolved.append(event) if isinstance(event, ToolApprovalResolved) else None)
        await agent.ask("go")
    assert person.withdrawn == 2
    assert sorted(each.by for each in resolved) == sorted(["user", by, by]) and all(each.approved for each in resolved)
