"""todo_write: what the model sends, and what it and the host get back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, AgentOptions
from fairlead.core.events import ToolEnd, ToolStart
from fairlead.core.messages import TextContent, ToolCall, ToolResultMessage
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import SessionError, ToolError
from fairlead.session.behaviour import Behaviour
from fairlead.session.todos.todo_keeper import todo_write_tool
from fairlead.session.todos.todos import TodoList
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

TWO_TASKS = {"op": "replace", "phases": [{"name": "One", "tasks": [{"content": "first task"}, {"content": "second task"}]}]}


def call(todos: TodoList, arguments: dict[str, Any], changes: list[int] | None = None) -> ToolResult:
    """Call the tool as a run would; each change adds to `changes` how many tasks there are then."""
    heard = [] if changes is None else changes
    tool = todo_write_tool(todos, lambda: heard.append(len(todos.tasks())))
    context = ToolContext("call", CancelToken(), lambda result: None)

    async def main() -> ToolResult:
        return await tool.run(tool.check_arguments(arguments), context)

    return asyncio.run(main())


def text_of(result: ToolResult | ToolResultMessage) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


def test_the_result_shows_what_is_left_and_the_whole_list() -> None:
    todos = TodoList()
    result = call(todos, {"ops": [TWO_TASKS]})
    assert text_of(result) == (
        "Remaining items (2):\n"
        "  - task-1 first task [in_progress] (One)\n"
        "  - task-2 second task [pending] (One)\n"
        'Phase 1/1 "One" — 0/2 tasks complete\n'
        "  One:\n"
        "    → task-1 first task\n"
        "    ○ task-2 second task"
    )
    assert result.details == {
        "phases": [
            {
                "id": "phase-1",
                "name": "One",
                "tasks": [
                    {"id": "task-1", "content": "first task", "status": "in_progress"},
                    {"id": "task-2", "content": "second task", "status": "pending"},
                ],
            }
        ],
        "storage": "session",
    }
    result = call(todos, {"ops": [{"op": "update", "id": "task-1", "status": "completed"}]})
    assert text_of(result) == (
        "Remaining items (1):\n"
        "  - task-2 second task [in_progress] (One)\n"
        'Phase 1/1 "One" — 1/2 tasks complete\n'
        "  One:\n"
        "    ✓ task-1 first task\n"
        "    → task-2 second task"
    )


def test_the_reported_phase_is_the_first_unfinished_one() -> None:
    todos = TodoList()
    done = {"content": "a", "status": "completed"}
    phases = [
        {"name": "One", "tasks": [done]},
        {"name": "Two", "tasks": [done, {"content": "b"}]},
        {"name": "Three", "tasks": [{"content": "c"}]},
    ]
    assert 'Phase 2/3 "Two" — 1/2 tasks complete' in text_of(call(todos, {"ops": [{"op": "replace", "phases": phases}]}))
    ended = text_of(call(todos, {"ops": [{"op": "update", "id": id, "status": "abandoned"} for id in ("task-3", "task-4")]}))
    assert ended.startswith('Remaining items (0): none\nPhase 3/3 "Three" — 1/1 tasks complete\n')
    assert "    ✗ task-3 b" in ended


def test_remarks_are_shown_for_the_task_in_progress_alone() -> None:
    tasks = [{"content": "a", "details": "in x.py\nand y.py", "notes": "slow"}, {"content": "b", "details": "hidden"}]
    shown = text_of(call(TodoList(), {"ops": [{"op": "add_phase", "name": "One", "tasks": tasks}]}))
    assert "[in_progress] (One)\n      in x.py\n      and y.py\n      slow\n  - task-2 b" in shown
    assert "hidden" not in shown


def test_an_item_takes_one_line_whatever_it_says() -> None:
    shown = text_of(call(TodoList(), {"ops": [{"op": "add_phase", "name": "O\nne", "tasks": [{"content": "a\n\n  b"}]}]}))
    assert "  - task-1 a b [in_progress] (O ne)\n" in shown


def test_an_empty_list_says_so() -> None:
    assert text_of(call(TodoList(), {"ops": []})) == "Remaining items (0): none"


def test_changes_are_announced_once_and_only_real_ones() -> None:
    todos, changes = TodoList(), list[int]()
    call(todos, {"ops": [TWO_TASKS, {"op": "add_task", "phase": "phase-1", "content": "third"}]}, changes)
    assert changes == [3]
    call(todos, {"ops": []}, changes)
    call(todos, {"ops": [{"op": "update", "id": "task-1", "status": "in_progress"}]}, changes)
    assert changes == [3]


async def test_a_change_that_cannot_be_kept_is_taken_back() -> None:
    todos = TodoList()

    def full_disk() -> None:
        raise SessionError("No space left")

    tool = todo_write_tool(todos, full_disk)
    with pytest.raises(SessionError):
        await tool.run({"ops": [TWO_TASKS]}, ToolContext("call", CancelToken(), lambda result: None))
    assert todos.phases == []


COMPLAINTS: list[tuple[Any, str]] = [
    ({}, "ops: missing"),
    ({"ops": "no JSON"}, "ops.0: "),
    ({"ops": [{"op": "finish"}]}, "ops.0.op: "),
    ({"ops": [{"op": "update", "id": "task-1", "status": "done"}]}, "ops.0.status: "),
    ({"ops": [{"op": "replace", "phases": [{"tasks": []}]}]}, "ops.0.phases.0.name: missing"),
    ({"ops": [{"op": "update", "id": "task-1", "status": "completed"}]}, 'no task has the id "task-1"'),
]


@pytest.mark.parametrize(("arguments", "complaint"), COMPLAINTS)
def test_wrong_arguments_are_answered_with_what_is_wrong(arguments: dict[str, Any], complaint: str) -> None:
    changes: list[int] = []
    with pytest.raises(ToolError) as refused:
        call(TodoList(), arguments, changes)
    assert complaint in str(refused.value)
    assert changes == []


@pytest.mark.parametrize(
    "ops",
    [TWO_TASKS, '[{"op": "add_phase", "name": "One"}]', '{"op": "add_phase", "name": "One"}'],
    ids=["object", "text", "both"],
)
def test_common_malformed_question_arguments_are_accepted(ops: Any) -> None:
    todos = TodoList()
    call(todos, {"ops": ops})
    assert [phase.name for phase in todos.phases] == ["One"]


@pytest.mark.parametrize("schedule", ["together", "exclusive"])
async def test_calls_of_one_turn_build_on_each_other(tmp_path: Path, schedule: Any) -> None:
    todos, changes = TodoList(), list[int]()
    calls = [
        ToolCall("c1", "todo_write", {"ops": [TWO_TASKS]}),
        ToolCall("c2", "todo_write", {"ops": [{"op": "add_task", "phase": "phase-1", "content": "third"}]}),
    ]
    model = Scripted([Turn(tool_calls=calls), Turn(text="Done.")])
    tool = todo_write_tool(todos, lambda: changes.append(len(todos.tasks())))
    behaviour = Behaviour(schedule=schedule)
    options = AgentOptions(
        model=SCRIPTED_MODEL, stream=model, cwd=tmp_path, isolated=True, extra_tools=[tool], behaviour=behaviour
    )
    async with Agent(options) as agent:
        heard = [event async for event in agent.run("plan it")]
        results = [m for m in agent.session.messages if isinstance(m, ToolResultMessage)]
    assert [result.is_error for result in results] == [False, False]
    assert changes == [2, 3]
    assert text_of(results[1]).startswith("Remaining items (3):\n")
    order = [(type(event), event.call_id) for event in heard if isinstance(event, ToolStart | ToolEnd)]
    one_by_one = [(ToolStart, "c1"), (ToolEnd, "c1"), (ToolStart, "c2"), (ToolEnd, "c2")]
    assert (order == one_by_one) == (schedule == "exclusive")
    assert [spec.name for spec in model.requests[0].tools][-1] == "todo_write"
    assert "todo_write: Plan work" in model.requests[0].system_prompt
