"""What the command says to people.

File names, settings and errors of providers can hold escape sequences, which must not reach a terminal.
"""

from __future__ import annotations

import sys

from fairlead.core.lenient import visible


def say(text: str) -> None:
    """Print the answer to what was asked for. A program that reads it gets names as they are."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + "\n")


def complain(text: str) -> None:
    """Print something for people to stderr; it is not part of any protocol."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()
