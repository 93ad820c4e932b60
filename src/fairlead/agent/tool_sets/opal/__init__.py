"""Opal's tools, as a set for an agent: `Agent(tool_set=opal_tools())`.

`fairlead.tools.opal` has the tools that work on the machine; the tools in this package need the session too.
`fairlead.tools.opal.results` says what results and updates hold for the wire. Closing the session ends the processes that the
tools have started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fairlead.agent.tool_sets import ToolServices, ToolSet
from fairlead.agent.tool_sets.opal.debug_state import debug_state_tool
from fairlead.agent.tool_sets.opal.sub_agent import sub_agent_tool
from fairlead.agent.tool_sets.opal.tasks import TaskKeeper, open_tasks, tasks_of
from fairlead.agent.tool_sets.opal.tasks_tool import tasks_tool
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError
from fairlead.tools import object_schema, repair_arguments, string
from fairlead.tools.opal.machine import machine_tools
from fairlead.tools.opal.results import SKILL
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


def opal_tools(*, data_dir: Path | None = None, excluded: Collection[str] = ()) -> ToolSet:
    """Return Opal's tools without those that are `excluded`. `data_dir` is a folder that most file tools may use too."""

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

    return ToolSet(for_workspace, for_session)


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
