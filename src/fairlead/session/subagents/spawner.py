"""Makes the sessions of sub-agents, and the `task` tool, with which a model gives them work and waits for their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.history.current import ConversationStore
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.selection import Models
from fairlead.session.session import Session
from fairlead.session.session_options import SessionOptions
from fairlead.session.subagents.agent_kinds import choose_tools
from fairlead.session.subagents.subagents import Order
from fairlead.session.system_prompt import SystemPrompt
from fairlead.tools import background, string
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.subagents.agent_kinds import AgentDefinition
    from fairlead.session.subagents.subagent import Subagent
    from fairlead.session.subagents.subagents import Parent, SessionSubagents


#: How many bytes of all answers together the model sees. Long answers get what short ones do not need.
ANSWER_BYTES = 50 * 1024
#: Seconds that an aborted call has to end by itself. It is more than the tools of its sub-agents have.
GRACE = 1.0
#: Seconds between two updates of a call, at least; and for each of its sub-agents, since every update describes all of them.
UPDATE_INTERVAL, INTERVAL_EACH = 0.2, 0.001


def task_tool(subagents: SessionSubagents) -> Tool:
    """The tool that lets a session give work to `subagents`."""
    agents = "\n".join(f"- {agent.name}: {agent.description}" for agent in subagents.family.agents.values())
    return Tool(
        name="task",
        label="task",
        description=(
            "Give pieces of work to sub-agents, which work on them at the same time, and get their answers. A sub-agent sees "
            "nothing of this conversation but context and its assignment; you see nothing of its work but its last message. "
            f"The agents are:\n{agents}"
        ),
        parameters=_parameters(),
        run=partial(run_task, subagents),
        kind="think",
        title=lambda arguments: f"{arguments['agent']}: {'; '.join(task['description'] for task in arguments['tasks'])}",
        snippet="Give pieces of work to sub-agents",
        guidelines=("Give independent pieces of work to sub-agents in one call of task; do small ones yourself.",),
        harmless=True,  # what its agents do is decided call by call
        bound=True,
        timeout=None,
        grace=GRACE,
    )


@cache
def _parameters() -> dict[str, Any]:
    task = {
        "type": "object",
        "properties": {
            "id": string("A short name for this piece of work, such as FindCallers; one is made up if left out"),
            "description": string("A few words that tell people what it is about"),
            "assignment": string("What to do, and what the answer should contain"),
        },
        "required": ["description", "assignment"],
    }
    return {
        "type": "object",
        "properties": {
            "agent": string("Which agent does the work"),
            "context": string("What all of them need to know"),
            "tasks": {
                "type": "array",
                "items": task,
                "minItems": 1,
                "description": "The pieces of work. They must not depend on each other or change the same files",
            },
        },
        "required": ["agent", "tasks"],
    }


async def run_task(subagents: SessionSubagents, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Let sub-agents work on all tasks. Fails only if none of them has an answer."""
    agents = subagents.family.agents
    agent = agents.get(arguments["agent"])
    if agent is None:
        raise ToolError(f'There is no agent "{arguments["agent"]}". The agents are: {", ".join(agents)}.')
    orders = [Order(task.get("id", ""), task["description"], task["assignment"]) for task in arguments["tasks"]]
    children = subagents.prepare(agent, orders, arguments.get("context", ""), context.call_id)
    began = subagents.parent.runtime.now_ms()

    def details(**rest: Any) -> dict[str, Any]:
        return {**rest, "totalDurationMs": subagents.parent.runtime.now_ms() - began}

    def show() -> None:
        progress = [msgspec.to_builtins(child.activity) for child in children]
        context.update(ToolResult.text(_standing(children), details(results=[], progress=progress)))

    show_soon = background.Paced(show, max(UPDATE_INTERVAL, INTERVAL_EACH * len(children)))
    for child in children:
        child.on_progress = show_soon
    try:
        show_soon()
        await subagents.work(children, context.cancel)
    finally:
        show_soon.stop()
    answers = _shorten([child.output for child in children], ANSWER_BYTES)
    text = _format_answers(children, answers)
    results = [_result(child, answer) for child, answer in zip(children, answers, strict=True)]
    if context.cancel.fired:
        raise ToolError(f"{text}\n\nOperation aborted", details(results=results))
    if not any(child.status == "completed" for child in children):
        raise ToolError(text, details(results=results))
    return ToolResult.text(text, details(results=results))


def _standing(children: Sequence[Subagent]) -> str:
    """The progress of a call, in a few words."""
    working = sum(child.status == "running" for child in children)
    ended = sum(child.status not in ("pending", "running") for child in children)
    return f"{ended} of {len(children)} sub-agents have ended, {working} at work"


def _format_answers(children: Sequence[Subagent], answers: Sequence[str]) -> str:
    """What the model sees of the work."""
    parts = [_format_answer(child, answer) for child, answer in zip(children, answers, strict=True)]
    file = children[0].assignment.file
    if file is not None and any(len(answer) < len(child.output) for child, answer in zip(children, answers, strict=True)):
        parts.append(f"[Whole conversations are in {file.parent}]")
    return "\n\n".join(parts)


def _format_answer(child: Subagent, answer: str) -> str:
    parts = [f"## {child.activity.description} ({child.assignment.id}: {child.status})"]
    if child.error is not None:
        parts.append(f"Error: {child.error}")
    if answer or child.error is None:
        parts.append(answer or "(no answer)")
    if len(answer) < len(child.output):
        where = f"; all of it is in {child.assignment.file.name}" if child.assignment.file is not None else ""
        parts.append(f"[The first {len(answer)} of {len(child.output)} characters{where}]")
    return "\n\n".join(parts)


def _result(child: Subagent, answer: str) -> dict[str, Any]:
    """What the host sees of it (the form is omp's)."""
    activity, file = child.activity, child.assignment.file
    result: dict[str, Any] = {
        "index": activity.index,
        "id": activity.id,
        "agent": activity.agent,
        "agentSource": activity.agent_source,
        "description": activity.description,
        "assignment": activity.assignment,
        "status": activity.status,
        "exitCode": 0 if activity.status == "completed" else 1,
        "output": answer,
        "stderr": child.error or "",
        "truncated": len(answer) < len(child.output),
        "aborted": activity.status == "aborted",
        "durationMs": activity.duration_ms,
        "tokens": activity.tokens,
        "usage": msgspec.to_builtins(child.usage),
    }
    return result if file is None else {**result, "sessionFile": str(file)}


def _shorten(texts: Sequence[str], limit: int) -> list[str]:
    """The texts, the longest of them cut so that together they have at most `limit` bytes."""
    data = [text.encode() for text in texts]
    shares = [0] * len(data)
    left = limit
    for number, place in enumerate(sorted(range(len(data)), key=lambda place: len(data[place]))):
        shares[place] = min(len(data[place]), left // (len(data) - number))
        left -= shares[place]
    return [each[:share].decode("utf-8", "ignore") for each, share in zip(data, shares, strict=True)]


#: Finds the model that a pattern means, and the thinking level it names. Raises ModelNotFound.
Match: TypeAlias = Callable[[str], tuple[Model, ThinkingLevel | None]]


class SessionSpawner:
    """Implements `fairlead.session.subagents.subagents.Spawner`: sessions like the first one, each with its own context.

    `models` gives the models for one conversation. Without a `match` there is one model, and agents cannot choose another.
    """

    def __init__(
        self, models: Callable[[], Models], match: Match | None, overrides: Mapping[str, str], appended: Sequence[str]
    ) -> None:
        #: The options of the first session.
        self.like: SessionOptions | None = None
        self._models = models
        self._match = match
        self._overrides = overrides
        self._appended = appended

    def __call__(self, parent: Parent, agent: AgentDefinition, subagents: SessionSubagents, file: Path | None) -> Session:
        assert self.like is not None, "sub-agents come after the first session"
        workspace = replace(parent.host.workspace)
        tools = _tools(parent, workspace, subagents)
        archive = FileArchive() if self.like.sessions is None else self.like.sessions.archive
        archive, above, id = archive.for_subagents(parent.current.conversation)
        sessions = ConversationStore(workspace=workspace, now_ms=parent.runtime.now_ms, archive=archive)
        model, level = self._model(agent, parent)
        session = Session(
            replace(
                self.like,
                models=self._models(),
                make_tools=lambda: tools,
                active_tools=choose_tools(agent, tools),
                max_turns=self.like.max_turns if agent.max_turns is None else agent.max_turns,
                workspace=workspace,
                system_prompt=SystemPrompt(workspace, agent.prompt, self._appended, self.like.additions),
                additions=None,  # the model writes assignments, without slash commands
                servers=None,  # their tools are among those of the parent
                model=model,
                thinking=agent.thinking or level or parent.selection.wanted,
                scoped=(),
                sessions=sessions,
                conversation=sessions.new(id=id, parent=above, path=file),
                subagents=subagents,
                hooks=None,  # extensions follow the first session; of the others they see only the tool calls
                call_hooks=parent.extensions.call_hooks,
                approver=None if parent.approver is None else parent.approver.for_subagent(subagents.owner_id),
                behaviour=replace(self.like.behaviour, waits_for_key=True),
            )
        )
        session.host.make_ui = lambda: parent.host.ui
        session.host.locale = parent.host.locale
        session.activity.auto_retry = parent.activity.auto_retry
        session.activity.auto_compaction = parent.activity.auto_compaction
        return session

    def _model(self, agent: AgentDefinition, parent: Parent) -> tuple[Model | None, ThinkingLevel | None]:
        pattern = self._overrides.get(agent.name) or agent.model
        return (parent.selection.model, None) if pattern is None or self._match is None else self._match(pattern)


def _tools(parent: Parent, workspace: Workspace, subagents: SessionSubagents) -> dict[str, Tool]:
    """The tools of a sub-agent of `parent`: at most those of its parent.

    Built-in tools are made again for the workspace. A tool that replaces a built-in one is shared.
    """
    made = subagents.family.make_tools(workspace)
    active = parent.toolbox.active_tools()
    again = {name: made[name] for name, tool in active.items() if name in made and _code(tool) is _code(made[name])}
    tools = {name: again.get(name, tool) for name, tool in active.items() if name in again or not tool.bound}
    if subagents.may_spawn and "task" in active:
        tools["task"] = task_tool(subagents)
    return tools


def _code(tool: Tool) -> object:
    """Return the code that a tool runs, which does not depend on its workspace."""
    function: Any = tool.run
    if isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return getattr(function, "__code__", function)
