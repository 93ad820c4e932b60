"""What a session does about todos by itself: it keeps the list, clears what is done, and reminds the model."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.session.todo_lists import a_list, as_json, ids, phase, statuses

from fairlead.session.todos.todo_keeper import AutoClear, Reminders, eager_prelude
from fairlead.session.todos.todos import TodoList, from_entry_data, to_entry_data

# Kept in the session file


def test_a_list_comes_back_from_its_entry_as_it_was() -> None:
    todos = a_list(phase("a", {"content": "b", "status": "abandoned", "notes": "n", "details": "d"}), phase(name="Later"))
    data = json.loads(msgspec.json.encode(to_entry_data(todos.phases)))
    assert data == {"phases": as_json(todos.phases)}
    assert from_entry_data(data) == todos.phases


def test_an_entry_that_is_damaged_keeps_what_can_be_understood() -> None:
    data: dict[str, Any] = {
        "phases": [
            {"id": 5, "tasks": [{"content": "a", "status": "done", "notes": [1], "extra": 1}, {"content": ""}, {}, "x", None]},
            "phase",
            {"id": "phase-1", "name": "Two", "tasks": [{"id": "task-1", "content": "b\ud800", "status": "in_progress"}]},
            {"name": "Three", "tasks": {}},
        ]
    }
    assert as_json(from_entry_data(data)) == [
        {"id": "phase-2", "name": "Todos", "tasks": [{"id": "task-2", "content": "a", "status": "pending"}]},
        {"id": "phase-1", "name": "Two", "tasks": [{"id": "task-1", "content": "b\ufffd", "status": "in_progress"}]},
        {"id": "phase-3", "name": "Three", "tasks": []},
    ]


@pytest.mark.parametrize("data", [None, [], "x", 5, {}, {"phases": None}, {"phases": {}}, {"phases": [1]}])
def test_an_entry_that_says_nothing_is_an_empty_list(data: Any) -> None:
    assert from_entry_data(data) == []


# Cleared


def test_finished_todos_are_removed_when_due() -> None:
    todos = a_list(phase("a", "b", "c"))
    clear = AutoClear(todos, 60)
    assert clear.next_due(1_000) is None
    todos.apply([{"op": "update", "id": "task-1", "status": "completed"}])
    assert clear.next_due(2_000) == 62_000
    todos.apply([{"op": "update", "id": "task-2", "status": "abandoned"}])
    assert clear.next_due(30_000) == 62_000
    assert not clear.clear_done(61_999)
    assert ids(todos) == [("phase-1", ["task-1", "task-2", "task-3"])]
    assert clear.clear_done(62_000)
    assert ids(todos) == [("phase-1", ["task-2", "task-3"])]
    assert clear.next_due(62_000) == 90_000
    assert clear.clear_done(90_000)
    assert statuses(todos) == {"task-3": "in_progress"}
    assert clear.next_due(90_000) is None


def test_a_phase_goes_with_its_last_task_but_not_for_being_empty() -> None:
    todos = a_list(phase({"content": "a", "status": "completed"}), phase(name="Later"), phase("b", name="Now"))
    clear = AutoClear(todos, 0)
    assert clear.clear_done(5)
    assert [phase.name for phase in todos.phases] == ["Later", "Now"]


def test_a_task_that_is_taken_up_again_stays() -> None:
    todos = a_list(phase({"content": "a", "status": "completed"}))
    clear = AutoClear(todos, 1)
    assert clear.next_due(0) == 1_000
    todos.apply([{"op": "update", "id": "task-1", "status": "in_progress"}])
    assert clear.next_due(500) is None
    assert not clear.clear_done(1_000)
    todos.apply([{"op": "update", "id": "task-1", "status": "completed"}])
    assert clear.next_due(1_500) == 2_500


def test_another_task_of_the_same_id_has_its_own_time() -> None:
    todos = a_list(phase({"content": "a", "status": "completed"}))
    clear = AutoClear(todos, 1)
    assert clear.next_due(0) == 1_000
    todos.apply([{"op": "replace", "phases": [phase({"content": "b", "status": "completed"})]}])
    assert clear.next_due(900) == 1_900
    assert not clear.clear_done(1_000)


def test_with_a_negative_delay_nothing_is_ever_cleared() -> None:
    todos = a_list(phase({"content": "a", "status": "completed"}))
    clear = AutoClear(todos, -1)
    assert clear.next_due(0) is None
    assert not clear.clear_done(10**12)
    assert len(todos.tasks()) == 1


# Said to the model


def test_a_reminder_names_what_is_left_and_which_one_it_is() -> None:
    todos = a_list(phase({"content": "first", "status": "completed"}, "second", "third"))
    reminders = Reminders(3)
    reminder = reminders.next(todos.open_items())
    assert reminder is not None
    assert (reminder.attempt, reminder.max_attempts) == (1, 3)
    assert [task.id for task in reminder.todos] == ["task-2", "task-3"]
    assert reminder.text.startswith("<system-reminder>\nYou stopped with 2 incomplete todo item(s):\n")
    assert reminder.text.endswith("(Reminder 1/3)\n</system-reminder>")
    assert "- task-2 second [pending]\n- task-3 third [pending]\n" in reminder.text
    assert "first" not in reminder.text


def test_reminders_end_at_their_limit_and_begin_again_with_the_next_prompt() -> None:
    items = a_list(phase("a")).open_items()
    reminders = Reminders(2)
    attempts = [reminder and reminder.attempt for reminder in (reminders.next(items) for _ in range(4))]
    assert attempts == [1, 2, None, None]
    reminders.begin()
    again = reminders.next(items)
    assert again is not None and again.attempt == 1


def test_without_anything_left_there_is_no_reminder_and_none_is_counted() -> None:
    reminders = Reminders(1)
    assert reminders.next([]) is None
    assert reminders.next(a_list(phase("a")).open_items()) is not None
    assert Reminders(0).next(a_list(phase("a")).open_items()) is None


@pytest.mark.parametrize("text", ["Fix the test", "What is this? Repair it.", ""])
def test_a_prompt_that_asks_for_work_is_preceded_by_a_call_for_a_plan(text: str) -> None:
    prelude = eager_prelude(text, TodoList())
    assert prelude is not None
    assert prelude.startswith("<system-reminder>\n") and prelude.endswith("\n</system-reminder>")
    assert "todo_write" in prelude


@pytest.mark.parametrize("text", ["What is this?", "Stop!  \n", "これは何ですか\uff1f", "やめて\uff01", "ما هذا\u061f"])
def test_questions_and_exclamations_need_no_plan(text: str) -> None:
    assert eager_prelude(text, TodoList()) is None


def test_no_plan_is_requested_while_one_exists() -> None:
    assert eager_prelude("Fix the test", a_list(phase("a"))) is None
