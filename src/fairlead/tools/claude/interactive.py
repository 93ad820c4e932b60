"""AskUserQuestion, EnterPlanMode and ExitPlanMode. They ask the user: the consent to the call is the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from fairlead.core.tool import RunTool, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import repair_arguments, string
from fairlead.tools.claude.files import closed_schema

#: What a model is told that may only plan.
PLANNING = "You are planning: read and think, but change nothing. When the plan is ready, call ExitPlanMode with it."

_OPTION = closed_schema({"label": string("A few words"), "description": string("What it means")}, "label", "description")
_QUESTION = closed_schema(
    {
        "question": string("The whole question"),
        "header": string("One or two words for it"),
        "options": {"type": "array", "items": _OPTION, "minItems": 2, "maxItems": 4},
        "multiSelect": {"type": "boolean", "description": "Whether several options may be chosen"},
    },
    "question",
    "header",
    "options",
)
_QUESTIONS = {"type": "array", "items": _QUESTION, "minItems": 1, "maxItems": 4}


class Interaction(Struct, frozen=True, kw_only=True):
    """What these tools need from the session."""

    #: Returns the user's answers to the questions of a call, by question.
    take_answers: Callable[[str], Mapping[str, Any]]
    #: Start and end the planning. False: the model plans already, or does not plan.
    enter_plan: Callable[[], bool]
    leave_plan: Callable[[], bool]


def interactive_tools(interaction: Interaction) -> list[Tool]:
    """Return the tools with which a model asks the user, and has a plan approved."""

    async def ask(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        answers = dict(interaction.take_answers(context.call_id))
        told = "\n".join(f"{question}: {answer}" for question, answer in answers.items())
        return ToolResult.text(told or "The user chose nothing.", {"questions": arguments["questions"], "answers": answers})

    async def enter(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if not interaction.enter_plan():
            raise ToolError("You are planning already.")
        return ToolResult.text(f"The user agrees. {PLANNING}", {})

    async def leave(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if not interaction.leave_plan():
            raise ToolError("You are not planning, so there is no plan to approve.")
        details = {"plan": arguments.get("plan"), "isAgent": False, "filePath": None}
        return ToolResult.text("The user has approved the plan. Carry it out now.", details)

    plan = {
        "plan": string("The plan, in Markdown"),
        "allowedPrompts": {"type": "array", "items": {"type": "object"}, "description": "Not used"},
    }
    return [
        _make_tool(
            "AskUserQuestion",
            "Ask the user one to four questions, each with two to four options. Use it if the answer changes what you do.",
            closed_schema({"questions": _QUESTIONS}, "questions"),
            ask,
        ),
        _make_tool(
            "EnterPlanMode",
            "Ask the user whether you should plan first. Use it before a large change that can be made in several ways.",
            closed_schema({}),
            enter,
        ),
        _make_tool(
            "ExitPlanMode",
            "Show the user your plan, so that they approve it. Use it at the end of planning, and only there.",
            closed_schema(plan),
            leave,
        ),
    ]


def _make_tool(name: str, description: str, parameters: dict[str, Any], run: RunTool) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        run=run,
        kind="think",
        snippet=description.partition(".")[0],
        exclusive=True,
        bound=True,
        timeout=None,
        prepare=repair_arguments,
    )
