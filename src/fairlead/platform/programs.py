"""Finds the programs that fairlead starts for itself, and runs git.

A repository, or a command in the sandbox, can put a program called `git` into a folder that is on PATH. So a program counts only
if neither its folder nor anything that its links lead through is in the working directory.

Git starts programs that the configuration of a repository names: filters, hooks, monitors, pagers, helpers of protocols. It also
finds repositories by itself, fetches what is missing, and takes orders from variables. A call from here names its repository,
and nothing else has a say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from fairlead.core.secrets import learn_url, without_credentials
from fairlead.errors import ConfigError

#: The maximum number of links to follow from a name on PATH to the program.
_MOST_LINKS = 40
#: How many programs are remembered.
_MOST_FOUND = 256
#: What `find_program_again` found, by what it was asked.
_found: dict[tuple[str, str, tuple[Path, ...]], str | None] = {}


def find_program(name: str, path: str | None, *, outside: Iterable[Path]) -> str | None:
    """Return the first executable called `name` on a search path that lies outside the given directories.

    Args:
        name: the name of the program, without a folder.
        path: the value of PATH; None: that of this process. Folders that are not absolute are skipped.
        outside: the directories whose programs do not count, such as the working directory. `/` does not restrict the search.

    Returns:
        The absolute path of the program; None if there is none.
    """
    if not name or os.sep in name:
        return None
    refused = _list_refused(outside)
    for folder in _folders(path):
        candidate = os.path.join(folder, name)  # noqa: PTH118
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate) and _is_outside(candidate, refused):
            return candidate
    return None


def find_program_again(name: str, path: str, *folders: Path) -> str | None:
    """Return what `find_program` finds outside the `working_folders` of a session, and remember it.

    Each command asks for its shell. What was found once is outside, where no command in the sandbox can replace it. It is
    searched for again when it is gone.
    """
    key = (name, path, folders)
    found = _found.get(key)
    if found is None or not os.access(found, os.X_OK):
        found = find_program(name, path, outside=working_folders(*folders))
        if len(_found) >= _MOST_FOUND:
            _found.clear()
        _found[key] = found
    return found


def search_path(path: str | None, *, outside: Iterable[Path]) -> str:
    """Return the PATH for a program that fairlead starts for itself: without what `find_program` would not search.

    The arguments are those of `find_program`.
    """
    refused = _list_refused(outside)
    return os.pathsep.join(folder for folder in _folders(path) if _is_outside(folder, refused)) or os.defpath


def own_environment(env: Mapping[str, str], *, outside: Iterable[Path]) -> dict[str, str]:
    """Return the environment for a program that fairlead starts for itself: `env` with the PATH of `search_path`.

    Such a program may be a script, whose interpreter is looked for there, or start others, as wl-copy starts xdg-mime.
    """
    return {**env, "PATH": search_path(env.get("PATH", os.defpath), outside=outside)}


def working_folders(*folders: Path) -> list[Path]:
    """Return the directories of a session in which programs do not count, for `find_program`, and the repositories they are in.

    One that the user's home is in has programs of the user, such as those of nvm in `~/.nvm`: it counts. The sandbox does not
    start there.
    """
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111  # Path.expanduser raises without a home
    found = dict.fromkeys(folders)
    for folder in folders:
        # A session in a part of a repository must not run what another part of it has, such as `node_modules/.bin`.
        found |= dict.fromkeys(each for each in Path(os.path.realpath(folder)).parents if os.path.lexists(each / ".git"))
    return [folder for folder in found if not _is_below(home, os.path.realpath(folder))]


def current_folder() -> list[Path]:
    """Return `working_folders` of this process; none if its directory was deleted, and nothing can be in it."""
    try:
        return working_folders(Path.cwd())
    except OSError:
        return []


def user_folder() -> str:
    """Return the user's home, for programs that must not start in the working directory; `/` if there is none."""
    home = os.path.expanduser("~")  # noqa: PTH111
    return home if os.path.isdir(home) else os.sep


def _folders(path: str | None) -> list[str]:
    """Return the absolute folders of a search path. Others depend on the directory that a program starts in."""
    search = os.environ.get("PATH", os.defpath) if path is None else path
    return [folder for folder in search.split(os.pathsep) if folder.startswith(os.sep)]


def _list_refused(outside: Iterable[Path]) -> list[str]:
    """Return the real paths of directories. Everything is below `/`, so that one is left out."""
    return [real for folder in outside if (real := os.path.realpath(folder)) != os.sep]


def _is_outside(program: str, refused: list[str]) -> bool:
    """Return whether each step from a path to the file that it means is outside the refused directories."""
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(program)
        program = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
        # A folder on PATH may itself be a link that stands in a refused directory.
        if any(_is_below(os.path.abspath(folder), each) or _is_below(program, each) for each in refused):  # noqa: PTH100
            return False
        try:
            target = os.readlink(program)  # noqa: PTH115
        except OSError:
            return True  # the file itself
        program = os.path.join(os.path.dirname(program), target)  # noqa: PTH118, PTH120
    return False


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


#: Settings of every call. They come before those of any file.
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.alternateRefsCommand": "true",
    "core.pager": "cat",
    "core.editor": "true",
    "init.templateDir": "",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "push.gpgSign": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "log.showSignature": "false",
    "receive.autogc": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    "protocol.allow": "never",
}
#: Settings of calls that reach no server. They start no program.
_LOCAL_SETTINGS = {"core.sshCommand": "false", "core.askPass": "false", "credential.helper": "", "diff.external": "false"}
#: How a call may reach the repository that it names. Others, such as `ext::`, run commands.
_PROTOCOLS = "file:git:http:https:ssh"


class GitCall(Struct, frozen=True):
    """What to start, and in which environment and directory."""

    command: list[str]
    env: dict[str, str]
    cwd: str


def git_call(
    *words: str,
    env: Mapping[str, str],
    outside: Iterable[Path],
    repository: Path | None = None,
    address: str | None = None,
    may_ask: bool = False,
) -> GitCall:
    """Return a call of git that reads no configuration other than that of `repository`.

    Args:
        words: The arguments of git. An address among them is `without_credentials(address)`.
        env: The environment of the caller. Its GIT_ variables do not count.
        outside: The directories whose programs do not count.
        repository: The `.git` to work in, which fairlead made. None: the call makes one.
        address: The server, or the repository on this machine, that the call may reach. Only such a call reads the settings of
            the user, which may say how. None: it reaches none.
        may_ask: Whether git may ask the user for a password.

    Raises:
        ConfigError: git is not installed.
    """
    folders = list(outside)
    program = find_program("git", env.get("PATH"), outside=folders)
    if program is None:
        raise ConfigError("git is not installed.")
    settings = dict(_SETTINGS) if address is not None else {**_SETTINGS, **_LOCAL_SETTINGS}
    variables = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    variables |= {
        "PATH": search_path(env.get("PATH"), outside=folders),
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "" if address is None else _PROTOCOLS,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "1" if may_ask else "0",
        "GIT_PAGER": "cat",
    }
    if repository is not None:
        variables["GIT_DIR"] = str(repository)
    if address is None:
        variables |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull}
    elif (plain := without_credentials(address)) != address:
        learn_url(address)
        # In the environment, because other users can see the arguments of a program.
        variables |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{address}.insteadOf", "GIT_CONFIG_VALUE_0": plain}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return GitCall([program, *options, *words], variables, str(repository or os.sep))


def serving(program: Literal["upload-pack", "receive-pack"], address: str) -> list[str]:
    """Return the option for a call that fetches from, or pushes to, a repository on this machine: how that is read or written.

    Git runs this program in the repository, and passes no settings on to it. The hooks there do not run.
    """
    if not is_path(address) and not address.lower().startswith("file:"):
        return []
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items() if value)
    return [f"--{program}=GIT_ALLOW_PROTOCOL= git {options} {program}"]


def is_path(address: str) -> bool:
    """Whether a repository is named by a path, not by an address."""
    return "://" not in address and not re.match(r"[\w.-]+@[\w.-]+:", address)
