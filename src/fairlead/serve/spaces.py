"""What each user of the server can reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions, Confinement
from fairlead.config.home import Home
from fairlead.serve.access import OWNER
from fairlead.serve.hub import Space
from fairlead.wire.many_sessions import common_parts
from fairlead.wire.pi.profile import Profile

#: The approval modes that are less strict than `ask`.
LENIENT = ("auto", "write")


def make_spaces(
    users: Iterable[str],
    agent_options: Callable[[Profile | None], AgentOptions],
    prepare: Callable[[Agent], Awaitable[None]],
    *,
    root: Path | None,
    asks: bool,
) -> dict[str, Space]:
    """Return the space of each user.

    The owner of a server has the sessions of the home. Every other user has a directory for their own sessions. They share the
    connections to providers.

    Args:
        users: Their names.
        agent_options: Returns the options of an agent, with the defaults of a profile.
        prepare: Called with each agent before its first prompt.
        root: The directory that holds all working directories; None: they may be anywhere.
        asks: Whether tools that change something need approval unless something else is chosen.

    Raises:
        ConfigError: The settings cannot be used.
    """
    common = common_parts(agent_options(None))
    asks = asks and common.base.approval is None

    async def prepare_and_ask(agent: Agent) -> None:
        await prepare(agent)
        if asks and agent.session.approvals.mode in LENIENT:
            agent.session.approvals.set_mode("ask")

    def space(user: str) -> Space:
        def options(profile: Profile) -> AgentOptions:
            return _confined(agent_options(profile), user, common.home, root)

        own = replace(common, base=_confined(common.base, user, common.home, root))
        return Space(common=own, agent_options=options, prepare=prepare_and_ask, asks=asks)

    return {user: space(user) for user in users}


def _confined(options: AgentOptions, user: str, home: Home, root: Path | None) -> AgentOptions:
    """Return options for the sessions of one user."""
    if user == OWNER or home.isolated:
        return replace(options, confinement=Confinement(root=root))
    own = home.root / "serve" / "users" / user
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return replace(options, session_dir=own / "sessions", confinement=Confinement(root=root, sessions=own))
