"""`fairlead export`: write a session file as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import say
from fairlead.cli.flags import UsageError
from fairlead.export import export_file

USAGE = "usage: fairlead export SESSION.jsonl [PAGE.html]"


def export(words: Sequence[str]) -> int:
    """Write the page and print its path. Raises UsageError, SessionError or ConfigError."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        raise UsageError(USAGE)
    say(str(export_file(Path(words[0]), Path(words[1]) if len(words) == 2 else None)))
    return 0
