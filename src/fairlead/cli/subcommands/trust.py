"""`fairlead trust`: show and decide which projects may run their own extensions and servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.advice import nearest
from fairlead.cli.console import print_exact, print_text
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import Home, expand_user, working_directory
from fairlead.config.project_code import project_code
from fairlead.config.trust import (
    PEER_SCOPE,
    SCOPE,
    all_decisions,
    describe_changes,
    escape_path,
    find_decision,
    format_trust_hint,
    real_folder,
    save_decision,
    trust_path,
)
from fairlead.errors import ConfigError
from fairlead.wire.dialects import Program

_ACTIONS = ("show", "add", "remove", "list")


def trust(words: Sequence[str], program: Program) -> int:
    """Trust the project in a folder (by default the current one), or do what the first word says.

    Returns the exit code. Raises UsageError, and ConfigError if the folder or the file of decisions cannot be used.
    """
    command = command_named("trust")
    options = command.parse(words)
    action, paths = ("add", options.words) if not options.words else _split(options.words)
    if len(paths) > (0 if action == "list" else 1) or (options.has("never") and action != "add"):
        raise command.usage_error()
    home = Home.find(os.environ, peer=program.home)
    if action == "list":
        decisions = all_decisions(home)
        if not decisions:
            print_text("There is no decision about any project yet. `fairlead trust` trusts the one here.")
        for decided, trusted in sorted(decisions.items()):
            print_exact(f"{'trusted' if trusted else 'never  '}  {decided.replace(chr(10), chr(92) + 'n')}")
        return 0
    folder = real_folder(expand_user(paths[0]) if paths else working_directory())
    if action == "remove":
        save_decision(home, folder, None)
        print_text(f"There is no decision about {escape_path(folder)} any more.")
        return 0
    if not os.path.isdir(folder):
        raise ConfigError(f"{escape_path(folder)} is not a directory.{nearest(words[0], _ACTIONS) if words else ''}")
    if action == "show":
        _show(home, folder)
    elif options.has("never"):
        save_decision(home, folder, False)
        print_text(f"{escape_path(folder)} and the folders in it are never trusted.")
    else:
        save_decision(home, folder, True)
        print_text(f"{escape_path(folder)} and the folders in it are trusted.")
        print_text(SCOPE if home.peer is None else PEER_SCOPE)
        _list_code(home, folder)
    return 0


def _split(words: list[str]) -> tuple[str, list[str]]:
    """Return the action and the paths. A path alone means `add`."""
    return (words[0], words[1:]) if words[0] in _ACTIONS else ("add", words)


def _show(home: Home, folder: Path) -> None:
    found = find_decision(home, folder)
    if found is None:
        print_text(f"{escape_path(folder)}: not decided. {format_trust_hint(folder)}")
    else:
        where = "" if found.folder == folder else f" because {escape_path(found.folder)} is"
        by = f"by {escape_path(trust_path(home))}"
        if found.covers:
            print_text(f"{escape_path(folder)}: {'trusted' if found.trusted else 'never trusted'}{where}, {by}")
        else:
            why = describe_changes(home, folder)
            print_text(f"{escape_path(folder)}: not trusted any more{where}, {by}. {why} {format_trust_hint(folder)}")
    _list_code(home, folder, () if found is None else found.changed)


def _list_code(home: Home, folder: Path, changed: Sequence[str] = ()) -> None:
    """Print what the project would run, and what needs trust besides."""
    for name in list_trusted_features(home, folder):
        print_text(f"  {escape_path(name)}{'  (changed)' if name in changed else ''}")


def list_trusted_features(home: Home, folder: Path) -> list[str]:
    """Return the names of what the project has that only works if it is trusted."""
    settings = (path for level, path in home.settings_files(folder) if level == "project" and os.path.exists(path))
    paths = (*(code.path for code in project_code(home, folder)), *settings)
    return list(dict.fromkeys(os.path.relpath(path, folder) for path in paths))
