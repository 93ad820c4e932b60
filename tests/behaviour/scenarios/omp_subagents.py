"""What hosts of omp see when the model gives work to a sub-agent."""

from __future__ import annotations

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, calls, says

OMP_SUBAGENTS = Repertoire(reasoning="fake-2")
scenario = OMP_SUBAGENTS.scenario

TASK = {"agent": "task", "context": "ctx", "tasks": [{"id": "One", "description": "d", "assignment": "do it"}]}


@scenario({"match": "do it", **says("sub result")}, calls(("task", TASK)), says("y"))
def subagent(host: Stage) -> None:
    host.prompt("spawn", id="p1")
