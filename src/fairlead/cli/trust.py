"""`fairlead trust`: say which projects may run code of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.flags import UsageError
from fairlead.cli.speak import say
from fairlead.config.home import Home
from fairlead.config.trust import all_decisions, real_folder, save_decision
from fairlead.errors import ConfigError

USAGE = "usage: fairlead trust [PATH] [--remove | --never | --list]"


def trust(words: Sequence[str]) -> int:
    """Trust the project in a folder, the present one if none is named; or take that back, or forbid to ask, or list all."""
    flags = [word for word in words if word.startswith("-")]
    paths = [word for word in words if not word.startswith("-")]
    if len(flags) > 1 or len(paths) > 1 or not set(flags) <= {"--remove", "--never", "--list"}:
        raise UsageError(USAGE)
    home = Home.find(os.environ)
    if flags == ["--list"]:
        for folder, trusted in sorted(all_decisions(home).items()):
            say(f"{'trusted' if trusted else 'never  '}  {folder}")
        return 0
    folder = real_folder(Path(paths[0]).expanduser() if paths else Path.cwd())
    if flags == ["--remove"]:
        save_decision(home, folder, None)
        say(f"Nothing is said about {folder} any more.")
        return 0
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder.")
    save_decision(home, folder, not flags)
    say(f"{folder} is {'never trusted' if flags else 'trusted'}, and so are the folders in it.")
    return 0
