"""Flags that belong to extensions: which there are is known once these are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from fairlead.agent import Agent
from fairlead.cli.flags import Arguments, Flag, UsageError, parse, unknown_flag


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """While this lasts, what extensions and their children print goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, sys.stdout.fileno())
        os.close(kept)


async def settled(agent: Agent, argv: Sequence[str], arguments: Arguments) -> Arguments:
    """The command line, read again if it has flags that only extensions can know. Raises UsageError for one that nobody has."""
    if not arguments.unknown:
        return arguments
    await agent.extensions.load()
    known = [
        Flag((f"--{flag.name}",), "", "switch" if flag.type == "boolean" else "value", flag.description, "VALUE")
        for flag in agent.extensions.flags()
    ]
    for name in arguments.unknown:
        if not any(f"--{name}" in flag.names for flag in known):
            raise UsageError(unknown_flag(f"--{name}", [name for flag in known for name in flag.names]))
    return parse(argv, known)
