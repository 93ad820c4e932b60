"""`fairlead export`: write a session as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import say
from fairlead.cli.flags import UsageError
from fairlead.wire.dialects import Program


def export(words: Sequence[str], program: Program) -> int:
    """Write a session file as an HTML page, and print its path. Raises UsageError, SessionError or ConfigError."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        raise UsageError("usage: fairlead export SESSION.jsonl [PAGE.html]")
    from fairlead.export import export_file

    say(str(export_file(Path(words[0]), Path(words[1]) if len(words) == 2 else None)))
    return 0
