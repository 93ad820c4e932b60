"""Slash commands: what a prompt can begin with, where each comes from, and suggestions for what follows its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct


class Origin(Struct, frozen=True):
    """Where something was found, in the words that hosts of pi know."""

    path: Path
    #: Found in a usual folder, named in the settings, or named on the command line.
    source: Literal["auto", "local", "cli"]
    scope: Literal["user", "project", "temporary"]
    #: The folder of configuration, or of the package, that it belongs to.
    base: Path | None = None
    #: The package that brought it, as the settings name it.
    package: str | None = None


class SlashCommand(Struct, frozen=True):
    """What a prompt can begin with: `/name`."""

    name: str
    description: str
    source: Literal["extension", "prompt", "skill"]
    origin: Origin
    #: What its arguments are.
    hint: str = ""


class Completion(Struct, frozen=True):
    """A suggestion for what follows the name of a slash command."""

    #: Takes the place of everything after the name.
    value: str
    #: What hosts show instead of the value; empty: the value.
    label: str = ""
    description: str = ""
