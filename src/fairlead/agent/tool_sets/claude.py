"""Claude Code's tools, as a set for an agent. `fairlead.tools.claude` has those that work on the machine; the others need the
session.

The details of a result are the `tool_use_result` that hosts draw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from fairlead.agent.tool_sets import ToolServices, ToolSet
from fairlead.core.lenient import json_data
from fairlead.core.messages import TextContent, ToolResultMessage, Usage, UserBlock
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.extend.mcp import config
from fairlead.session.history.claude_lines import encode_blocks
from fairlead.session.subagents.agents import BUILT_IN, AgentDefinition
from fairlead.session.subagents.subagents import Order
from fairlead.tools import repair_arguments, string
from fairlead.tools.claude.files import Machine, ReadFiles, closed_schema, edit_tool, read_tool, refuse, write_tool
from fairlead.tools.claude.search import glob_tool, grep_tool
from fairlead.tools.claude.shell import bash_tool
from fairlead.tools.truncate import head
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from mcp.types import CallToolResult


__all__ = ["AGENTS", "STRUCTURED_OUTPUT", "TOOL_NAMES", "claude_tools"]

STRUCTURED_OUTPUT = "StructuredOutput"
#: The tools, in the order in which hosts list them. `StructuredOutput` comes with a schema.
TOOL_NAMES = ("Agent", "Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write")

_GENERAL, _EXPLORE = BUILT_IN
#: The kinds of sub-agents that are always there.
AGENTS: Mapping[str, AgentDefinition] = {
    "general-purpose": replace(_GENERAL, name="general-purpose"),
    "Explore": replace(_EXPLORE, name="Explore", tools=("Read", "Grep", "Glob")),
}


def claude_tools(
    only: Sequence[str] | None = None,
    *,
    agents: Mapping[str, AgentDefinition] | None = None,
    schema: dict[str, Any] | None = None,
    on_output: Callable[[Any], None] = lambda value: None,
) -> ToolSet:
    """Return Claude Code's tools, which replace the built-in ones.

    Args:
        only: The names of the tools that the model may use. None: all.
        agents: More kinds of sub-agents, by name.
        schema: The JSON Schema of the output that the host wants. It brings a tool that takes it and ends the run.
        on_output: Called with that output.
    """
    kinds = {**AGENTS, **(agents or {})}

    def for_workspace(workspace: Workspace) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in _machine_tools(workspace)}

    def for_session(services: ToolServices) -> list[Tool]:
        tools = [*_machine_tools(services.workspace), _agent_tool(services, kinds), _todo_tool(services)]
        wanted = [name for name in TOOL_NAMES if only is None or name in only]
        found = {tool.name: tool for tool in tools}
        made = [found[name] for name in wanted]
        return made if schema is None else [*made, _output_tool(schema, on_output)]

    return ToolSet(for_workspace, for_session, mcp_style=_mcp_style)


def _machine_tools(workspace: Workspace) -> list[Tool]:
    machine = Machine(workspace, ReadFiles())
    makers = (read_tool, write_tool, edit_tool, bash_tool, glob_tool, grep_tool)
    return [make(machine) for make in makers]


# MCP servers


def _mcp_style() -> config.McpStyle:
    return config.McpStyle(illegal=re.compile(r"[^a-zA-Z0-9_-]"), call_id_key="claudecode/toolUseId", shape=_shape_answer)


def _shape_answer(answer: CallToolResult, blocks: Sequence[UserBlock]) -> tuple[list[UserBlock], Any]:
    """Return what the model sees of an answer, and the `tool_use_result`. Structured content takes the place of all else."""
    structured = answer.structured_content
    told = encode_blocks(blocks)
    if structured is None:
        return list(blocks), told
    text = msgspec.json.encode(json_data(structured)).decode()
    return [TextContent(text)], {"content": text, "structuredContent": structured}


# To-dos

_TODO = closed_schema(
    {
        "content": string("What to do, as an order: Fix the test"),
        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        "activeForm": string("The same while it is being done: Fixing the test"),
    },
    "content",
    "status",
    "activeForm",
)


def _todo_tool(services: ToolServices) -> Tool:
    return Tool(
        name="TodoWrite",
        description="Write the whole to-do list of a task with several steps. Keep exactly one to-do in progress while you work.",
        parameters=closed_schema({"todos": {"type": "array", "items": _TODO, "description": "All to-dos"}}, "todos"),
        run=partial(_run_todo, services),
        kind="think",
        title=lambda arguments: "Update the to-do list",
        harmless=True,
        snippet="Keep a to-do list",
        bound=True,
        prepare=repair_arguments,
    )


async def _run_todo(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    details = {"oldTodos": _find_todos(services), "newTodos": arguments["todos"]}
    left = sum(todo["status"] != "completed" for todo in arguments["todos"])
    return ToolResult.text(f"The to-do list was saved; {left} of {len(arguments['todos'])} are left.", details)


def _find_todos(services: ToolServices) -> list[Any]:
    """Return the to-dos so far: those of the last call in the conversation."""
    for message in reversed(services.conversation.messages):
        if isinstance(message, ToolResultMessage) and message.tool_name == "TodoWrite":
            details: Any = message.details
            if isinstance(details, dict):
                return cast("dict[str, Any]", details).get("newTodos") or []
    return []


# Structured output


def _output_tool(schema: dict[str, Any], on_output: Callable[[Any], None]) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        on_output(arguments)
        text = "The output was accepted."
        return ToolResult([TextContent(text)], text, ends_run=True)

    return Tool(
        name=STRUCTURED_OUTPUT,
        description="Give your final answer in the form that the user wants. Call this once, at the end.",
        parameters=schema,
        run=run,
        kind="think",
        title=lambda arguments: "Give the final answer",
        harmless=True,
        snippet="Give the final answer as data",
        bound=True,
    )


# Sub-agents


def _agent_tool(services: ToolServices, kinds: Mapping[str, AgentDefinition]) -> Tool:
    listed = "\n".join(f"- {name}: {agent.description}" for name, agent in kinds.items())
    return Tool(
        name="Agent",
        description=(
            "Give a piece of work to a sub-agent and get its last message. It sees nothing of this conversation but the prompt."
            f" The kinds of sub-agents are:\n{listed}"
        ),
        parameters=closed_schema(
            {
                "description": string("A few words that tell people what the work is"),
                "prompt": string("What to do, and what the answer should contain"),
                "subagent_type": string("The kind of sub-agent; general-purpose if left out"),
                "model": string("The model of the sub-agent; yours if left out"),
                "effort": string("Not used"),
                "isolation": string("Not used"),
                "run_in_background": {"type": "boolean", "description": "Not used: the call waits for the answer"},
            },
            "description",
            "prompt",
        ),
        run=partial(_run_agent, services, kinds),
        kind="think",
        title=lambda arguments: f"{arguments.get('subagent_type', 'general-purpose')}: {arguments['description']}",
        harmless=True,  # what the sub-agent does is decided call by call
        snippet="Give work to sub-agents",
        bound=True,
        timeout=None,
        grace=1.0,  # more than the sub-agent's own tools have
        prepare=repair_arguments,
    )


async def _run_agent(
    services: ToolServices, kinds: Mapping[str, AgentDefinition], arguments: dict[str, Any], context: ToolContext
) -> ToolResult:
    subagents, name = services.subagents, arguments.get("subagent_type") or "general-purpose"
    if not subagents.may_spawn:
        raise ToolError("Sub-agents are not available here. Do the work yourself.")
    kind = kinds.get(name)
    if kind is None:
        raise refuse(f"There is no sub-agent {name!r}. The kinds are: {', '.join(kinds)}.")
    if arguments.get("model"):
        kind = replace(kind, model=arguments["model"])
    began = services.now_ms()
    order = Order("", arguments["description"], arguments["prompt"])
    child = subagents.prepare(kind, [order], "", context.call_id)[0]
    await subagents.work([child], context.cancel)
    if child.status != "completed":
        problem = "The sub-agent was stopped." if child.error is None else f"The sub-agent failed: {child.error}"
        raise ToolError(f"{child.output}\n\n{problem}".strip())
    activity, usage = child.activity, child.usage
    answer = head(child.output or "(no answer)").content
    trailer = f"agentId: {activity.id}\n<usage>total_tokens: {activity.tokens}\ntool_uses: {activity.tool_count}</usage>"
    details = {
        "status": "completed",
        "prompt": arguments["prompt"],
        "agentId": activity.id,
        "agentType": name,
        "content": [{"type": "text", "text": answer}],
        "totalDurationMs": services.now_ms() - began,
        "totalTokens": activity.tokens,
        "totalToolUseCount": activity.tool_count,
        "usage": _encode_usage(usage),
    }
    return ToolResult([TextContent(answer), TextContent(trailer)], details)


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def read_agents(definitions: Mapping[str, Any]) -> dict[str, AgentDefinition]:
    """Return the sub-agents that a host defines, by name. Definitions without a description and a prompt are left out."""
    found: dict[str, AgentDefinition] = {}
    for name, given in definitions.items():
        try:
            host = msgspec.convert(given, _HostAgent)
        except msgspec.ValidationError:
            continue
        tools = None if host.tools is None else tuple(tool for tool in host.tools if tool not in (host.disallowed_tools or ()))
        model = None if host.model in (None, "inherit") else host.model
        found[name] = AgentDefinition(name=name, description=host.description, prompt=host.prompt, tools=tools, model=model)
    return found


class _HostAgent(msgspec.Struct, rename="camel"):
    """A kind of sub-agent as a host defines it. Other fields are ignored."""

    description: str
    prompt: str
    tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    model: str | None = None
