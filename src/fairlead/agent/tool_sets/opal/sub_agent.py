"""Opal's sub_agent tool, which gives work to a sub-agent."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import msgspec

from fairlead.agent.tool_sets import ToolServices
from fairlead.core.events import Event, SubagentEvent, ToolEnd, ToolStart
from fairlead.core.lenient import scrub
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.protocol.opal.statuses import without_statuses
from fairlead.session.subagents.agents import BUILT_IN, AgentDefinition
from fairlead.session.subagents.subagent import cut
from fairlead.session.subagents.subagents import Order
from fairlead.tools import object_schema, repair_arguments, string
from fairlead.tools.opal.results import SUB_AGENT, text_of
from fairlead.tools.truncate import head

#: How many characters the host sees of the prompt, and the model of each logged call's arguments, result and error.
_LABEL, _ARGUMENTS, _RESULT, _FAILURE = 80, 500, 500, 200

_PARAMETERS = object_schema(
    {
        "prompt": string("What to do, and what the answer should contain"),
        "tools": {"type": "array", "items": {"type": "string"}, "description": "The tools it may use; all if left out"},
        "model": string("The id of its model; the same as yours if left out"),
        "system_prompt": string("Replaces its own instructions"),
    },
    "prompt",
)


def sub_agent_tool(services: ToolServices) -> Tool:
    return Tool(
        name="sub_agent",
        description=(
            "Give a piece of work to a sub-agent and get its answer, below a log of the tools it called. It sees nothing of this"
            " conversation but the prompt. Sub-agents of several calls in one turn work at the same time."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_sub_agent, services),
        kind="think",
        title=lambda arguments: f"Sub-agent: {arguments['prompt']}",
        harmless=True,
        snippet="Give work to sub-agents",
        guidelines=("Give independent pieces of work to sub-agents in one turn; do small ones yourself.",),
        bound=True,
        timeout=None,
        grace=1.0,  # more than the sub-agent's own tools have
        prepare=repair_arguments,
    )


async def _run_sub_agent(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Let a sub-agent do what the call says, and return its answer.

    Raises ToolError if the sub-agent cannot be started, fails or is aborted.
    """
    subagents = services.subagents
    if not subagents.may_spawn:
        raise ToolError("Sub-agents are not available here. Do the work yourself.")
    available = _available(services)
    agent = _agent(arguments, available)
    # Opal's hosts know ids of this form.
    order = Order(f"sub-{os.urandom(16).hex()}", cut(arguments["prompt"], _LABEL), arguments["prompt"])
    child = subagents.prepare(agent, [order], "", context.call_id)[0]
    start = {
        "id": child.assignment.id,
        "label": child.assignment.description,
        "model": agent.model or (services.model.id if services.model is not None else ""),
        "tools": [name for name in available if agent.tools is None or name in agent.tools],
    }
    context.update(ToolResult([], {SUB_AGENT: start}))
    log = _CallLog(child.assignment.id)
    forget = services.subscribe(log.add)
    try:
        await subagents.work([child], context.cancel)
    finally:
        forget()
    answer = log.above(without_statuses(child.output))
    if child.status == "completed":
        return ToolResult.text(answer or "(no answer)")
    problem = "Operation aborted" if child.error is None else f"Sub-agent failed: {child.error}"
    raise ToolError(f"{answer}\n\n{problem}" if answer else problem)


def _available(services: ToolServices) -> list[str]:
    """The tools that a sub-agent can have: as in `fairlead.session.subagents.spawner`, only those that its parent may use."""
    made = services.subagents.family.make_tools(services.workspace)
    return [name for name, tool in services.toolbox.active_tools().items() if name in made or not tool.bound]


def _agent(arguments: dict[str, Any], available: list[str]) -> AgentDefinition:
    tools: list[str] | None = arguments.get("tools")
    unknown = [name for name in tools or () if name not in available]
    if unknown:
        raise ToolError(f"tools: a sub-agent cannot have {', '.join(unknown)}. It can have: {', '.join(available)}.")
    return AgentDefinition(
        name="sub_agent",
        description="does one piece of work",
        prompt=arguments.get("system_prompt") or BUILT_IN[0].prompt,
        tools=None if tools is None else tuple(tools),
        model=arguments.get("model"),
    )


class _CallLog:
    """The tool calls of a sub-agent and their results, in short."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._calls: dict[str, str] = {}
        self._results: dict[str, str] = {}

    def add(self, event: Event) -> None:
        match event:
            case SubagentEvent(id=self._id, event=ToolStart() as call):
                arguments = msgspec.json.encode(scrub(call.arguments)).decode()
                self._calls[call.call_id] = f"{call.tool_name}({cut(arguments, _ARGUMENTS)})"
            case SubagentEvent(id=self._id, event=ToolEnd(is_error=False) as end):
                self._results[end.call_id] = cut(text_of(end.result), _RESULT)
            case SubagentEvent(id=self._id, event=ToolEnd() as end):
                self._results[end.call_id] = f"ERROR: {cut(text_of(end.result), _FAILURE)}"
            case _:
                pass

    def above(self, answer: str) -> str:
        """The text for the model: the answer, below the calls if there were any. The form is Opal's."""
        if not self._calls:
            return head(answer).content
        calls = "\n".join(f"- {call}: {self._results.get(id, '(no result)')}" for id, call in self._calls.items())
        return f"## Sub-agent tool log\n{head(calls).content}\n\n## Sub-agent response\n{head(answer).content}"
