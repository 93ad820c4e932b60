"""The title of a session: its name, or the beginning of its first message."""

from __future__ import annotations

import re
from functools import cache

from fairlead.core.lenient import visible

#: How many characters of a first message are its title.
LONGEST_TITLE = 200


@cache
def _attached_files() -> re.Pattern[str]:
    """What `fairlead -p @FILE` puts before a prompt: see `fairlead.cli.printing.prompts`."""
    return re.compile(r'\A(?:<file name="[^"]*">.*?</file>\s*)+', re.DOTALL)


def title_of(name: str | None, first_message: str, limit: int = LONGEST_TITLE) -> str:
    """Return a name, else the first `limit` characters of a message without the files before it.

    The title is one line that a terminal can show.
    """
    if name:
        text, limit = name, LONGEST_TITLE
    else:
        text = _attached_files().sub("", first_message, count=1) or first_message
    line = visible(" ".join(text[: limit * 4].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
