"""Finds the home and the folder of a project. It creates nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fairlead.errors import ConfigError

#: Whose a file of configuration is.
Level: TypeAlias = Literal["user", "project"]

PROJECT_FOLDER = ".fairlead"
#: The folders in which fairlead and the programs that it stands in for find a project's configuration and code.
AGENT_FOLDERS = (PROJECT_FOLDER, ".pi", ".omp", ".xcsh")
#: A project's file of MCP servers, which many programs read.
MCP_FILE = ".mcp.json"

#: The files of omp and xcsh. The first one that exists is read; the JSON files are those of older releases.
_OMP_SETTINGS = ("config.yml", "config.yaml", "settings.json")
_OMP_MODELS = ("models.yml", "models.yaml", "models.json")


def working_directory() -> Path:
    """Return the working directory. Raises ConfigError if it was deleted or cannot be reached."""
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(f"The working directory cannot be used: {error.strerror}. Change to another one.") from error


def expand_user(path: str | Path) -> Path:
    """Return a path with the user's directory in place of `~`, or that of a user in place of `~name`.

    If there is no such user, the path stays as it is: it may be the name of a file.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path.expanduser raises an error for unknown users


class PeerHome(Struct, frozen=True, kw_only=True):
    """Where a program that fairlead stands in for keeps its files, and in which layout."""

    #: The folder in the user's directory that holds the home, and the folder with a project's files.
    folder: str
    #: `pi`: settings.json, models.json, auth.json. `omp`: config.yml, models.yml, agent.db, and other names of session folders.
    layout: Literal["pi", "omp"] = "pi"
    #: Names another folder instead of `folder`.
    folder_variable: str | None = None
    #: Variables that name a profile. Each profile has its own home.
    profile_variables: tuple[str, ...] = ()
    #: What `--as` names to start fairlead as the same program, and the npm package and the version of that program. Without a
    #: name, fairlead was started under its own.
    started_as: str = ""
    package: str = ""
    version: str = ""

    def root(self, env: Mapping[str, str]) -> Path:
        """Return the folder of the user's files."""
        profile = next((env[name] for name in self.profile_variables if name in env), "").strip()
        if profile == "default" or not _is_profile(profile):
            profile = ""
        named = "" if profile else env.get("PI_CODING_AGENT_DIR")
        if named:
            return _absolute(named, env)
        above = user_folder(env) / ((self.folder_variable and env.get(self.folder_variable)) or self.folder)
        return (above / "profiles" / profile / "agent" if profile else above / "agent").absolute()


#: Whose files of Claude Code are read: the user's, the project's, or the user's own in the project.
ClaudeSource: TypeAlias = Literal["user", "project", "local"]
CLAUDE_FOLDER = ".claude"


class ClaudeFiles(Struct, frozen=True, kw_only=True):
    """Where users of Claude Code keep instructions, commands, skills and agents."""

    #: The folder of the user.
    folder: Path
    sources: Sequence[ClaudeSource] = ("user", "project", "local")
    #: Whether the project is trusted. It is asked only if that makes a difference.
    is_trusted: Callable[[], bool] = lambda: False

    def folders(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the folders of the user and the project; if two things have the same name, the earlier one wins."""
        found: list[tuple[Level, Path]] = [("user", self.folder)] if "user" in self.sources else []
        own = os.path.realpath(self.folder)
        for folder in folders_of_repository(cwd) if "project" in self.sources else ():
            if os.path.realpath(folder / CLAUDE_FOLDER) != own:
                found.append(("project", folder / CLAUDE_FOLDER))
        return tuple(found)


class Home(Struct, frozen=True):
    """The folder of the user's configuration and sessions.

    `pi_folder` is the home of pi, whose models.json and auth.json are read, never written, for what ours
    do not have. An `isolated` home is never read from: the readers below name no files. With a `peer`, the files are those of
    that program.
    """

    root: Path
    pi_folder: Path | None = None
    isolated: bool = False
    #: The user's home directory; None: that of this process's user.
    user: Path | None = None
    peer: PeerHome | None = None
    #: The peer that fairlead was started as, also if `$FAIRLEAD_HOME` names another home than that of the peer.
    started_as: PeerHome | None = None
    #: Whether several users share it, so that none of them may change its keys, settings and decisions.
    is_shared: bool = False

    @classmethod
    def find(
        cls, env: Mapping[str, str], *, isolated: bool = False, peer: PeerHome | None = None, is_shared: bool = False
    ) -> Home:
        """Return `$FAIRLEAD_HOME`, else the home of the peer, else `~/.fairlead`.

        In the last case the home has pi's folder beside it, if `$PI_CODING_AGENT_DIR` names one.
        """
        found = cls._find(env, isolated, peer)
        return replace(found, is_shared=is_shared, started_as=peer)

    @classmethod
    def _find(cls, env: Mapping[str, str], isolated: bool, peer: PeerHome | None) -> Home:
        own = env.get("FAIRLEAD_HOME")
        if own:
            return cls(_absolute(own, env), None, isolated, user_folder(env))
        if peer is not None:
            return cls(peer.root(env), None, isolated, user_folder(env), peer)
        pi = env.get("PI_CODING_AGENT_DIR")
        return cls(_absolute("~/.fairlead", env), _absolute(pi, env) if pi else None, isolated, user_folder(env))

    def refuse_if_shared(self, what: str) -> None:
        """Raise ConfigError if several users share the home."""
        if self.is_shared:
            raise ConfigError(
                f"{what} cannot be changed over this connection, because all users of the server share them. The owner of the"
                " server can change them on its machine."
            )

    @property
    def has_omp_layout(self) -> bool:
        return self.peer is not None and self.peer.layout == "omp"

    @property
    def settings_path(self) -> Path:
        """The user's settings."""
        return self._first(_OMP_SETTINGS) if self.has_omp_layout else self.root / "settings.json"

    @property
    def models_path(self) -> Path:
        """The user's providers and models."""
        return self._first(_OMP_MODELS) if self.has_omp_layout else self.root / "models.json"

    @property
    def auth_path(self) -> Path:
        return self.root / "auth.json"

    @property
    def mcp_sign_ins_path(self) -> Path:
        return self.root / "mcp-sign-ins.json"

    @property
    def models_store_path(self) -> Path:
        """Lists of models that extensions want to find again."""
        return self.root / "models-store.json"

    @property
    def key_database(self) -> Path | None:
        """The database in which omp keeps keys; None: there are no keys outside auth.json."""
        return self.root / "agent.db" if self.has_omp_layout and not self.isolated else None

    @property
    def sessions_dir(self) -> Path:
        return self.root / "sessions"

    @property
    def jobs_dir(self) -> Path:
        """Where workers keep the repositories and worktrees of jobs."""
        return self.root / "jobs"

    @property
    def project_names(self) -> tuple[str, ...]:
        """The names of a project's folders with its own configuration; if two conflict, the later one wins."""
        return (PROJECT_FOLDER,) if self.peer is None else (self.peer.folder, PROJECT_FOLDER)

    def project_folders(self, cwd: Path) -> tuple[Path, ...]:
        """Return the folders with a project's own configuration; if two conflict, the later one wins.

        A folder that is the home itself holds what is the user's, not the project's.
        """
        return tuple(folder for folder in (cwd / name for name in self.project_names) if folder != self.root)

    def boundary(self, folder: Path) -> Path | None:
        """The real path of the directory that project files in `folder` must stay in; None if these are the user's own files."""
        return project_boundary(folder, self.user or Path.home(), self.root)

    def is_of_peer(self, path: Path) -> bool:
        """Whether a file of the home or of a project belongs to the peer."""
        return self.peer is not None and path.parent.name != PROJECT_FOLDER

    def settings_files(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the settings files to read, and whose they are; a later one overrides an earlier one."""
        if self.isolated:
            return ()
        project: list[tuple[Level, Path]] = []
        for folder in self.project_folders(cwd):
            project.append(("project", folder / "settings.json"))
            if self.has_omp_layout and folder.name != PROJECT_FOLDER:
                project.append(("project", folder / _OMP_SETTINGS[0]))
        return ("user", self.settings_path), *project

    def agents_folders(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the folders of agents that can be given work; if two have the same name, the later one wins."""
        return self._folders("agents", cwd)

    def models_files(self) -> tuple[Path, ...]:
        """Return the models.json files to read; an earlier one wins, provider by provider."""
        return (self.models_path,) if self.has_omp_layout and not self.isolated else self._readable("models.json")

    def auth_files(self) -> tuple[Path, ...]:
        """Return the auth.json files to read; an earlier one wins, provider by provider."""
        return self._readable("auth.json")

    def rules_folders(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the folders of stream rules; if two rules have the same name, the later one wins."""
        return self._folders("rules", cwd)

    def mcp_files(self, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        """Return the files of MCP servers, and whose they are; if two servers have the same name, the later file wins."""
        if self.isolated:
            return ()
        project = (cwd / MCP_FILE, *(folder / "mcp.json" for folder in self.project_folders(cwd)))
        return ("user", self.root / "mcp.json"), *(("project", path) for path in project)

    def _folders(self, name: str, cwd: Path) -> tuple[tuple[Level, Path], ...]:
        if self.isolated:
            return ()
        return ("user", self.root / name), *(("project", folder / name) for folder in self.project_folders(cwd))

    def _first(self, names: tuple[str, ...]) -> Path:
        """Return the first of these files that exists; if none does, the first."""
        paths = [self.root / name for name in names]
        return next((path for path in paths if os.path.lexists(path)), paths[0])

    def _readable(self, name: str) -> tuple[Path, ...]:
        if self.isolated:
            return ()
        if self.pi_folder is None or self.pi_folder == self.root:
            return (self.root / name,)
        return self.root / name, self.pi_folder / name


def folders_of_repository(cwd: Path) -> Iterator[Path]:
    """Yield `cwd` and its parents up to the root of the repository, or of the file system if there is no repository."""
    for folder in (cwd, *cwd.parents):
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the user's own directory, as `env` has it."""
    return Path(env.get("HOME") or Path.home())


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


def _is_profile(name: str) -> bool:
    """Whether omp accepts a name for a profile. Other names mean the default profile."""
    return bool(name) and re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name) is not None and not name.endswith(".")


def _absolute(path: str, env: Mapping[str, str]) -> Path:
    """`path` with a leading `~` replaced by the home directory that `env` names."""
    if path == "~" or path.startswith("~/"):
        return Path(user_folder(env), path[2:]).absolute()
    return Path(path).absolute()
