"""What each user of the server can reach: its sessions, and the fleet whose sessions the server shares."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions, Storage
from fairlead.config.home import Home
from fairlead.platform.open_files import make_private_folders
from fairlead.protocol.http.fleet import JobEvent, JobResult
from fairlead.serve.access import OWNER
from fairlead.serve.refusals import Refusal, bad_request
from fairlead.session.behaviour import Confinement
from fairlead.session.history.store_archive import StoreArchive
from fairlead.sessions.catalogue import Catalogue, Common, common_parts
from fairlead.stores import SessionStore
from fairlead.wire.pi.profile import Profile


class FleetJobs(Protocol):
    """The jobs of a fleet, as far as its sessions need them. `fairlead.jobs.Jobs` implements it."""

    async def list(self, *, session: str | None = None) -> list[JobResult]:
        """Return the jobs of a session, in the order in which they were submitted."""
        ...

    async def prompt(self, session: str, prompt: str, *, id: str | None = None) -> JobResult:
        """Send a prompt to a session. With the same id it is sent once."""
        ...

    def events(self, id: str, *, after: int | None = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job after a number until it has ended. None: only new ones."""
        ...

    async def cancel(self, *ids: str) -> list[JobResult]:
        """Cancel jobs."""
        ...

    async def retry(self, *ids: str) -> list[JobResult]:
        """Queue jobs again that failed, were cancelled or are parked. They continue where they ended."""
        ...


class Fleet(Struct, frozen=True):
    """The fleet whose sessions a server serves."""

    store: SessionStore
    jobs: FleetJobs
    #: The name of this server, for the leases of sessions.
    owner: str


#: The approval modes that are less strict than `ask`.
LENIENT = ("auto", "write")


class Space(Struct, frozen=True, kw_only=True):
    """What one user can reach: the options of their sessions, and where these are saved."""

    common: Common
    #: Returns the options of an agent for a profile of the pi family.
    agent_options: Callable[[Profile], AgentOptions]
    #: Called with each agent before its first prompt.
    prepare: Callable[[Agent], Awaitable[None]]
    #: Whether tools that change something need approval, unless the settings are stricter or a client chooses otherwise.
    asks: bool = False
    #: The fleet whose sessions the user shares; None: the sessions of the user are in files.
    fleet: Fleet | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The saved sessions. Those of a fleet are listed even if they are empty, because other servers find them too."""
        if self.fleet is None:
            return Catalogue(self.common.archive(), self.common.cwd)
        return Catalogue(StoreArchive(self.fleet.store), self.common.cwd, lists_empty=True)

    @property
    def session_options(self) -> AgentOptions:
        """The options of sessions that outlive their clients."""
        return self.common.base if self.fleet is None else self.with_store(self.fleet.store, self.common.base)

    def with_store(self, store: SessionStore, options: AgentOptions) -> AgentOptions:
        """Return options for agents whose sessions are in a store of the fleet."""
        owner = None if self.fleet is None else self.fleet.owner
        return replace(options, store=Storage(store=store, lease_owner=owner), keep=None)

    @property
    def confinement(self) -> Confinement:
        return self.common.base.behaviour.confinement or Confinement()

    def folder(self, name: str | None) -> Path:
        """Return a working directory. Raises Refusal if it does not exist, or is outside the root."""
        base = self.common.base.cwd
        path = Path(name) if name is not None else base if isinstance(base, Path) else Path(base)
        try:
            # What is outside the root gets one answer, whether it exists or not.
            if path.is_absolute() and not self.admits(path):
                raise Refusal(403, "outside_root", "cwd: this directory is outside the root of the server.")
            if not path.is_absolute() or not os.path.isdir(path):
                raise bad_request(f"cwd: expected the absolute path of a directory, found {str(path)!r}.")
        except (OSError, ValueError):  # no permission, or a null byte
            raise bad_request("cwd: this directory cannot be used.") from None
        return path

    def admits(self, folder: Path) -> bool:
        """Whether sessions may work in a directory. Links are resolved."""
        root = self.confinement.root
        return root is None or Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(root))


def make_spaces(
    users: Iterable[str],
    agent_options: Callable[[Profile | None], AgentOptions],
    prepare: Callable[[Agent], Awaitable[None]],
    *,
    root: Path | None,
    asks: bool,
    fleet: Fleet | None = None,
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
        fleet: The fleet that keeps the sessions of all users; None: files keep them.

    Raises:
        ConfigError: The settings cannot be used.
    """
    users = list(users)
    shared = Confinement(root=root, shares_home=OWNER not in users)
    common = common_parts(_within(agent_options(None), shared))
    asks = asks and common.base.approval is None

    async def prepare_and_ask(agent: Agent) -> None:
        await prepare(agent)
        if asks and agent.session.approvals.mode in LENIENT:
            agent.session.approvals.set_mode("ask")

    def space(user: str) -> Space:
        def options(profile: Profile) -> AgentOptions:
            return _confine(agent_options(profile), user, common.home, shared)

        own = replace(common, base=_confine(common.base, user, common.home, shared))
        return Space(common=own, agent_options=options, prepare=prepare_and_ask, asks=asks, fleet=fleet)

    return {user: space(user) for user in users}


def _confine(options: AgentOptions, user: str, home: Home, shared: Confinement) -> AgentOptions:
    """Return options for the sessions of one user."""
    if user == OWNER or home.isolated:
        return _within(options, shared)
    own = home.root / "serve" / "users" / user
    make_private_folders(own)
    storage = replace(options.storage, folder=own / "sessions")
    return replace(_within(options, replace(shared, sessions=own)), store=storage)


def _within(options: AgentOptions, confinement: Confinement) -> AgentOptions:
    return replace(options, behaviour=replace(options.behaviour, confinement=confinement))
