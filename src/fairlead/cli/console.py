"""What the command prints for people.

File names, settings and errors of providers can contain escape sequences, which must not reach a terminal.
"""

from __future__ import annotations

import sys

from fairlead.core.lenient import visible


def say(text: str) -> None:
    """Print a result to stdout. Only a terminal gets escape sequences replaced; a program gets names unchanged."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + "\n")


def complain(text: str) -> None:
    """Print a line for people to stderr. It is not part of any protocol."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()
