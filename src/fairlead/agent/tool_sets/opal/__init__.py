"""Opal's tools, as a set for an agent: `Agent(tools=opal_tools())`.

`fairlead.tools.opal` has the tools that work on the machine; the tools in this package need the session too.
`fairlead.tools.opal.anchors` says what results and updates hold for the wire. Closing the session ends the processes that the
tools have started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.agent.tool_sets import ToolServices, ToolSet
from fairlead.agent.tool_sets.opal.session_tools import debug_state_tool, sub_agent_tool, tasks_tool
from fairlead.agent.tool_sets.opal.tasks import TaskKeeper, open_tasks, tasks_of
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError
from fairlead.tools import object_schema, repair_arguments, string
from fairlead.tools.opal.anchors import SKILL, FileAccess
from fairlead.tools.opal.edit_file import edit_file_tool, write_file_tool
from fairlead.tools.opal.opal_shell import shell_tool
from fairlead.tools.opal.read_file import grep_tool, read_file_tool
from fairlead.tools.workspace import Workspace

__all__ = ["TOOL_NAMES", "opal_tools", "open_tasks", "tasks_of"]

#: The tools, in the order in which Opal's hosts list them.
TOOL_NAMES = (
    "read_file",
    "write_file",
    "edit_file",
    "grep",
    "shell",
    "sub_agent",
    "tasks",
    "use_skill",
    "ask_user",
    "debug_state",
)


def opal_tools(*, data_dir: Path | None = None, excluded: Collection[str] = (), only: Sequence[str] | None = None) -> ToolSet:
    """Return Opal's tools, which replace the built-in ones: `Agent(tools=opal_tools())`.

    Args:
        data_dir: A directory that most file tools may use too.
        excluded: The names of those to leave out.
        only: The names or patterns of the tools that the model may use, those of MCP servers and extensions included. None: all.
    """

    def for_workspace(workspace: Workspace) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in machine_tools(workspace, data_dir)}

    def for_session(services: ToolServices) -> list[Tool]:
        tools = (
            *machine_tools(services.workspace, data_dir),
            sub_agent_tool(services),
            tasks_tool(TaskKeeper(lambda: services.conversation, services.now_ms)),
            _use_skill(services),
            _ask_user(services),
            debug_state_tool(services),
        )
        return [tool for tool in tools if tool.name not in excluded]

    return ToolSet(for_workspace, for_session, only)


def _use_skill(services: ToolServices) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        additions, cwd, name = services.additions, services.workspace.cwd, arguments["skill_name"]
        if additions is None:
            raise ToolError("There are no skills here.")
        try:
            text = additions.skill_text(name, cwd)
        except ConfigError as error:
            raise ToolError(str(error)) from error
        skill = next({"name": each.name, "description": each.description} for each in additions.skills(cwd) if each.name == name)
        context.update(ToolResult([], {SKILL: skill}))
        return ToolResult.text(text, {SKILL: skill})

    return Tool(
        name="use_skill",
        description="Load the instructions of a skill. Use it before work that fits the description of one.",
        parameters=object_schema({"skill_name": string("The name of the skill")}, "skill_name"),
        run=run,
        kind="read",
        title=lambda arguments: f"Load the skill {arguments['skill_name']}",
        harmless=True,
        snippet="Load the instructions of a skill",
        prepare=repair_arguments,
    )


def _ask_user(services: ToolServices) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        question, ui = arguments["question"], services.ui
        choices: list[str] = arguments.get("choices", [])
        if not ui.available:
            raise ToolError("The user cannot be asked: this session has none. Decide yourself, or end with your question.")
        # Also without choices: every Opal host can answer a question from the model, but it need not know another kind of input.
        answer = await ui.select(question, choices, cancel=context.cancel)
        if answer is None:
            raise ToolError("Operation aborted" if context.cancel.fired else "The user gave no answer.")
        return ToolResult.text(answer)

    return Tool(
        name="ask_user",
        description=(
            "Ask the user a question and wait for the answer. Ask only what you cannot find out and must not decide yourself."
        ),
        parameters=object_schema(
            {
                "question": string("What you want to know, as a whole sentence"),
                "choices": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from"},
            },
            "question",
        ),
        run=run,
        title=lambda arguments: f"Ask: {arguments['question']}",
        harmless=True,
        snippet="Ask the user a question",
        bound=True,
        timeout=None,
        prepare=repair_arguments,
    )


_MAKERS = (read_file_tool, write_file_tool, edit_file_tool, grep_tool, shell_tool)


def machine_tools(workspace: Workspace, data_dir: Path | None = None) -> list[Tool]:
    """Make the tools for one session. All except edit_file may also use `data_dir`."""
    files = FileAccess(workspace, data_dir)
    return [make(files) for make in _MAKERS]
