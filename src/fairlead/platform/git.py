"""Runs git for fairlead itself: without what a repository, or the environment, could make it do.

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
from fairlead.platform.programs import find_program, search_path

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
