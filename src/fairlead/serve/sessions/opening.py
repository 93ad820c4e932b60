"""Makes the agents of sessions that outlive their clients, and opens their sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.agent.options import ASK, TASK, TODO_WRITE
from fairlead.core.model import Model, ThinkingLevel
from fairlead.errors import SessionInUse
from fairlead.protocol.http import objects as o
from fairlead.protocol.http.events import PromptResult
from fairlead.serve.sessions.notes import noted_approval
from fairlead.serve.sessions.spaces import Space
from fairlead.serve.sessions.submissions import Requests
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore

#: The tools that sessions have beside the usual ones.
MORE_TOOLS = (ASK, TODO_WRITE, TASK)
#: Seconds between two attempts to take a session of a fleet.
TAKE_INTERVAL = 0.2


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


def make_agent(
    space: Space, cwd: Path, conversation: Callable[[ConversationStore], Conversation], options: Mapping[str, object]
) -> Agent:
    """Return the agent of a session. Raises FairleadError."""
    base, registry = space.session_options, space.common.shared.registry
    if not registry.has_usable():
        registry.keys_changed()  # the user may have logged in meanwhile
    tools = _with_more(tuple(base.default_tools))
    return Agent(replace(base, cwd=cwd, conversation=conversation, default_tools=tools, **options), shared=space.common.shared)


async def open_session(agent: Agent, patience: float) -> None:
    """Open the session of an agent in its store, if it has one. Another process has some seconds to hand it back.

    Raises SessionInUse, which names that process.
    """
    end = time.monotonic() + patience
    while True:
        try:
            await agent.open()
            break
        except SessionInUse:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(TAKE_INTERVAL)
    agent.session.history.conversation.keep_empty()


def restore_approval(agent: Agent) -> None:
    """Give a session in a store the approval mode that it notes."""
    if agent.session.history.conversation.is_shared:
        approvals = agent.session.approvals
        approvals.set_mode(noted_approval(agent.session.history.log, approvals.mode))


@cache
def _with_more(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the tools of a session. All sessions share them."""
    return tuple(dict.fromkeys([*tools, *MORE_TOOLS]))


def restore(agent: Agent, parked: Parked) -> None:
    """Give a session what it had before it was evicted."""
    agent.session.approvals.set_mode(parked.approval)
    if not parked.is_saved and parked.model is not None:
        agent.session.models.set_model(parked.model.provider, parked.model.id)
        agent.session.models.set_thinking(parked.thinking)
