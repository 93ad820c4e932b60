"""Claude Code's tools, as a set for an agent. `fairlead.tools.claude` has those that work on the machine; the others need the
session.

The details of a result are the `tool_use_result` that hosts draw.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from fairlead.agent.tool_sets import ToolServices, ToolSet
from fairlead.core.lenient import json_data, scrub
from fairlead.core.messages import ImageContent, TextContent, ToolResultMessage, Usage, UserBlock
from fairlead.core.model import THINKING_LEVELS, ThinkingLevel
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError
from fairlead.extend.mcp import config
from fairlead.platform.open_files import make_private_folders
from fairlead.session.history.claude_lines import encode_blocks
from fairlead.session.subagents.agent_kinds import BUILT_IN, AgentDefinition, choose_tools
from fairlead.session.subagents.subagents import Order
from fairlead.tools import repair_arguments, string
from fairlead.tools.claude.files import Machine, ReadFiles, closed_schema, edit_tool, read_tool, refuse, write_tool
from fairlead.tools.claude.interactive import Interaction, interactive_tools
from fairlead.tools.claude.search import glob_tool, grep_tool
from fairlead.tools.claude.shell import bash_tool
from fairlead.tools.truncate import head
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from fairlead.session.subagents.subagent import Subagent

__all__ = ["AGENTS", "SKILL", "STRUCTURED_OUTPUT", "TOOL_NAMES", "claude_tools"]

STRUCTURED_OUTPUT = "StructuredOutput"
SKILL = "Skill"
_TASK_TOOLS = ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate")
#: All tools for the list of what there is to do.
_LIST_NAMES = (*_TASK_TOOLS, "TodoWrite")
_STATUSES = ["pending", "in_progress", "completed"]
#: A task of Claude Code.
_Task: TypeAlias = dict[str, Any]
_Run: TypeAlias = Callable[..., Coroutine[Any, Any, ToolResult]]


#: The tools, in the order in which hosts list them. `StructuredOutput` comes with a schema.
TOOL_NAMES = (
    "Agent",
    "AskUserQuestion",
    "Bash",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "Read",
    "Skill",
    *_LIST_NAMES,
    "Write",
)

_GENERAL, _EXPLORE = BUILT_IN
#: The kinds of sub-agents that are always there.
AGENTS: Mapping[str, AgentDefinition] = {
    "general-purpose": replace(_GENERAL, name="general-purpose"),
    "Explore": replace(_EXPLORE, name="Explore", tools=("Read", "Grep", "Glob")),
    "Plan": AgentDefinition(
        name="Plan",
        description="reads the code and works out how to make a change, without making it",
        prompt=(
            "You work out how a change should be made, and make none yourself. Read the code that it concerns, follow the "
            "conventions that you find, and decide between the ways there are. Your last message is all that is seen of your "
            "work: the steps in their order, the files that each one changes, what could go wrong, and how to check the result."
        ),
        tools=("Read", "Grep", "Glob"),
    ),
}
#: Names of Anthropic's models, which mean nothing for a model of another vendor.
ALIASES = ("default", "fable", "haiku", "inherit", "opus", "opusplan", "sonnet")


def claude_tools(
    only: Sequence[str] | None = None,
    *,
    agents: Mapping[str, AgentDefinition] | None = None,
    acting_as: AgentDefinition | None = None,
    schema: dict[str, Any] | None = None,
    with_tasks: bool = True,
    interaction: Interaction | None = None,
    on_output: Callable[[Any], None] = lambda value: None,
) -> ToolSet:
    """Return Claude Code's tools, which replace the built-in ones.

    Args:
        only: The names of the tools that the model may use. None: all.
        agents: More kinds of sub-agents, by name.
        acting_as: The kind whose tools the session itself has.
        schema: The JSON Schema of the output that the host wants. It brings a tool that takes it and ends the run.
        with_tasks: Whether the list of what there is to do is kept with the Task tools, and not with TodoWrite.
        interaction: What the tools need that ask the user. None: there are none.
        on_output: Called with that output.
    """
    kinds = {**AGENTS, **(agents or {})}

    def for_workspace(workspace: Workspace) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in _machine_tools(workspace)}

    def for_session(services: ToolServices) -> list[Tool]:
        tools = [
            *_machine_tools(services.workspace, partial(_find_log_dir, services)),
            _agent_tool(services, kinds),
            _skill_tool(services),
            *_list_tools(services, with_tasks=with_tasks),
            *([] if interaction is None else interactive_tools(interaction)),
        ]
        wanted = [name for name in TOOL_NAMES if only is None or name in only]
        if acting_as is not None:
            wanted = choose_tools(acting_as, wanted)
        found = {tool.name: tool for tool in tools}
        made = [found[name] for name in wanted if name in found]
        return made if schema is None else [*made, _output_tool(schema, on_output)]

    allowed = None if acting_as is None or acting_as.tools is None else (*acting_as.tools, STRUCTURED_OUTPUT)
    names = None if allowed is None else [pattern for name in allowed for pattern in (name, f"{name}__*")]
    return ToolSet(for_workspace, for_session, only=names, mcp_style=_mcp_style)


def _find_log_dir(services: ToolServices) -> Path:
    """Return the folder for long outputs: beside the session's file, where it has one."""
    path = services.conversation.path
    if path is None:
        return services.workspace.log_dir()
    folder = path.with_suffix("") / "tool-results"
    make_private_folders(folder)
    return folder


def _machine_tools(workspace: Workspace, log_dir: Callable[[], Path] | None = None) -> list[Tool]:
    machine = Machine(workspace, ReadFiles(), log_dir)
    makers = (read_tool, write_tool, edit_tool, bash_tool, glob_tool, grep_tool)
    return [make(machine) for make in makers]


# MCP servers

#: Seconds that a call of a tool may take: a tool in the host may ask people.
_MCP_TIMEOUT = 100_000.0


def _mcp_style() -> config.McpStyle:
    return config.McpStyle(
        illegal=re.compile(r"[^a-zA-Z0-9_-]"), call_id_key="claudecode/toolUseId", timeout=_MCP_TIMEOUT, shape=_shape_answer
    )


def _shape_answer(answer: CallToolResult, blocks: Sequence[UserBlock]) -> tuple[list[UserBlock], Any]:
    """Return what the model sees of an answer, and the `tool_use_result`. Structured content takes the place of all else."""
    structured = answer.structured_content
    told = encode_blocks(blocks)
    if structured is None:
        return list(blocks), told
    text = msgspec.json.encode(json_data(structured)).decode()
    images = [block for block in blocks if isinstance(block, ImageContent)]
    return [TextContent(text), *images], {"content": text, "structuredContent": structured}


# What there is to do: the Task tools change the todos of the session, and TodoWrite writes another list


def _list_tools(services: ToolServices, *, with_tasks: bool) -> list[Tool]:
    """Return the Task tools, or else TodoWrite."""
    if not with_tasks:
        description = (
            "Write the whole to-do list of a task with several steps. Keep exactly one to-do in progress while you work."
        )
        todos = {"todos": {"type": "array", "items": _TODO, "description": "All to-dos"}}
        return [_list_tool(services, "TodoWrite", description, closed_schema(todos, "todos"), _run_todo)]
    ident = {"taskId": string("The id of the task")}
    texts = {
        "subject": string("What to do, as an order: Fix the test"),
        "description": string("All that is needed to do it"),
        "activeForm": string("The same while it is being done: Fixing the test"),
        "metadata": {"type": "object", "description": "Anything to remember about it"},
    }
    ids = {"type": "array", "items": {"type": "string"}}
    changes = {
        "status": {"type": "string", "enum": [*_STATUSES, "deleted"]},
        "owner": string("Who does it"),
        "addBlocks": {**ids, "description": "Tasks that can begin only when this one is done"},
        "addBlockedBy": {**ids, "description": "Tasks that have to be done before this one"},
    }
    create = "Add a task to the list of what there is to do. Plan work of three steps or more with it before you begin."
    update = "Change a task. Set it in progress when you begin it, and complete it as soon as it is done and checked."
    return [
        _list_tool(services, "TaskCreate", create, closed_schema(texts, "subject", "description"), _create_task),
        _list_tool(services, "TaskGet", "Show one task with all that is known of it.", closed_schema(ident, "taskId"), _get_task),
        _list_tool(services, "TaskList", "Show all tasks.", closed_schema({}), _show_tasks),
        _list_tool(services, "TaskUpdate", update, closed_schema({**ident, **texts, **changes}, "taskId"), _update_task),
    ]


def _list_tool(services: ToolServices, name: str, description: str, parameters: dict[str, Any], run: _Run) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        run=partial(run, services),
        kind="think",
        title=lambda arguments: arguments.get("subject") or "Update the to-do list",
        harmless=True,
        snippet="Keep a list of what there is to do",
        bound=True,
        exclusive=True,
        prepare=repair_arguments,
    )


# Tasks


def _load_tasks(services: ToolServices) -> list[_Task]:
    """Return the tasks of the session."""
    found: list[_Task] = []
    for phase in services.todos.phases:
        for todo in phase.tasks:
            try:
                notes = msgspec.json.decode(todo.notes or "{}", type=dict[str, Any])
            except msgspec.DecodeError:
                notes = {}
            task = {"id": todo.id, "subject": todo.content, "description": todo.details or "", "status": todo.status}
            found.append({"blocks": [], "blockedBy": [], **notes, **task})
    return found


def _save_tasks(services: ToolServices, tasks: list[_Task]) -> None:
    kept = ("id", "subject", "description", "status")
    todos = [
        {
            "id": task["id"],
            "content": task["subject"],
            "status": task["status"],
            "details": task["description"] or None,
            "notes": msgspec.json.encode({key: value for key, value in task.items() if key not in kept}).decode(),
        }
        for task in tasks
    ]
    services.todos.set([{"id": "tasks", "name": "Tasks", "tasks": todos}] if todos else [])
    services.todos.mark_announced()  # the model has made the list itself


def _find_task(tasks: list[_Task], ident: str) -> _Task:
    found = next((task for task in tasks if task["id"] == ident), None)
    if found is None:
        known = ", ".join(task["id"] for task in tasks)
        raise ToolError(f"There is no task {ident}. " + (f"The tasks are {known}." if known else "There are no tasks."))
    return found


async def _create_task(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    tasks = _load_tasks(services)
    number = max((int(task["id"]) for task in tasks if task["id"].isdecimal()), default=0) + 1
    if not arguments["subject"].strip():
        raise ToolError("subject: expected a text that says what to do.")
    tasks.append({**arguments, "id": str(number), "status": "pending", "blocks": [], "blockedBy": []})
    _save_tasks(services, tasks)
    told = {"id": str(number), "subject": arguments["subject"], "description": arguments["description"]}
    return ToolResult.text(f"Task #{number} created successfully: {arguments['subject']}", {"task": told})


async def _update_task(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    tasks, ident = _load_tasks(services), arguments["taskId"]
    task = _find_task(tasks, ident)
    details: dict[str, Any] = {"success": True, "taskId": ident}
    changed = [key for key in ("subject", "description", "activeForm", "owner", "metadata", "status") if key in arguments]
    before = task["status"]
    if arguments.get("status") == "deleted":
        tasks = [other for other in tasks if other is not task]
        changed = ["deleted"]
    else:
        task |= {key: arguments[key] for key in changed}
        for key, side, other_side in (("addBlocks", "blocks", "blockedBy"), ("addBlockedBy", "blockedBy", "blocks")):
            for other in [_find_task(tasks, each) for each in arguments.get(key, ())]:
                _link(task, side, other, other_side)
            changed += [side] if arguments.get(key) else []
    if "status" in arguments:
        details["statusChange"] = {"from": before, "to": arguments["status"]}
    _save_tasks(services, tasks)
    return ToolResult.text(f"Updated task #{ident} {', '.join(changed)}", {**details, "updatedFields": changed})


def _link(task: _Task, side: str, other: _Task, other_side: str) -> None:
    if task is other:
        raise ToolError("A task cannot wait for itself.")
    task[side] = list(dict.fromkeys([*task[side], other["id"]]))
    other[other_side] = list(dict.fromkeys([*other[other_side], task["id"]]))


async def _get_task(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    task = _find_task(_load_tasks(services), arguments["taskId"])
    lines = [f"Task #{task['id']}: {task['subject']}", f"Status: {task['status']}", f"Description: {task['description']}"]
    lines += [
        f"{title}: {', '.join(task[key])}" for key, title in (("blocks", "Blocks"), ("blockedBy", "Blocked by")) if task[key]
    ]
    told = {key: task[key] for key in ("id", "subject", "description", "status", "blocks", "blockedBy")}
    return ToolResult.text("\n".join(lines), {"task": told})


async def _show_tasks(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    tasks = _load_tasks(services)
    lines = [f"#{task['id']} [{task['status']}] {task['subject']}" for task in tasks]
    keys = ("id", "subject", "status", "owner", "blockedBy")
    told = [{key: task[key] for key in keys if key in task} for task in tasks]
    return ToolResult.text("\n".join(lines) or "There are no tasks.", {"tasks": told})


# The older list


_TODO = closed_schema(
    {
        "content": string("What to do, as an order: Fix the test"),
        "status": {"type": "string", "enum": _STATUSES},
        "activeForm": string("The same while it is being done: Fixing the test"),
    },
    "content",
    "status",
    "activeForm",
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


# Skills


def _skill_tool(services: ToolServices) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        additions, name = services.additions, arguments["skill"].removeprefix("/")
        if additions is None:
            raise ToolError("There are no skills here.")
        try:
            text = additions.skill_text(name, services.workspace.cwd, arguments.get("args") or "")
        except ConfigError as error:
            raise refuse(str(error)) from None
        return ToolResult([TextContent(f"The skill {name} begins."), TextContent(text)], {"success": True, "commandName": name})

    return Tool(
        name=SKILL,
        description="Load a skill: instructions for a certain kind of work. Call it before you begin such work.",
        parameters=closed_schema(
            {"skill": string("The name of the skill"), "args": string("What the skill should be used on")}, "skill"
        ),
        run=run,
        kind="think",
        title=lambda arguments: f"Load the skill {arguments['skill']}",
        harmless=True,
        snippet="Load instructions for a certain kind of work",
        bound=True,
        prepare=repair_arguments,
    )


# Structured output


def check_output_schema(schema: dict[str, Any]) -> None:
    """Raise ConfigError if no output could have the form that a host wants."""
    if schema.get("type", "object") != "object":
        raise ConfigError("the schema of the output: expected one for an object, because the model gives it as arguments")
    try:
        _output_tool(schema, lambda value: None).check_schema()
    except ToolError as error:
        raise ConfigError(f"the schema of the output: {error}") from None


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


def _prepare_agent(arguments: dict[str, Any]) -> dict[str, Any]:
    """Name the kind of sub-agent, so that rules about it fit."""
    arguments = repair_arguments(arguments)
    return arguments if arguments.get("subagent_type") else {**arguments, "subagent_type": "general-purpose"}


def _agent_tool(services: ToolServices, kinds: Mapping[str, AgentDefinition]) -> Tool:
    listed = "\n".join(f"- {name}: {agent.description}" for name, agent in kinds.items())
    return Tool(
        name="Agent",
        aliases=("Task",),
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
                "effort": string("How much the sub-agent thinks: low, medium, high, xhigh or max; as much as you if left out"),
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
        prepare=_prepare_agent,
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
    kind = replace(
        kind,
        model=_find_model(services, arguments.get("model") or kind.model),
        thinking=_find_level(arguments.get("effort")) or kind.thinking,
    )
    began = services.now_ms()
    order = Order(f"a{os.urandom(8).hex()}", arguments["description"], arguments["prompt"])
    child = subagents.prepare(kind, [order], "", context.call_id)[0]
    _describe_transcript(child, subagents.owner_id)
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


def _find_model(services: ToolServices, name: str | None) -> str | None:
    """Return the model that a name means; None for that of the parent."""
    parent = services.model
    is_alias = name in ALIASES and (name in ("default", "inherit") or parent is None or parent.provider != "anthropic")
    return None if is_alias else name


def _find_level(effort: str | None) -> ThinkingLevel | None:
    return next((level for level in THINKING_LEVELS if level == effort), None)


def _describe_transcript(child: Subagent, parent: str | None) -> None:
    """Write the file beside the transcript of a sub-agent from which hosts learn which call started it."""
    file = child.assignment.file
    if file is None:
        return
    told = {"agentType": child.agent.name, "description": child.assignment.description, "toolUseId": child.assignment.call_id}
    if parent is not None:
        told["parentAgentId"] = parent
    # If it cannot be written, the transcript cannot either, and the session says so.
    with suppress(OSError):
        make_private_folders(file.parent)
        file.with_suffix(".meta.json").write_bytes(msgspec.json.encode(scrub(told)))


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def read_agents(definitions: Mapping[str, Any], warn: Callable[[str], None] = lambda text: None) -> dict[str, AgentDefinition]:
    """Return the sub-agents that a host defines, by name. Those that cannot be used are left out, with a warning."""
    found: dict[str, AgentDefinition] = {}
    for name, given in definitions.items():
        try:
            host = msgspec.convert(given, _HostAgent)
        except msgspec.ValidationError as error:
            warn(f"The sub-agent {name} is left out: {error}")
            continue
        found[name] = AgentDefinition(
            name=name,
            description=host.description,
            prompt=host.prompt,
            tools=None if host.tools is None or "*" in host.tools else _read_names(host.tools),
            excluded=_read_names(host.disallowed_tools or ()),
            max_turns=host.max_turns,
            model=host.model,
            thinking=_find_level(host.effort),
        )
    return found


def _read_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple("Agent" if name == "Task" else name for name in names)


class _HostAgent(msgspec.Struct, rename="camel"):
    """A kind of sub-agent as a host defines it. Other fields are ignored."""

    description: str
    prompt: str
    tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    model: str | None = None
    effort: str | None = None
    max_turns: Annotated[int, Meta(gt=0)] | None = None
