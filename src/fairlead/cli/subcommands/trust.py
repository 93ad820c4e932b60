"""`fairlead trust`: show and decide which projects may run their own extensions and servers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairlead.cli.advice import nearest
from fairlead.cli.console import say
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import Home, expand_user, working_directory
from fairlead.config.trust import all_decisions, how_to_trust, real_folder, save_decision, trust_path
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
            say("There is no decision about any project yet. `fairlead trust` trusts the one here.")
        for decided, trusted in sorted(decisions.items()):
            say(f"{'trusted' if trusted else 'never  '}  {decided}")
        return 0
    folder = real_folder(expand_user(paths[0]) if paths else working_directory())
    if action == "remove":
        save_decision(home, folder, None)
        say(f"There is no decision about {folder} any more.")
        return 0
    if not os.path.isdir(folder):
        raise ConfigError(f"{folder} is not a directory.{nearest(words[0], _ACTIONS) if words else ''}")
    if action == "show":
        _show(home, folder)
        return 0
    save_decision(home, folder, not options.has("never"))
    say(f"{folder} and the folders in it are {'never ' if options.has('never') else ''}trusted.")
    return 0


def _split(words: list[str]) -> tuple[str, list[str]]:
    """Return the action and the paths. A path alone means `add`."""
    return (words[0], words[1:]) if words[0] in _ACTIONS else ("add", words)


def _show(home: Home, folder: Path) -> None:
    decided, trusted = decision(home, folder)
    if decided is None:
        say(f"{folder}: not decided. {how_to_trust(folder)}")
    else:
        where = "" if decided == folder else f" because {decided} is"
        say(f"{folder}: {'trusted' if trusted else 'never trusted'}{where}, by {trust_path(home)}")
    for path in what_needs_trust(home, folder):
        say(f"  {path.relative_to(folder)}")


def decision(home: Home, folder: Path) -> tuple[Path | None, bool]:
    """Return the folder whose decision holds for a project, and the decision. Raises ConfigError."""
    decisions = all_decisions(home)
    decided = next((each for each in (folder, *folder.parents) if str(each) in decisions), None)
    return decided, decided is not None and decisions[str(decided)]


def what_needs_trust(home: Home, folder: Path) -> Iterator[Path]:
    """Yield what the project has that only works if it is trusted."""
    for own in home.project_folders(folder):
        yield from (path for name in ("extensions", "settings.json", "mcp.json") if os.path.exists(path := own / name))
    if os.path.exists(folder / ".mcp.json"):
        yield folder / ".mcp.json"
