"""Opal's tasks: the graph of them, whatever is done to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.agent.tool_sets.opal.tasks import (
    Draft,
    Op,
    Task,
    TaskList,
    filter_tasks,
    from_entry_data,
    open_tasks,
    payload,
    to_entry_data,
)
from fairlead.errors import ToolError

NOW = "2026-11-15 06:27:08.281458"


def done_to(state: TaskList, *ops: Op) -> TaskList:
    draft = Draft(state, NOW)
    for op in ops:
        draft.apply(op)
    return draft.finish()


def insert(label: str = "work", **rest: Any) -> Op:
    return Op(action="insert", label=label, **rest)


def update(*ids: int, **rest: Any) -> Op:
    return Op(action="update", ids=ids, **rest)


def delete(*ids: int) -> Op:
    return Op(action="delete", ids=ids)


def statuses(state: TaskList) -> dict[int, str]:
    return {task.id: task.status for task in state.tasks.values()}


CHAIN = done_to(TaskList(), insert("a"), insert("b", blocked_by=(1,)), insert("c", blocked_by=(2,)))


# Waiting


def test_a_task_that_waits_for_an_open_one_is_blocked_and_opens_when_that_is_done() -> None:
    assert statuses(CHAIN) == {1: "open", 2: "blocked", 3: "blocked"}
    draft = Draft(CHAIN, NOW)
    draft.apply(update(1, status="done"))
    state = draft.finish()
    assert statuses(state) == {1: "done", 2: "open", 3: "blocked"}
    assert state.tasks[2].blocked_by == ()
    assert draft.changes == [
        {"op": "update", "id": 1, "changed_fields": ["status"]},
        {"op": "auto_unblock", "id": 2, "changed_fields": ["blocked_by", "status"]},
    ]


def test_a_task_opens_only_when_the_last_of_those_it_waits_for_is_done() -> None:
    state = done_to(TaskList(), insert(), insert(), insert(blocked_by=(1, 2)))
    state = done_to(state, update(1, status="done"))
    assert (state.tasks[3].status, state.tasks[3].blocked_by) == ("blocked", (2,))
    assert done_to(state, update(2, status="done")).tasks[3].status == "open"


def test_a_deleted_task_blocks_no_other() -> None:
    assert done_to(CHAIN, delete(1)).tasks[2].status == "open"


def test_finished_tasks_block_no_other() -> None:
    state = done_to(TaskList(), insert(status="done"), insert(blocked_by=(1,)))
    assert (state.tasks[2].status, state.tasks[2].blocked_by) == ("open", ())


@pytest.mark.parametrize("status", ["open", "in_progress"])
def test_starting_a_blocked_task_is_refused(status: str) -> None:
    draft = Draft(CHAIN, NOW)
    draft.apply(update(2, status=status))
    assert draft.finish().tasks[2].status == "blocked"
    assert draft.notes == [f"Task #2 is blocked, not {status}: it waits for #1."]


def test_taking_away_what_a_task_waits_for_opens_it() -> None:
    assert done_to(CHAIN, update(2, blocked_by=())).tasks[2].status == "open"


def test_a_task_may_be_blocked_by_an_unknown_id() -> None:
    state = done_to(TaskList(), insert(status="blocked"), insert())
    assert done_to(state, update(2, status="done")).tasks[1].status == "blocked"


# Circles


@pytest.mark.parametrize(
    ("ops", "way"),
    [
        ([update(1, blocked_by=(1,))], "1 → 1"),
        ([update(1, blocked_by=(2,))], "1 → 2 → 1"),
        ([update(1, blocked_by=(3,))], "1 → 3 → 2 → 1"),
        ([insert(blocked_by=(5,)), insert(blocked_by=(4,))], "4 → 5 → 4"),
        ([insert(blocked_by=(3,)), update(1, blocked_by=(4,))], "1 → 4 → 3 → 2 → 1"),
        ([insert(blocked_by=(4,))], "4 → 4"),
    ],
)
def test_waiting_in_a_circle_is_refused(ops: list[Op], way: str) -> None:
    with pytest.raises(ToolError, match=rf"^Cycle detected: {way} \(blocked_by\). Nothing was changed.$"):
        done_to(CHAIN, *ops)


def test_being_a_part_of_oneself_is_refused() -> None:
    state = done_to(TaskList(), insert(), insert(parent_id=1), insert(parent_id=2))
    with pytest.raises(ToolError, match=r"Cycle detected: 1 → 3 → 2 → 1 \(parent_id\)"):
        done_to(state, update(1, parent_id=3))


def test_a_long_chain_is_not_a_cycle() -> None:
    state = done_to(TaskList(), insert(), *(insert(blocked_by=(id,)) for id in range(1, 3000)))
    with pytest.raises(ToolError, match="Cycle detected"):
        done_to(state, update(1, blocked_by=(3000,)))


# Links


def test_a_link_to_a_task_that_is_not_there_is_refused() -> None:
    with pytest.raises(ToolError, match="Task #4: blocked_by references unknown task #9; Task #4: parent_id references unknown"):
        done_to(CHAIN, insert(blocked_by=(9,), parent_id=8))


def test_ops_may_refer_to_tasks_that_later_ones_make() -> None:
    state = done_to(TaskList(), insert(blocked_by=(2,)), insert(parent_id=3), insert())
    assert statuses(state) == {1: "blocked", 2: "open", 3: "open"}


def test_the_parts_of_a_task_that_is_deleted_go_up() -> None:
    state = done_to(TaskList(), insert(), insert(parent_id=1), insert(parent_id=2))
    assert done_to(state, delete(2)).tasks[3].parent_id == 1
    assert done_to(state, delete(1, 2)).tasks[3].parent_id is None


def test_no_id_is_given_twice() -> None:
    state = done_to(done_to(TaskList(), insert(), insert()), delete(2))
    assert list(done_to(state, insert()).tasks) == [1, 3]


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        (insert(" "), "insert: expected a label"),
        (Op(action="update", status="done"), "update: expected the id of a task"),
        (update(1), "update: expected something to change"),
        (update(1, label=""), "a label cannot be empty"),
        (update(1, 9, status="done"), "Task #9 not found. The tasks are: #1, #2, #3."),
        (delete(9), "Task #9 not found"),
    ],
)
def test_an_op_that_makes_no_sense_is_refused(op: Op, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        done_to(CHAIN, op)


# Whatever is done

IDS = st.integers(1, 6)
LINKS = st.none() | st.lists(IDS, max_size=3, unique=True).map(tuple)
STATUS = st.none() | st.sampled_from(["open", "in_progress", "done", "blocked"])
OPS = st.one_of(
    st.builds(insert, status=STATUS, blocked_by=LINKS, parent_id=st.none() | st.integers(0, 6)),
    st.builds(update, IDS, notes=st.just("n"), status=STATUS, blocked_by=LINKS, parent_id=st.integers(0, 6)),
    st.builds(delete, IDS),
)


def reaches_itself(links: Mapping[int, tuple[int, ...]], start: int) -> bool:
    seen: set[int] = set()
    ahead = list(links[start])
    while ahead:
        id = ahead.pop()
        if id == start:
            return True
        if id not in seen:
            seen.add(id)
            ahead += links[id]
    return False


@settings(max_examples=150)
@given(st.lists(st.lists(OPS, min_size=1, max_size=4), max_size=12))
def test_random_changes_keep_the_task_graph_consistent(batches: list[list[Op]]) -> None:
    state = TaskList()
    for batch in batches:
        before = json.dumps(to_entry_data(state))
        draft = Draft(state, NOW)
        try:
            for op in batch:
                draft.apply(op)
            state = draft.finish()
        except ToolError:
            assert json.dumps(to_entry_data(state)) == before
        tasks = state.tasks
        for task in tasks.values():
            assert set(task.blocked_by) <= set(tasks)
            assert task.parent_id is None or task.parent_id in tasks
            unfinished = [id for id in task.blocked_by if tasks[id].status != "done"]
            assert task.status in ("blocked", "done") or not unfinished
            assert len(unfinished) == len(task.blocked_by)
        waits = {task.id: task.blocked_by for task in tasks.values()}
        belongs = {task.id: () if task.parent_id is None else (task.parent_id,) for task in tasks.values()}
        assert not any(reaches_itself(links, id) for links in (waits, belongs) for id in tasks)
        assert all(id <= state.last_id for id in tasks)
        assert from_entry_data(json.loads(json.dumps(to_entry_data(state)))) == state


@settings(max_examples=100)
@given(st.lists(LINKS.map(lambda links: links or ()), min_size=1, max_size=6))
def test_work_in_the_order_of_ready_tasks_always_comes_to_an_end(waits: list[tuple[int, ...]]) -> None:
    try:
        state = done_to(TaskList(), *(insert(blocked_by=links) for links in waits))
    except ToolError:
        return
    for _ in waits:
        ready = filter_tasks(state.tasks.values(), Op(action="list", view="ready"))
        assert ready
        state = done_to(state, update(ready[0].id, status="done"))
    assert set(statuses(state).values()) == {"done"}


# Showing


def test_tasks_are_shown_with_their_types_and_those_they_wait_for_as_a_list() -> None:
    state = done_to(CHAIN, update(2, parent_id=1, prompt="do it"))
    told = payload("list", list(state.tasks.values()), tree=True)
    assert told["tasks"][1] == {
        "id": 2,
        "label": "b",
        "status": "blocked",
        "done": False,
        "parent_id": 1,
        "prompt": "do it",
        "result": None,
        "notes": "",
        "blocked_by": ["1"],
        "created_at": NOW,
        "updated_at": NOW,
        "depth": 1,
    }
    del told["tasks"]
    assert told == {
        "kind": "tasks",
        "action": "list",
        "total": 3,
        "counts": {"open": 1, "in_progress": 0, "done": 0, "blocked": 2},
        "changes": [],
        "notes": [],
    }


def test_a_tree_has_parts_behind_what_they_belong_to_and_loses_nothing() -> None:
    ops = [insert("a"), insert("b"), insert("a1", parent_id=1), insert("b1", parent_id=2), insert("a11", parent_id=3)]
    tasks = list(done_to(TaskList(), *ops).tasks.values())

    def tree(shown: list[Task]) -> list[tuple[str, int]]:
        return [(task["label"], task["depth"]) for task in payload("list", shown, tree=True)["tasks"]]

    assert tree(tasks) == [("a", 0), ("a1", 1), ("a11", 2), ("b", 0), ("b1", 1)]
    assert tree(tasks[2:]) == [("a1", 0), ("a11", 1), ("b1", 0)]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, [1, 2, 3, 4]),
        ({"view": "ready"}, [4]),
        ({"view": "blocked"}, [2, 3]),
        ({"view": "done"}, []),
        ({"status": "in_progress"}, [1]),
        ({"parent_id": 1}, [3]),
        ({"parent_id": 0}, [1, 2, 4]),
        ({"blocked_by": (2,)}, [3]),
        ({"label": "b"}, [2]),
    ],
)
def test_a_list_can_be_narrowed_down(wanted: dict[str, Any], ids: list[int]) -> None:
    state = done_to(CHAIN, update(3, parent_id=1), update(1, status="in_progress"), insert("d"))
    assert [task.id for task in filter_tasks(state.tasks.values(), Op(action="list", **wanted))] == ids


def test_the_list_for_hosts_has_what_is_not_done_and_texts_alone() -> None:
    state = done_to(CHAIN, update(1, status="done"), update(3, parent_id=2, blocked_by=(2,)))
    tasks = open_tasks(state.tasks.values())
    assert [task.id for task in tasks] == ["2", "3"]
    assert msgspec.to_builtins(tasks[1]) == {
        "id": "3",
        "label": "c",
        "status": "blocked",
        "parent_id": "2",
        "blocked_by": "2",
        "prompt": "",
        "result": "",
        "notes": "",
        "created_at": NOW,
        "updated_at": NOW,
    }


@pytest.mark.parametrize("data", [None, 5, {}, {"tasks": 1}, {"tasks": [{"id": "x"}]}])
def test_a_malformed_task_entry_counts_as_an_empty_list(data: Any) -> None:
    assert from_entry_data(data) == TaskList()
