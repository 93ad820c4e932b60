"""Todos: how hosts and the model change the list, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.todo_lists import a_list, as_json, ids, phase, statuses

from fairlead.errors import BadCommand, ToolError
from fairlead.session.todos.todos import STATUSES, TodoList, TodoTask

# Set by hosts


def test_a_complete_list_is_taken_as_it_is() -> None:
    given = [
        {
            "id": "phase-1",
            "name": "Evaluation",
            "tasks": [
                {"id": "task-1", "content": "Map the read tool surface", "status": "in_progress"},
                {"id": "task-2", "content": "Exercise edit operations", "status": "pending", "notes": "n", "details": "d\ne"},
                {"id": "mine", "content": "Write it down", "status": "abandoned"},
            ],
        }
    ]
    todos = TodoList()
    assert as_json(todos.set(given)) == given
    assert as_json(todos.phases) == given


def test_missing_ids_and_statuses_are_filled_in() -> None:
    todos = a_list(phase("a", {"content": "b", "status": "completed"}), phase("c", name="Two"))
    assert as_json(todos.phases) == [
        {
            "id": "phase-1",
            "name": "One",
            "tasks": [
                {"id": "task-1", "content": "a", "status": "pending"},
                {"id": "task-2", "content": "b", "status": "completed"},
            ],
        },
        {"id": "phase-2", "name": "Two", "tasks": [{"id": "task-3", "content": "c", "status": "pending"}]},
    ]


def test_ids_are_counted_on_from_the_highest_wherever_it_is() -> None:
    todos = a_list(phase("a", {"id": "task-7", "content": "b"}), phase("c", {"id": "", "content": "d"}, id="phase-4"))
    assert ids(todos) == [("phase-5", ["task-8", "task-7"]), ("phase-4", ["task-9", "task-10"])]


@pytest.mark.parametrize("strange", ["task-" + "9" * 5000, "task-x", "task-", "TASK-5", "task--5", "task-\u0665", "5"])
def test_ids_of_another_form_are_kept_and_do_not_count(strange: str) -> None:
    assert ids(a_list(phase({"id": strange, "content": "a"}, "b"))) == [("phase-1", [strange, "task-1"])]


def test_an_id_that_was_given_before_is_exchanged() -> None:
    todos = a_list(phase({"id": "task-1", "content": "a"}), phase({"id": "task-1", "content": "b"}), phase(id="phase-1"))
    assert ids(todos) == [("phase-2", ["task-1"]), ("phase-3", ["task-2"]), ("phase-1", [])]
    todos = a_list(phase("a", id="x"), phase("b", id="x"))
    assert ids(todos) == [("x", ["task-1"]), ("phase-1", ["task-2"])]


def test_of_several_tasks_in_progress_the_first_stays_when_the_model_changes_the_list() -> None:
    busy = {"status": "in_progress"}
    todos = a_list(phase("a", {"content": "b", **busy}), phase({"content": "c", **busy}, {"content": "d", **busy}))
    assert [*statuses(todos).values()] == ["pending", "in_progress", "in_progress", "in_progress"]
    todos.apply([])
    assert statuses(todos) == {"task-1": "pending", "task-2": "in_progress", "task-3": "pending", "task-4": "pending"}


def test_if_none_is_in_progress_the_first_pending_one_begins_when_the_model_changes_the_list() -> None:
    todos = a_list(phase({"content": "a", "status": "completed"}), phase("b", "c"))
    assert statuses(todos) == {"task-1": "completed", "task-2": "pending", "task-3": "pending"}
    todos.apply([])
    assert statuses(todos) == {"task-1": "completed", "task-2": "in_progress", "task-3": "pending"}
    todos = a_list(phase({"content": "a", "status": "completed"}, {"content": "b", "status": "abandoned"}))
    assert statuses(todos) == {"task-1": "completed", "task-2": "abandoned"}


def test_null_means_absent_and_unknown_fields_are_dropped() -> None:
    task = {"id": None, "content": "a", "status": None, "notes": None, "details": None, "blocker": None, "x": 1}
    todos = a_list(phase(task, id=None, colour="red"))
    expected = [{"id": "phase-1", "name": "One", "tasks": [{"id": "task-1", "content": "a", "status": "pending"}]}]
    assert as_json(todos.phases) == expected


def test_an_empty_list_clears() -> None:
    todos = a_list(phase("a"))
    assert todos.set([]) == []
    assert todos.phases == [] and todos.open_items() == []


REFUSED_PHASES: list[tuple[Any, str]] = [
    (None, "phases: required, but missing"),
    ({}, "phases: expected a list, got an object"),
    (["Later"], 'phases[0]: expected an object, got "Later"'),
    ([None], "phases[0]: expected an object, got null"),
    ([{"tasks": []}], "phases[0].name: required, but missing"),
    ([{"name": " ", "tasks": []}], "phases[0].name: expected some text, got an empty string"),
    ([{"name": 5, "tasks": []}], "phases[0].name: expected a string, got 5"),
    ([phase(), {"name": "Two"}], "phases[1].tasks: required, but missing"),
    ([phase(tasks="a")], 'phases[0].tasks: expected a list, got "a"'),
    ([phase(id=1)], "phases[0].id: expected a string, got 1"),
    ([phase("a", {})], "phases[0].tasks[1].content: required, but missing"),
    ([phase({"content": ""})], "phases[0].tasks[0].content: expected some text, got an empty string"),
    ([phase({"content": ["a"]})], "phases[0].tasks[0].content: expected a string, got a list"),
    ([phase(tasks=["a"])], 'phases[0].tasks[0]: expected an object, got "a"'),
    ([phase({"content": "a", "id": 3})], "phases[0].tasks[0].id: expected a string, got 3"),
    ([phase({"content": "a", "notes": ["n"]})], "phases[0].tasks[0].notes: expected a string, got a list"),
    ([phase({"content": "a", "details": True})], "phases[0].tasks[0].details: expected a string, got true"),
    (
        [phase("a"), phase("b", {"content": "c", "status": "done"})],
        'phases[1].tasks[1].status: expected "pending", "in_progress", "completed" or "abandoned", got "done"',
    ),
    (
        [phase({"content": "c", "status": []})],
        'phases[0].tasks[0].status: expected "pending", "in_progress", "completed" or "abandoned", got a list',
    ),
]


@pytest.mark.parametrize(("phases", "complaint"), REFUSED_PHASES)
def test_invalid_todo_operations_are_refused_by_name_and_change_nothing(phases: Any, complaint: str) -> None:
    todos = a_list(phase("before"))
    before = as_json(todos.phases)
    with pytest.raises(BadCommand) as refused:
        todos.set(phases)
    assert str(refused.value) == complaint
    assert as_json(todos.phases) == before


def test_text_that_no_json_can_hold_is_mended() -> None:
    todos = a_list(phase({"content": "a\ud800", "notes": "\udfff"}))
    assert as_json(todos.phases)[0]["tasks"][0]["content"] == "a\ufffd"
    todos.apply([{"op": "add_phase", "name": "\ud800"}])
    assert as_json(todos.phases)[1]["name"] == "\ufffd"


# Changed by the model


def test_replace_renumbers_all_items() -> None:
    todos = a_list(phase("old", "older", id="phase-8"))
    todos.apply([{"op": "replace", "phases": [phase("a", {"id": "task-9", "content": "b"}), {"name": "Two"}]}])
    assert as_json(todos.phases) == [
        {
            "id": "phase-1",
            "name": "One",
            "tasks": [
                {"id": "task-1", "content": "a", "status": "in_progress"},
                {"id": "task-2", "content": "b", "status": "pending"},
            ],
        },
        {"id": "phase-2", "name": "Two", "tasks": []},
    ]


def test_phases_and_tasks_are_added_at_the_end() -> None:
    todos = a_list(phase("a", "b"), phase("c", name="Two"))
    todos.apply(
        [
            {"op": "add_task", "phase": "phase-1", "content": "d", "notes": "n", "details": "x"},
            {"op": "add_phase", "name": "Three"},
            {"op": "add_task", "phase": "phase-3", "content": "e"},
            {"op": "add_phase", "name": "Four", "tasks": [{"content": "f", "status": "completed"}]},
        ]
    )
    assert ids(todos) == [
        ("phase-1", ["task-1", "task-2", "task-4"]),
        ("phase-2", ["task-3"]),
        ("phase-3", ["task-5"]),
        ("phase-4", ["task-6"]),
    ]
    assert todos.phases[0].tasks[2] == TodoTask("task-4", "d", "pending", "n", "x")
    assert todos.phases[3].tasks[0].status == "completed"


def test_completing_the_current_task_begins_the_next() -> None:
    todos = a_list(phase("a"), phase("b", "c"))
    todos.apply([{"op": "update", "id": "task-1", "status": "completed"}])
    assert statuses(todos) == {"task-1": "completed", "task-2": "in_progress", "task-3": "pending"}
    assert [task.id for task in todos.open_items()] == ["task-2", "task-3"]


def test_a_task_that_is_begun_waits_for_the_one_in_progress_before_it() -> None:
    todos = a_list(phase({"content": "a", "status": "in_progress"}, "b"))
    todos.apply([{"op": "update", "id": "task-2", "status": "in_progress"}])
    assert statuses(todos) == {"task-1": "in_progress", "task-2": "pending"}
    todos.apply(
        [{"op": "update", "id": "task-1", "status": "pending"}, {"op": "update", "id": "task-2", "status": "in_progress"}]
    )
    assert statuses(todos) == {"task-1": "pending", "task-2": "in_progress"}


def test_an_update_changes_what_it_names_and_empty_remarks_go() -> None:
    todos = a_list(phase({"content": "a", "notes": "n", "details": "d"}))
    todos.apply([{"op": "update", "id": "task-1", "content": "A", "notes": "", "status": None}])
    assert todos.tasks() == [TodoTask("task-1", "A", "in_progress", None, "d")]
    todos.apply([{"op": "update", "id": "task-1", "details": "D"}])
    assert todos.tasks() == [TodoTask("task-1", "A", "in_progress", None, "D")]


def test_a_removed_task_leaves_its_phase_and_the_next_begins() -> None:
    todos = a_list(phase("a"), phase("b"))
    todos.apply([{"op": "remove_task", "id": "task-1"}])
    assert ids(todos) == [("phase-1", []), ("phase-2", ["task-2"])]
    assert statuses(todos) == {"task-2": "in_progress"}


def test_an_id_is_not_used_again_within_one_call() -> None:
    todos = a_list(phase("a", "b"))
    todos.apply([{"op": "remove_task", "id": "task-2"}, {"op": "add_task", "phase": "phase-1", "content": "c"}])
    assert ids(todos) == [("phase-1", ["task-1", "task-3"])]


REFUSED_OPS: list[tuple[Any, str]] = [
    (
        {"op": "update", "id": "task-9", "status": "completed"},
        'ops[1].id: no task has the id "task-9"; there are task-1, task-2',
    ),
    ({"op": "remove_task", "id": "a"}, 'ops[1].id: no task has the id "a"; there are task-1, task-2'),
    ({"op": "add_task", "phase": "One", "content": "c"}, 'ops[1].phase: no phase has the id "One"; there are phase-1'),
    ({"op": "add_task", "content": "c"}, "ops[1].phase: required, but missing"),
    ({"op": "add_task", "phase": "phase-1"}, "ops[1].content: required, but missing"),
    ({"op": "add_phase"}, "ops[1].name: required, but missing"),
    (
        {"op": "add_phase", "name": "x", "tasks": [{"content": ""}]},
        "ops[1].tasks[0].content: expected some text, got an empty string",
    ),
    ({"op": "replace"}, "ops[1].phases: required, but missing"),
    ({"op": "replace", "phases": [{"name": "x", "tasks": [{}]}]}, "ops[1].phases[0].tasks[0].content: required, but missing"),
    ({"op": "update"}, "ops[1].id: required, but missing"),
    ({"op": "update", "id": "task-1"}, "ops[1]: expected a status, content, notes or details to change"),
    ({"op": "update", "id": "task-1", "content": " "}, "ops[1].content: expected some text, got an empty string"),
    (
        {"op": "update", "id": "task-1", "status": "done"},
        'ops[1].status: expected "pending", "in_progress", "completed" or "abandoned", got "done"',
    ),
    (
        {"op": "done", "task": "a"},
        'ops[1].op: expected "replace", "add_phase", "add_task", "update" or "remove_task", got "done"',
    ),
    ({}, "ops[1].op: required, but missing"),
    ("update", 'ops[1]: expected an object, got "update"'),
]


@pytest.mark.parametrize(("op", "complaint"), REFUSED_OPS)
def test_if_one_change_is_wrong_none_is_made(op: Any, complaint: str) -> None:
    todos = a_list(phase("a", "b"))
    before = as_json(todos.phases)
    with pytest.raises(ToolError) as refused:
        todos.apply([{"op": "update", "id": "task-1", "status": "completed"}, op])
    assert str(refused.value) == f"{complaint}. Nothing was changed."
    assert as_json(todos.phases) == before


def test_where_nothing_is_there_no_id_is_found() -> None:
    todos = TodoList()
    with pytest.raises(ToolError, match=r'^ops\[0\]\.id: no task has the id "task-1"; there are no tasks\. Nothing'):
        todos.apply([{"op": "update", "id": "task-1", "status": "completed"}])
    with pytest.raises(ToolError, match=r"there are no phases\."):
        todos.apply([{"op": "add_task", "phase": "phase-1", "content": "a"}])


def test_a_list_that_is_held_stays_as_it_was() -> None:
    todos = a_list(phase("a", "b"))
    held = todos.phases
    before = as_json(held)
    todos.apply([{"op": "update", "id": "task-1", "status": "completed"}, {"op": "add_task", "phase": "phase-1", "content": "c"}])
    todos.remove(["task-1"])
    assert as_json(held) == before
    todos.phases = held
    assert statuses(todos) == {"task-1": "pending", "task-2": "pending"}


_status = st.sampled_from([None, *STATUSES])
_id = st.sampled_from(["task-1", "task-2", "task-3", "task-5", "mine", ""])
_new_task = st.fixed_dictionaries({"content": st.just("x")}, optional={"status": _status, "id": _id})
_new_phase = st.fixed_dictionaries({"name": st.just("P"), "tasks": st.lists(_new_task, max_size=4)})
_op = st.one_of(
    st.fixed_dictionaries({"op": st.just("replace"), "phases": st.lists(_new_phase, max_size=3)}),
    _new_phase.map(lambda phase: {"op": "add_phase", **phase}),
    st.fixed_dictionaries({"op": st.just("add_task"), "phase": st.sampled_from(["phase-1", "phase-2"]), "content": st.just("y")}),
    st.fixed_dictionaries({"op": st.just("update"), "id": _id, "status": st.sampled_from(STATUSES)}),
    st.fixed_dictionaries({"op": st.just("remove_task"), "id": _id}),
)


@settings(max_examples=200, deadline=None)
@given(phases=st.lists(_new_phase, max_size=3), calls=st.lists(st.lists(_op, max_size=3), max_size=4))
def test_random_operations_keep_the_list_consistent(phases: list[Any], calls: list[list[Any]]) -> None:
    todos = TodoList()
    todos.set(phases)
    for ops in [[], *calls]:
        try:
            todos.apply(ops)
        except ToolError:
            continue
        known = [task.id for task in todos.tasks()]
        assert len(set(known)) == len(known) and "" not in known
        assert len({phase.id for phase in todos.phases}) == len(todos.phases)
        assert [task.status for task in todos.open_items()].count("in_progress") == (1 if todos.open_items() else 0)
