"""Turns that give work to sub-agents, and what a host is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.host import Frame
from tests.support.stage import Stage, Turn, calls, says


def gives(*assignments: str, agent: str = "task", **rest: Any) -> Turn:
    """A turn in which the model gives work away. The id of each sub-agent is its assignment's first word."""
    tasks = [{"id": text.split()[0], "description": f"about {text}", "assignment": text} for text in assignments]
    return calls(("task", {"agent": agent, "tasks": tasks, **rest}))


def answers(assignment: str, text: str, **rest: Any) -> Turn:
    """What the model says to a sub-agent with this assignment."""
    return {"match": assignment, **says(text), **rest}


def of_type(frames: Sequence[Frame], *types: str) -> list[Frame]:
    return [frame for frame in frames if frame["type"] in types]


def lives(frames: Sequence[Frame]) -> list[tuple[str, str]]:
    return [(frame["payload"]["id"], frame["payload"]["status"]) for frame in of_type(frames, "subagent_lifecycle")]


def subagents(host: Stage) -> dict[str, Frame]:
    return {each["id"]: each for each in host.request("get_subagents")["data"]["subagents"]}


def result(frames: Sequence[Frame]) -> tuple[str, bool]:
    """The text of the first finished task call, and whether it is an error."""
    (end,) = [frame for frame in of_type(frames, "tool_execution_end") if frame["toolName"] == "task"]
    return end["result"]["content"][0]["text"], end["isError"]
