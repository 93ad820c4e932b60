"""The command: flags to a mode, a mode to an exit code."""

from __future__ import annotations

from fairlead.cli.main import main

__all__ = ["main"]
