"""What the command says to people."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """The answer to what was asked for."""
    sys.stdout.write(text + "\n")


def complain(text: str) -> None:
    """Something for whoever watches stderr; it is no part of any protocol."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
