"""What hosts of omp and of xcsh see of an agent that minds its own work: its todos, and rules for what it writes."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, Turn, calls, says

OMP_WATCH = Repertoire(reasoning="fake-2")
scenario = OMP_WATCH.scenario


def todos(**op: Any) -> Turn:
    return calls(("todo_write", {"ops": [op]}))


@scenario(
    todos(op="replace", phases=[{"name": "One", "tasks": [{"content": "first task"}, {"content": "second task"}]}]),
    todos(op="update", id="task-1", status="completed"),
    says("stopping early"),
    says("again stopping"),
    says("third"),
    says("fourth"),
    # Long enough for the model to stop three times before the task that is done leaves the list.
    settings={"tasks": {"todoClearDelay": 2}},
)
def todo_tool(host: Stage) -> None:
    host.prompt("work on it", id="p1")
    host.until("todo_auto_clear")
    host.request("get_state", id="s3")
    host.request("get_messages", id="m")


RULE = '---\ndescription: no forbidden\ncondition: "FORBIDDEN_WORD"\nscope: text\n---\nDo not say that word. Use ALLOWED.\n'


@scenario(
    # It goes on for as long as it is let.
    says("I will now say FORBIDDEN_WORD and then continue for a very long time", hangAfter=6),
    says("Corrected ALLOWED answer"),
    says("Again FORBIDDEN_WORD here"),
    files={".fairlead/rules/no-forbidden.md": RULE},
)
def ttsr(host: Stage) -> None:
    host.prompt("talk", id="p1")
    host.prompt("repeat", id="p2")
    host.request("get_messages", id="m")
