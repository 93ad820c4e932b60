"""Todos over the wire: the host's list, the model's, reminders, clearing, and what lasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.session_file import read_strictly
from tests.support.stage import Stage, Turn, another, bash, calls, says, stage

FLAGS = ["--tools", "read,bash,todo_write"]
#: A plan of two tasks, as the model makes it.
PLAN = calls(
    ("todo_write", {"ops": [{"op": "replace", "phases": [{"name": "Work", "tasks": [{"content": "a"}, {"content": "b"}]}]}]})
)


def done(*ids: str, status: str = "completed") -> Turn:
    return calls(("todo_write", {"ops": [{"op": "update", "id": id, "status": status} for id in ids]}))


def statuses(host: Stage) -> list[tuple[str, str]]:
    phases = host.request("get_state")["data"]["todoPhases"]
    return [(task["id"], task["status"]) for phase in phases for task in phase["tasks"]]


def told(host: Stage, kind: str) -> list[Frame]:
    return [frame for frame in host.frames if frame["type"] == kind]


@pytest.fixture(params=["pi", "omp", "xcsh"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_hosts_list_is_filled_in_and_shown(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request("get_state")["data"]["todoPhases"] == []
        given = [{"name": "Work", "tasks": [{"content": "a"}, {"content": "b", "status": "completed"}]}]
        answer = host.request("set_todos", phases=given)["data"]["todoPhases"]
        assert [(task["id"], task["content"], task["status"]) for task in answer[0]["tasks"]] == [
            ("task-1", "a", "pending"),
            ("task-2", "b", "completed"),
        ]
        assert host.request("get_state")["data"]["todoPhases"] == answer
        assert host.request("set_todos", phases=[])["data"] == {"todoPhases": []}


@pytest.mark.parametrize("flags", [FLAGS, ["--no-tools"]])
def test_a_list_set_before_a_prompt_reaches_the_model_with_it(dialect: str, flags: list[str], tmp_path: Path) -> None:
    turns = [done("task-1", "task-2"), says("ok")] if flags is FLAGS else [says("ok")]
    with stage(tmp_path, dialect, turns, flags=flags) as host:
        host.request("set_todos", phases=[{"name": "Work", "tasks": [{"content": "dig a hole"}, {"content": "fill it"}]}])
        frames = host.prompt("go")
        asked = str(host.provider.requests[0].body["messages"])
        assert asked.index("dig a hole") < asked.index("fill it") < asked.index("go")
        assert ("todo_write" in asked) is (flags is FLAGS)
        first = next(frame["message"] for frame in frames if frame["type"] == "message_start")
        assert (first["role"], first["content"][0]["text"]) == ("user", "go"), "the host knows its own list"
        host.prompt("again")
        assert str(host.provider.requests[-1].body["messages"]).count("This is the todo list") == 1, "it is told once"


def test_a_list_set_before_the_first_prompt_survives_the_process(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["--no-tools"]) as host:
        host.request("set_todos", phases=[{"name": "Work", "tasks": [{"content": "dig a hole"}]}])
        path = host.request("get_state")["data"]["sessionFile"]
        assert host.leave() == 0
        with another(host, dialect, "--no-tools", "--session", path) as later:
            later.prompt("go")
            assert "dig a hole" in str(host.provider.requests[0].body["messages"])


@pytest.mark.parametrize("phases", [None, "x", [{"name": "W"}], [{"name": "W", "tasks": [{"content": "a", "status": "bogus"}]}]])
def test_a_malformed_todo_list_is_refused_and_changes_nothing(phases: Any, tmp_path: Path) -> None:
    with stage(tmp_path, "omp") as host:
        before = host.request("set_todos", phases=[{"name": "W", "tasks": [{"content": "a"}]}])["data"]
        answer = host.request("set_todos", phases=phases)
        assert answer["success"] is False
        assert "phases" in answer["error"]
        assert {"todoPhases": host.request("get_state")["data"]["todoPhases"]} == before


def test_a_model_that_stops_too_early_is_reminded_as_often_as_the_limit_says(dialect: str, tmp_path: Path) -> None:
    turns = [PLAN, says("done?"), says("still?"), says("hm"), says("no more")]
    with stage(tmp_path, dialect, turns, flags=FLAGS) as host:
        frames = host.prompt("go!")
        reminders = [frame for frame in frames if frame["type"] == "todo_reminder"]
        assert [(frame["attempt"], frame["maxAttempts"]) for frame in reminders] == [(1, 3), (2, 3), (3, 3)]
        assert [task["content"] for task in reminders[0]["todos"]] == ["a", "b"]
        assert len(host.provider.requests) == 5
        assert "incomplete todo item(s)" in str(host.provider.requests[2].body["messages"][-1])
        ends = [frame for frame in frames if frame["type"] == "agent_end"]
        assert len(ends) == (4 if dialect == "pi" else 1)
        assert [frame["type"] for frame in frames].count("agent_settled") == 1
        if dialect == "pi":
            assert [end["willRetry"] for end in ends] == [True, True, True, False]
        else:
            assert len(ends[0]["messages"]) == 7
        frames = host.prompt("again!")
        assert [frame["type"] for frame in frames].count("todo_reminder") == 3


def test_no_reminder_is_sent_when_all_todos_are_done(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [PLAN, done("task-1", "task-2"), says("done")], flags=FLAGS) as host:
        host.prompt("go!")
        assert told(host, "todo_reminder") == []
        assert statuses(host) == [("task-1", "completed"), ("task-2", "completed")]


def test_a_run_ended_by_a_limit_gets_no_todo_reminder(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [PLAN, *[calls(bash("echo a"))] * 4, says("x")], flags=FLAGS) as host:
        assert host.prompt("go!")[-1]["type"] == "agent_settled"
        assert told(host, "todo_reminder") == []
        assert len(host.provider.requests) == 5
    with stage(tmp_path / "turns", "omp", [PLAN, says("done?"), says("x")], flags=[*FLAGS, "--max-turns", "2"]) as host:
        assert host.prompt("go!")[-1]["type"] == "agent_settled"
        assert told(host, "todo_reminder") == []
        assert len(host.provider.requests) == 2


def test_an_aborted_run_gets_no_todo_reminder(tmp_path: Path) -> None:
    endless = {"text": "word " * 2000, "chunk": 8, "delayMs": 60_000}
    with stage(tmp_path, "omp", [PLAN, endless], flags=FLAGS) as host:
        host.send({"id": "p", "type": "prompt", "message": "go!"})
        host.update("text_delta")
        host.request("abort")
        assert told(host, "todo_reminder") == []


def test_finished_todos_are_removed_after_a_while(tmp_path: Path) -> None:
    settings = {"tasks": {"todoClearDelay": 0}}
    with stage(tmp_path, "xcsh", [PLAN, done("task-1", "task-2"), says("done")], flags=FLAGS, settings=settings) as host:
        host.prompt("go!")
        assert host.until("todo_auto_clear") == {"type": "todo_auto_clear"}
        assert host.request("get_state")["data"]["todoPhases"] == []


@pytest.mark.parametrize(("dialect", "reminded"), [("pi", 0), ("omp", 3), ("xcsh", 3)])
def test_the_users_settings_hold_in_pi_only(dialect: str, reminded: int, tmp_path: Path) -> None:
    settings = {"todo": {"reminders": False}}
    with stage(tmp_path, dialect, [PLAN, says("x")], flags=FLAGS, settings=settings) as host:
        frames = host.prompt("go!")
        assert [frame["type"] for frame in frames].count("todo_reminder") == reminded


def test_todos_survive_a_restart_and_follow_the_session(tmp_path: Path) -> None:
    with stage(tmp_path / "1", "omp", [PLAN, done("task-1", status="abandoned"), says("x")], flags=FLAGS) as host:
        host.prompt("go!")
        file = host.request("get_state")["data"]["sessionFile"]
        before = statuses(host)
        host.request("new_session")
        assert statuses(host) == []
        host.request("switch_session", sessionPath=file)
        assert statuses(host) == before
        host.leave()
    lines = read_strictly(Path(file))
    assert [note["customType"] for note in lines.notes].count("fairlead.todos") == 2
    assert lines.of("custom") == []
    with stage(tmp_path / "2", "omp", flags=["--session", file]) as host:
        assert statuses(host) == before == [("task-1", "abandoned"), ("task-2", "in_progress")]


@pytest.mark.parametrize(
    ("dialect", "message", "planned"), [("xcsh", "build it", True), ("xcsh", "why?", False), ("omp", "build it", False)]
)
def test_xcsh_has_the_model_plan_before_the_first_prompt(dialect: str, message: str, planned: bool, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt(message)
        first = next(frame["message"] for frame in host.frames if frame["type"] == "message_start")
        assert (first.get("customType") == "eager-todo-prelude") is planned
        asked = host.provider.requests[0].body["messages"]
        assert ("todo_write" in str(asked)) is planned
        host.prompt("more")
        assert [f["message"]["role"] for f in told(host, "message_start")].count("custom") == planned


def test_pi_has_the_tool_only_when_it_is_named(tmp_path: Path) -> None:
    with stage(tmp_path / "1", "pi") as host:
        assert "todo_write" not in [tool["name"] for tool in host.request("get_tools")["data"]["tools"]]
    with stage(tmp_path / "2", "pi", flags=FLAGS) as host:
        assert "todo_write" in [tool["name"] for tool in host.request("get_tools")["data"]["tools"]]
