"""Finds the programs that fairlead starts for itself.

A repository, or a command in the sandbox, can put a program called `git` into a folder that is on PATH. So a program counts only
if neither its folder nor anything that its links lead through is in the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

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
