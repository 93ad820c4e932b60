"""A host's part in running tools: what it offers, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.host import Frame
from tests.support.stage import Stage

ECHO: Frame = {
    "name": "echo",
    "description": "Say something again",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}

PROMPT: Frame = {"id": "p", "type": "prompt", "message": "go"}


def echo(text: str = "hi") -> tuple[str, Mapping[str, Any]]:
    """A call of the model's."""
    return "echo", {"text": text}


def tool(name: str, **more: Any) -> Frame:
    """A tool that takes nothing."""
    return {"name": name, "description": f"Does {name}", "parameters": {"type": "object"}, **more}


def output(*texts: str, **more: Any) -> Frame:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


def offer(host: Stage, *tools: Frame) -> list[str]:
    """Register tools; their names, as the agent has them."""
    answer = host.request("set_host_tools", tools=list(tools))
    assert answer["success"], answer
    return answer["data"]["toolNames"]


def begin(host: Stage, *tools: Frame) -> Frame:
    """Register tools and prompt; the first call of one."""
    offer(host, *(tools or (ECHO,)))
    host.send(PROMPT)
    return host.until("host_tool_call")


def result(call: Frame, outcome: Any, **more: Any) -> Frame:
    return {"type": "host_tool_result", "id": call["id"], "result": outcome, **more}


def update(call: Frame, so_far: Any) -> Frame:
    return {"type": "host_tool_update", "id": call["id"], "partialResult": so_far}


def of_type(host: Stage, type: str) -> list[Frame]:
    return [frame for frame in host.frames if frame["type"] == type]


def ends(host: Stage) -> list[tuple[str, bool]]:
    """The text of each tool that has ended, and whether it is an error."""
    found = of_type(host, "tool_execution_end")
    return [("".join(block.get("text", "") for block in end["result"]["content"]), end["isError"]) for end in found]


def ends_in_short(host: Stage) -> list[tuple[str, bool]]:
    """The same with the first line of each text."""
    return [(text.partition("\n")[0], is_error) for text, is_error in ends(host)]


def told(host: Stage, request: int) -> list[str]:
    """The names of the tools that the model was told of in a request, from 0."""
    return [each["name"] for each in host.provider.requests[request].body["tools"]]
