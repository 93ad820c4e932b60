"""Where the tools of an agent work: the directories, the environment of the programs they start, and what guards both."""

from __future__ import annotations

import os
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.agent.options import AgentOptions
from fairlead.agent.session_sandbox import SessionSandbox
from fairlead.config.home import Home, expand_user
from fairlead.config.settings import Settings
from fairlead.errors import BadOption
from fairlead.platform.scratch import Scratch
from fairlead.tools.files.targets import Guard
from fairlead.tools.workspace import LateGuard, Workspace

if TYPE_CHECKING:
    from fairlead.policy.sandbox import Bubblewrap

#: A value that is shorter is not taken for a copy of a key.
_SHORTEST_KEY = 8
#: Variables that are never keys. They are needed at the start, before models.json is read.
_HARMLESS = frozenset(("HOME", "PATH", "TMPDIR", "SHELL", "USER"))
#: An empty set that all share: each new one takes 216 bytes.
_NONE: frozenset[str] = frozenset()


def make_workspace(
    options: AgentOptions,
    env: Mapping[str, str],
    cwd: Path,
    home: Home,
    settings: Settings,
    scratch: Scratch,
    key_variables: Callable[[], Iterable[str]],
) -> tuple[Workspace, SessionSandbox]:
    """Make the workspace of an agent, and the sandbox of its commands.

    Args:
        options: The options of the agent.
        env: The environment of the agent.
        cwd: The working directory.
        home: The directory of the user's configuration.
        settings: The settings of the user and the project.
        scratch: The directory for temporary files.
        key_variables: Returns the names of the variables that hold keys.

    Raises:
        BadOption: A directory is outside those that sessions may work in.
        ConfigError: The sandbox is not possible on this machine.
    """
    confinement = options.behaviour.confinement
    workspace = Workspace(
        cwd,
        # Under the name of a peer, tools get all variables, as the users of the peer expect.
        env if home.peer is not None else ToolEnvironment(env, key_variables, settings.pass_keys),
        agent_env=env,
        log_dir=scratch.path,
        keep_log=scratch.keep,
        shell=settings.shell_path,
        command_prefix=settings.shell_command_prefix or "",
        resize_images=settings.images.auto_resize,
        default_timeout=settings.tools.timeout_seconds,
        counts_written_bytes=options.behaviour.counts_written_bytes,
        more=[Path(folder).absolute() for folder in options.add_dirs],
        root=None if confinement is None else confinement.root,
    )
    for folder in (workspace.cwd, *workspace.more):
        if not workspace.may_work_in(folder):
            raise BadOption(f"cwd: {folder} is outside {workspace.root}, and sessions may not work there.")
    servers = [workspace.resolve(str(path)) for path in options.discovery.mcp_config]

    def make_sandbox() -> Bubblewrap:
        from fairlead.session.protection import sandbox  # noqa: PLC0415  compiles many patterns

        # Those that are packages (npm:NAME) are kept elsewhere.
        named = [path for path in (cwd / expand_user(each) for each in options.extensions) if os.path.lexists(path)]
        return sandbox(home, settings, workspace, scratch.path, servers, named)

    confined = SessionSandbox(
        workspace,
        make_sandbox,
        wanted=(options.sandbox or settings.sandbox) == "workspace",
        is_explicit=options.sandbox is not None,
    )

    def guard() -> Guard:
        from fairlead.session.protection import protection  # noqa: PLC0415  compiles many patterns

        return protection(home, settings, workspace, servers)

    workspace.guard = LateGuard(guard)
    return workspace, confined


class ToolEnvironment(Mapping[str, str]):
    """The environment of the programs that an agent starts: without keys, and without copies of them in other variables.

    Args:
        env: The environment of the agent.
        key_variables: Returns the names of the variables that hold keys.
        kept: The names of those that stay; `*` keeps all.
    """

    def __init__(self, env: Mapping[str, str], key_variables: Callable[[], Iterable[str]], kept: Iterable[str]) -> None:
        self._env = env
        self._key_variables = key_variables
        self._kept = frozenset(kept) or _NONE

    def __getitem__(self, name: str) -> str:
        if name not in _HARMLESS and name in self._list_hidden(dict(self._env)):
            raise KeyError(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._visible())

    def __len__(self) -> int:
        return len(self._visible())

    def items(self) -> ItemsView[str, str]:
        """Return all variables, as a program that is started gets them. Keys are searched for once, not for each variable."""
        return self._visible().items()

    def _visible(self) -> dict[str, str]:
        env = dict(self._env)  # `os.environ` decodes a variable each time it is read
        hidden = self._list_hidden(env)
        return {name: value for name, value in env.items() if name not in hidden}

    def _list_hidden(self, env: dict[str, str]) -> set[str]:
        """Return the names of the variables that are left out. Extensions can add providers, so this may change."""
        if "*" in self._kept:
            return set()
        hidden = set(self._key_variables()) - self._kept
        values = {value for name in hidden if len(value := env.get(name, "").strip()) >= _SHORTEST_KEY}
        if not values:
            return hidden
        return hidden | {name for name, value in env.items() if value.strip() in values and name not in self._kept}
