"""Flags of extensions, which are known once the extensions are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from fairlead.agent import Agent
from fairlead.cli.flags import Arguments, Flag, UsageError, parse, unknown_flag


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Send what extensions and their child processes print to stderr while the block runs."""
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
    """Parse the command line again if it has flags of extensions. Raises UsageError for a flag that no extension has."""
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
