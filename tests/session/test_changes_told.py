"""Changes that listeners are told about: the approval mode, the todo list, the slash commands; and the calls of sub-agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from fairlead import Agent, Allow, ApprovalRequest, CancelToken, Deny, NoUi, Storage
from fairlead.errors import BadOption
from fairlead.events import (
    ApprovalModeChanged,
    CommandsChanged,
    Event,
    SessionReplaced,
    SubagentEvent,
    TodoAutoClear,
    TodosChanged,
    ToolApprovalRequested,
    ToolEnd,
    ToolRunning,
    ToolStart,
)
from fairlead.messages import ToolCall, ToolResultMessage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


class Person(NoUi):
    available = True

    def __init__(self, answer: Allow | Deny, look: Callable[[], None] = lambda: None) -> None:
        self.asked: list[ApprovalRequest] = []
        self._answer = answer
        self._look = look

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> Allow | Deny | None:
        self.asked.append(request)
        self._look()
        return self._answer


def agent(tmp_path: Path, turns: list[Turn], **options: Any) -> Agent:
    options.setdefault("isolated", True)
    return Agent(model=SCRIPTED_MODEL, stream=Scripted(turns), cwd=tmp_path, **options)


def bash(command: str, id: str = "b") -> Turn:
    return Turn(tool_calls=[ToolCall(id, "bash", {"command": command})])


def outcomes(agent: Agent) -> list[bool]:
    """Whether each call ran."""
    return [not each.is_error for each in agent.session.messages if isinstance(each, ToolResultMessage)]


# The approval mode


async def test_the_approval_mode_can_change_while_a_session_lasts(tmp_path: Path) -> None:
    done = Turn(text="done")
    turns = [bash("true"), done, bash("true"), done, bash("true"), done, bash("true"), done]
    async with agent(tmp_path, turns) as it:
        person = Person(Allow())
        it.session.host.make_ui = lambda: person
        events: list[Event] = []
        it.session.subscribe(events.append)
        assert it.session.approvals.mode == "auto"
        await it.ask("go")
        assert not person.asked
        it.session.approvals.set_mode("ask")
        it.session.approvals.set_mode("ask")
        await it.ask("go")
        assert len(person.asked) == 1
        it.session.approvals.set_mode("deny")
        await it.ask("go")
        assert len(person.asked) == 1
        it.session.approvals.set_mode("auto")
        await it.ask("go")
        assert len(person.asked) == 1 and outcomes(it) == [True, True, False, True]
        assert it.session.approvals.mode == "auto"
        told = [event.mode for event in events if isinstance(event, ApprovalModeChanged)]
        assert told == ["ask", "deny", "auto"]


async def test_a_mode_that_does_not_exist_changes_nothing(tmp_path: Path) -> None:
    async with agent(tmp_path, [Turn(text="done")], approval="ask") as it:
        with pytest.raises(BadOption, match="approval: expected 'auto' or 'write' or 'ask' or 'deny', found 'yolo'"):
            it.session.approvals.set_mode(cast("Any", "yolo"))
        assert it.session.approvals.mode == "ask"


async def test_rules_apply_in_every_mode(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"approvals": {"rules": [{"tool": "bash", "pattern": "false", "action": "deny"}]}}')
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "FAIRLEAD_HOME": str(tmp_path)}
    turns = [bash("false"), Turn(text="done")]
    async with agent(tmp_path, turns, env=env, isolated=False, approval="ask") as it:
        it.session.approvals.set_mode("auto")
        await it.ask("go")
        assert outcomes(it) == [False]


async def test_a_mode_change_reaches_the_current_run_and_its_sub_agents(tmp_path: Path) -> None:
    task = {"agent": "task", "tasks": [{"id": "Touch", "description": "d", "assignment": "a"}]}
    turns = [
        Turn(tool_calls=[ToolCall("t", "task", task)]),
        bash("touch first", "s1"),
        bash("touch second", "s2"),
        Turn(text="sub-agent done"),
        bash("touch third", "b1"),
        Turn(text="done"),
    ]
    async with agent(tmp_path, turns, tools=["bash", "task"], approval="auto") as it:
        person = Person(Deny())
        it.session.host.make_ui = lambda: person

        def listen(event: Event) -> None:
            if isinstance(event, SubagentEvent) and isinstance(event.event, ToolEnd):
                it.session.approvals.set_mode("ask")

        it.session.subscribe(listen)
        await it.ask("go")
        assert sorted(path.name for path in tmp_path.glob("*")) == ["first"]
        assert [(each.call_id, each.subagent) for each in person.asked] == [("s2", "Touch"), ("b1", None)]


# Calls of sub-agents


async def test_a_call_of_a_sub_agent_is_announced_before_it_is_asked_about(tmp_path: Path) -> None:
    task = {"agent": "task", "tasks": [{"id": "Touch", "description": "d", "assignment": "a"}]}
    turns = [
        Turn(tool_calls=[ToolCall("t", "task", task)]),
        bash("true", "s1"),
        Turn(text="sub-agent done"),
        Turn(text="done"),
    ]
    async with agent(tmp_path, turns, tools=["bash", "task"], approval="ask") as it:
        told: list[str] = []
        person = Person(Allow(), lambda: told.append("asked"))
        it.session.host.make_ui = lambda: person

        def listen(event: Event) -> None:
            if isinstance(event, SubagentEvent):
                assert event.id == "Touch"
                event = event.event
                if isinstance(event, ToolStart | ToolRunning | ToolEnd):
                    told.append(f"{type(event).__name__} {event.call_id}")
            elif isinstance(event, ToolApprovalRequested):
                told.append(f"requested {event.call_id}")

        it.session.subscribe(listen)
        await it.ask("go")
        assert told == ["ToolStart s1", "requested s1", "asked", "ToolRunning s1", "ToolEnd s1"]


# Todos


async def test_every_todo_list_change_emits_an_event(tmp_path: Path) -> None:
    op = {"op": "replace", "phases": [{"name": "One", "tasks": [{"content": "look"}]}]}
    turns = [Turn(tool_calls=[ToolCall("t", "todo_write", {"ops": [op]})]), Turn(text="done")]
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text('{"tasks": {"todoClearDelay": 0}, "todo": {"reminders": false}}')
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "FAIRLEAD_HOME": str(home)}
    async with agent(tmp_path, turns, tools=["todo_write"], env=env, isolated=False) as it:
        events: list[Event] = []
        it.session.subscribe(events.append)

        def contents() -> list[list[str]]:
            told = [event.todos for event in events if isinstance(event, TodosChanged)]
            return [[task.content for phase in todos for task in phase.tasks] for todos in told]

        await it.ask("go")
        assert contents() == [["look"]]
        it.session.todos.set([{"name": "Two", "tasks": [{"content": "act"}, {"content": "rest"}]}])
        assert contents()[1:] == [["act", "rest"]]
        await it.session.history.new()
        assert contents()[2:] == [[]]
        events.clear()
        it.session.todos.set([{"name": "Three", "tasks": [{"content": "done", "status": "completed"}, {"content": "open"}]}])
        while not any(isinstance(event, TodoAutoClear) for event in events):
            await _turn_of_the_loop()
        assert contents() == [["done", "open"], ["open"]]


async def _turn_of_the_loop() -> None:
    import asyncio

    await asyncio.sleep(0)


# Slash commands


async def test_a_change_of_the_slash_commands_emits_an_event(tmp_path: Path) -> None:
    extension = tmp_path / "greet.py"
    extension.write_text(
        "def setup(fl):\n    @fl.register_command('greet')\n    def greet(arguments, context):\n        'Greets.'\n"
    )
    async with agent(tmp_path, [Turn(text="done")], extensions=[extension]) as it:
        seen: list[list[str]] = []

        def listen(event: Event) -> None:
            if isinstance(event, CommandsChanged):
                seen.append([command.name for command in it.session.additions.slash_commands()])
            elif isinstance(event, SessionReplaced):
                seen.append(["replaced"])

        it.session.subscribe(listen)
        await it.ask("go")
        assert seen == [["greet"]], "when extensions have loaded"
        seen.clear()
        extension.write_text(extension.read_text().replace("greet'", "hello'"))
        await it.reload_extensions()
        assert seen[-1] == ["hello"]
        seen.clear()
        await it.session.history.new()
        assert seen[-1] == ["replaced"], "the directory is the same, and so are the commands"


async def test_a_session_of_another_directory_brings_other_commands(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with agent(there, [Turn(text="done")], store=Storage(tmp_path / "sessions")) as other:
        await other.ask("go")
        path = other.session.history.path
        assert path is not None
    async with agent(here, [Turn(text="done")]) as it:
        events: list[Event] = []
        it.session.subscribe(events.append)
        await it.session.history.switch(str(path))
        told = [type(event) for event in events if isinstance(event, CommandsChanged | SessionReplaced)]
        assert told[-2:] == [SessionReplaced, CommandsChanged]
