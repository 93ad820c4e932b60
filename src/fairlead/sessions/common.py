"""What the sessions of a process have in common."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Shared, shared_by_agents
from fairlead.agent.assembly import archive_of
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings
from fairlead.session.history.archive import Archive

#: Threads for blocking work: enough that one session cannot occupy them all.
THREADS = 128


class Common(Struct, frozen=True, kw_only=True):
    """What the sessions of a process have in common."""

    #: The options from the command line.
    base: AgentOptions
    home: Home
    #: The user's settings, without those of any project.
    settings: Settings
    shared: Shared

    @property
    def cwd(self) -> Path:
        """The working directory of sessions whose client names none."""
        return Path(self.base.cwd)

    def archive(self) -> Archive:
        """Return where the sessions are saved that the options and the settings choose, as an agent does."""
        base = self.base
        env = os.environ if base.env is None else base.env
        keeps = replace(base, keep=True) if base.keep is None and not base.store else base
        return archive_of(keeps, self.home, self.cwd, env, self.settings)


def common_parts(base: AgentOptions) -> Common:
    """Load what the sessions of a process have in common, and let them use enough threads."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="fairlead"))
    env = os.environ if base.env is None else base.env
    is_shared = base.confinement is not None and base.confinement.shares_home
    home = Home.find(env, isolated=base.isolated, peer=base.peer_home, is_shared=is_shared)
    settings, problems = load_settings(home, home.root)
    told: set[str] = set()

    def warn_once(warning: str) -> None:
        """Warn once: every session finds the same problems in what they share."""
        if base.warn is not None and warning not in told:
            told.add(warning)
            base.warn(warning)

    for problem in problems:
        warn_once(problem)
    own = replace(base.with_own_tools(), warn=warn_once)
    return Common(base=own, home=home, settings=settings, shared=shared_by_agents(base, home, settings))
