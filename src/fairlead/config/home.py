"""Finds the home and the folder of a project. It creates nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

#: Whose a file of configuration is.
Level: TypeAlias = Literal["user", "project"]

PROJECT_FOLDER = ".fairlead"


class PeerHome(Struct, frozen=True, kw_only=True):
    """Where a program that fairlead stands in for keeps its files."""

    #: The folder of the user's files, unless `variable` names another.
    folder: str
    #: The folder with a project's files.
    project_folder: str
    variable: str = "PI_CODING_AGENT_DIR"


class Home(Struct, frozen=True):
    """The folder of the user's configuration and sessions.

    `pi_folder` is the home of pi, whose models.json and auth.json are read, never written, for what ours
    do not have. An `isolated` home is never read from: the readers below name no files.
    """

    root: Path
    pi_folder: Path | None = None
    isolated: bool = False
    #: The user's home directory; None: that of this process's user.
    user: Path | None = None

    @classmethod
    def find(cls, env: Mapping[str, str], *, isolated: bool = False, peer: PeerHome | None = None) -> Home:
        """Return `$FAIRLEAD_HOME`, else the home of the peer, else `~/.fairlead`.

        In the last case the home has pi's folder beside it, if `$PI_CODING_AGENT_DIR` names one.
        """
        own = env.get("FAIRLEAD_HOME")
        if own:
            return cls(_absolute(own, env), None, isolated, user_folder(env))
        if peer is not None:
            return cls(_absolute(env.get(peer.variable) or peer.folder, env), None, isolated, user_folder(env))
        pi = env.get("PI_CODING_AGENT_DIR")
        return cls(_absolute("~/.fairlead", env), _absolute(pi, env) if pi else None, isolated, user_folder(env))

    @property
    def settings_path(self) -> Path:
        return self.root / "settings.json"

    @property
    def models_path(self) -> Path:
        return self.root / "models.json"

    @property
    def auth_path(self) -> Path:
        return self.root / "auth.json"

    @property
    def sessions_dir(self) -> Path:
        return self.root / "sessions"

    def boundary(self, folder: Path) -> Path | None:
        """The real path of the directory that project files in `folder` must stay in; None if these are the user's own files."""
        return project_boundary(folder, self.user or Path.home(), self.root)

    def settings_files(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the settings files to read, and whose they are; a later one overrides an earlier one."""
        if self.isolated:
            return ()
        user, project = self.settings_path, project_folder(cwd) / "settings.json"
        return (("user", user),) if user == project else (("user", user), ("project", project))

    def agents_folders(self, cwd: Path) -> dict[Level, Path]:
        """Return the folders of agents that can be given work; if two have the same name, the later one wins."""
        if self.isolated:
            return {}
        user, project = self.root / "agents", project_folder(cwd) / "agents"
        return {"user": user} if user == project else {"user": user, "project": project}

    def models_files(self) -> tuple[Path, ...]:
        """Return the models.json files to read; an earlier one wins, provider by provider."""
        return self._readable("models.json")

    def auth_files(self) -> tuple[Path, ...]:
        """Return the auth.json files to read; an earlier one wins, provider by provider."""
        return self._readable("auth.json")

    def rules_folders(self, cwd: Path) -> dict[Level, Path]:
        """Return the folders of stream rules; if two rules have the same name, the later one wins."""
        if self.isolated:
            return {}
        user, project = self.root / "rules", project_folder(cwd) / "rules"
        return {"user": user} if user == project else {"user": user, "project": project}

    def mcp_files(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the files of MCP servers, and whose they are; if two servers have the same name, the later file wins."""
        if self.isolated:
            return ()
        user, own = self.root / "mcp.json", project_folder(cwd) / "mcp.json"
        project: tuple[tuple[Level, Path], ...] = (("project", cwd / ".mcp.json"), ("project", own))
        return (("user", user), *(each for each in project if each[1] != user))

    def _readable(self, name: str) -> tuple[Path, ...]:
        if self.isolated:
            return ()
        if self.pi_folder is None or self.pi_folder == self.root:
            return (self.root / name,)
        return self.root / name, self.pi_folder / name


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the user's own directory, as `env` has it."""
    return Path(env.get("HOME") or Path.home())


def project_folder(cwd: Path) -> Path:
    """Return where a project keeps its own settings."""
    return cwd / PROJECT_FOLDER


def project_boundary(folder: Path, user: Path, home: Path) -> Path | None:
    """Return the directory that project files in `folder` must stay in: its repository, or `folder` itself outside any.

    A link in a project may lead to any place in its repository, but not out of it. A repository that holds the user's home
    directory does not count: all files of the user are in it.

    Args:
        folder: The directory in which a file was found, or `.fairlead` with one.
        user: The user's home directory.
        home: fairlead's home.

    Returns:
        A real path; None if `folder` is the user's own.
    """
    real = Path(os.path.realpath(folder))
    own = Path(os.path.realpath(user))
    # The last name is not followed: a project could link its .fairlead to the user's.
    if real == own or real / PROJECT_FOLDER == Path(os.path.realpath(home.parent)) / home.name:
        return None
    for each in (real, *real.parents):
        if own.is_relative_to(each):
            break
        if os.path.lexists(each / ".git"):
            return each
    return real


def _absolute(path: str, env: Mapping[str, str]) -> Path:
    """`path` with a leading `~` replaced by the home directory that `env` names."""
    if path == "~" or path.startswith("~/"):
        return Path(user_folder(env), path[2:]).absolute()
    return Path(path).absolute()
