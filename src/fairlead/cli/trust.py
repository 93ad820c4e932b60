"""`fairlead trust`: decide which projects may run their own extensions and servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import say
from fairlead.cli.flags import UsageError
from fairlead.errors import ConfigError
from fairlead.wire.dialects import Program


def trust(words: Sequence[str], program: Program) -> int:
    """Trust the project in a folder (by default the current one), never trust it, forget the decision, or list all decisions."""
    from fairlead.config.home import Home
    from fairlead.config.trust import all_decisions, real_folder, save_decision

    flags = [word for word in words if word.startswith("-")]
    paths = [word for word in words if not word.startswith("-")]
    if len(flags) > 1 or len(paths) > 1 or not set(flags) <= {"--remove", "--never", "--list"}:
        raise UsageError("usage: fairlead trust [PATH] [--remove | --never | --list]")
    home = Home.find(os.environ, peer=program.home)
    if flags == ["--list"]:
        for folder, trusted in sorted(all_decisions(home).items()):
            say(f"{'trusted' if trusted else 'never  '}  {folder}")
        return 0
    folder = real_folder(Path(paths[0]).expanduser() if paths else Path.cwd())
    if flags == ["--remove"]:
        save_decision(home, folder, None)
        say(f"There is no decision about {folder} any more.")
        return 0
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory.")
    save_decision(home, folder, not flags)
    say(f"{folder} and the folders in it are {'never ' if flags else ''}trusted.")
    return 0
