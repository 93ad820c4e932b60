"""Makes the agents of sessions that outlive their clients, and opens their sessions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.core.model import Model, ThinkingLevel
from fairlead.protocol.http import objects as o
from fairlead.protocol.http.events import PromptResult
from fairlead.serve.sessions.notes import noted_approval
from fairlead.serve.sessions.spaces import Space
from fairlead.serve.sessions.submissions import Requests
from fairlead.sessions.catalogue import Opener
from fairlead.sessions.opening import with_more_tools


class Parked(Struct, frozen=True, kw_only=True):
    """What an evicted session has that is not in its file."""

    cwd: Path
    name: str | None
    approval: o.Approval
    model: Model | None
    thinking: ThinkingLevel
    requests: Requests
    results: list[PromptResult]
    #: Whether there is a file. Otherwise it is empty, and begins again under its id.
    is_saved: bool


def make_agent(space: Space, cwd: Path, conversation: Opener, options: Mapping[str, object]) -> Agent:
    """Return the agent of a session. Raises FairleadError."""
    base, registry = space.session_options, space.common.shared.registry
    if not registry.has_usable():
        registry.keys_changed()  # the user may have logged in meanwhile
    tools = with_more_tools(tuple(base.default_tools))
    return Agent(replace(base, cwd=cwd, conversation=conversation, default_tools=tools, **options), shared=space.common.shared)


def restore_approval(agent: Agent) -> None:
    """Give a session in a store the approval mode that it notes."""
    if agent.session.history.conversation.is_shared:
        approvals = agent.session.approvals
        approvals.set_mode(noted_approval(agent.session.history.log, approvals.mode))


def restore(agent: Agent, parked: Parked) -> None:
    """Give a session what it had before it was evicted."""
    agent.session.approvals.set_mode(parked.approval)
    if not parked.is_saved and parked.model is not None:
        agent.session.models.set_model(parked.model.provider, parked.model.id)
        agent.session.models.set_thinking(parked.thinking)
