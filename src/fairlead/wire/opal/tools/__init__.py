"""Opal's tools, for one session: those that work on the machine, and those that need the session itself.

    tools = opal_tools(session, data_dir=...)
    session.toolbox.begin_with(tools)

`Session.close` ends what they have running. `machine` declares the tools that work on the machine; `results` says what results
and updates hold for the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError
from fairlead.tools.workspace import Workspace
from fairlead.wire.opal.tools.machine import integer, machine_tools, object_schema, repaired, string

if TYPE_CHECKING:
    from fairlead.session.session import Session

__all__ = ["opal_tools"]


def opal_tools(session: Session, *, data_dir: Path | None = None) -> list[Tool]:
    """Opal's tools in the order in which its hosts list them. Which of them the model may use is for the caller to say.

    From here on, the session's sub-agents have them too, as far as they may.
    """

    def make_tools(workspace: Workspace) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in machine_tools(workspace, data_dir)}

    if session.subagents is not None:
        session.subagents.family.make_tools = make_tools
    return [
        *make_tools(session.workspace).values(),
        _sub_agent(session),
        _tasks(session),
        _use_skill(session),
        _ask_user(session),
        _debug_state(session),
    ]


def _sub_agent(session: Session) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.wire.opal.tools.sub_agent import run_sub_agent

        return await run_sub_agent(session, arguments, context)

    return Tool(
        name="sub_agent",
        description=(
            "Give a piece of work to a sub-agent and get its answer, below a log of the tools it called. It sees nothing of this"
            " conversation but the prompt. Sub-agents of several calls in one turn work at the same time."
        ),
        parameters=object_schema(
            {
                "prompt": string("What is to be done, and what the answer should contain"),
                "tools": {"type": "array", "items": {"type": "string"}, "description": "The tools it may use; all if left out"},
                "model": string("The id of its model; the same as yours if left out"),
                "system_prompt": string("Takes the place of its own instructions"),
            },
            "prompt",
        ),
        run=run,
        harmless=True,
        snippet="Give work to sub-agents",
        guidelines=("Give independent pieces of work to sub-agents in one turn; do small ones yourself.",),
        bound=True,
        timeout=None,
        grace=1.0,  # longer than the tools of the sub-agent have
        prepare=repaired,
    )


def _tasks(session: Session) -> Tool:
    from fairlead.wire.opal.tools.task_keeper import TaskKeeper
    from fairlead.wire.opal.tools.tasks_tool import tasks_tool

    return tasks_tool(TaskKeeper(session))


def _use_skill(session: Session) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.wire.opal.tools.results import SKILL

        additions, cwd, name = session.additions, session.workspace.cwd, arguments["skill_name"]
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
        harmless=True,
        snippet="Load the instructions of a skill",
        prepare=repaired,
    )


def _ask_user(session: Session) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        question, ui = arguments["question"], session.ui
        choices: list[str] = arguments.get("choices", [])
        if not ui.available:
            raise ToolError(
                "Nobody can be asked: there is no user behind this session. Decide yourself, or end with your question."
            )
        # Without choices too: hosts of Opal answer questions of the model's, and need not know any other way to ask for a text.
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
        harmless=True,
        snippet="Ask the user a question",
        bound=True,
        timeout=None,
        prepare=repaired,
    )


def _debug_state(session: Session) -> Tool:
    from fairlead.wire.opal.tools.debug_state import EventRing, run_debug_state

    events = EventRing(session)

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await run_debug_state(session, events, arguments, context)

    return Tool(
        name="debug_state",
        description="Show the state of this session and what happened in it lately, to find the cause of trouble.",
        parameters=object_schema(
            {
                "event_limit": integer("How many of the last events to show, at most 500; 50 if left out"),
                "include_messages": {"type": "boolean", "description": "Show the last messages too"},
                "message_limit": integer("How many of them, at most 200; 20 if left out"),
            }
        ),
        run=run,
        harmless=True,
        snippet="Inspect the state of this session",
        bound=True,
        prepare=repaired,
    )
