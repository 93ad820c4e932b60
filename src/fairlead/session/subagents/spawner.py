"""Makes the sessions of sub-agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec.structs import replace

from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import Tool
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.history.sessions import ConversationStore
from fairlead.session.options import SessionOptions
from fairlead.session.selection import Models
from fairlead.session.session import Session
from fairlead.session.subagents.tool import task_tool
from fairlead.session.system_prompt import SystemPrompt
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.subagents.agents import AgentDefinition
    from fairlead.session.subagents.subagents import Parent, SessionSubagents


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
                active_tools=list(tools) if agent.tools is None else [name for name in agent.tools if name in tools],
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
                waits_for_key=True,
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
