"""What protects the user from an agent, made from the settings: protected files, the sandbox, approvals."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.config.home import Home, user_folder
from fairlead.config.project_code import outside_code
from fairlead.config.settings import ApprovalMode, Settings
from fairlead.config.settings_files import can_persist_rules, persist_approval_rule
from fairlead.errors import ConfigError
from fairlead.platform.open_files import make_private_folders
from fairlead.policy.approvals import Policy
from fairlead.policy.offers import RuleWriter
from fairlead.policy.protected import Protected, key_files, read_only_in_sandbox
from fairlead.policy.sandbox import Bubblewrap, GuardedPlaces
from fairlead.session.approvals import Approvals
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.approval import Asker

#: Programs that run extensions, outside the sandbox.
_PROGRAMS = ("node", "npm")


def protection(home: Home, settings: Settings, workspace: Workspace, servers: Sequence[Path] = ()) -> Protected:
    """The guard of a workspace's files. `servers` are the files of MCP servers that the user names."""
    return Protected(
        key_files(home, workspace.env),
        settings.protected_paths,
        cwd=lambda: workspace.cwd,
        home=user_folder(workspace.env),
        jobs=home.jobs_dir,
        read_only=None if workspace.sandbox is None else read_only_in_sandbox(home),
        code=_code(home, settings, workspace, servers),
        **({} if workspace.sandbox is None else {"installed": workspace.sandbox.part_of_installation}),
    )


def _code(home: Home, settings: Settings, workspace: Workspace, servers: Sequence[Path]) -> Callable[[], Sequence[Path]]:
    """Return what lists the files in a workspace that run outside the sandbox."""

    def find() -> Sequence[Path]:
        env = workspace.env if workspace.agent_env is None else workspace.agent_env
        return outside_code(home, settings, workspace.cwd, env, servers)

    return find


def sandbox(
    home: Home,
    settings: Settings,
    workspace: Workspace,
    scratch: Callable[[], Path],
    servers: Sequence[Path] = (),
    named: Sequence[Path] = (),
) -> Bubblewrap:
    """The sandbox for a workspace's commands. Raises ConfigError if it is not possible on this machine.

    `servers` are the files of MCP servers that the user names. `named` are the extensions that the user named for this
    run.
    """
    if not home.isolated:
        # A directory that does not exist yet cannot be hidden from a command that is running when it is created.
        try:
            make_private_folders(home.root)
        except OSError as error:
            raise ConfigError(f"The directory {home.root} cannot be created: {error.strerror}.") from error
    own = [folder for folder in dict.fromkeys(path.parent for path in key_files(home, workspace.env)) if os.path.isdir(folder)]
    made = Bubblewrap(
        workspace.which("bwrap"),
        workspace.cwd,
        scratch=scratch,
        masks=protection(home, settings, workspace).masks,
        places=GuardedPlaces(
            own=own,
            # Sessions may have another home than this process.
            users=[user_folder(workspace.env), user_folder(os.environ)],
            read_only=read_only_in_sandbox(home),
            code=_code(home, settings, workspace, servers),
            jobs=home.jobs_dir,
            named=named,
            programs=[program for name in _PROGRAMS if (program := workspace.which(name)) is not None],
        ),
        env=workspace.env,
    )
    made.prove()
    return made


def approvals(
    settings: Settings,
    chosen: ApprovalMode | None,
    home: Home,
    asker: Asker | None = None,
    file_tools: Sequence[str] = (),
) -> Approvals:
    """What decides about tool calls. A mode that was `chosen` overrides that of the settings. `asker` stands in for the user.
    See `Policy` for `file_tools`."""
    wanted = settings.approvals

    def find_project(cwd: str) -> str:
        return str(home.boundary(Path(cwd)) or cwd)

    rules = RuleWriter(partial(persist_approval_rule, home), find_project) if can_persist_rules(home) else None
    return Approvals(Policy(chosen or wanted.mode, wanted.rules, file_tools), wanted.timeout_seconds, asker, rules)
