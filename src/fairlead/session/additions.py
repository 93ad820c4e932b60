"""What users add to the prompts of a session: instructions, skills, templates. Where it comes from is not known here."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct


class PromptParts(Struct, frozen=True, kw_only=True):
    """What the system prompt has from users. All of it may be empty."""

    #: Takes the place of our own part.
    instead: str | None = None
    #: Follows it.
    appended: Sequence[str] = ()
    #: Instructions for all work in this place, and the files that they come from.
    context: str = ""
    context_files: Sequence[Path] = ()
    #: The skills there are, for a model that can read files.
    skills: str = ""


class Origin(Struct, frozen=True):
    """Where something was found, in the words that hosts of pi know."""

    path: Path
    #: Found in a usual folder, named in the settings, or named on the command line.
    source: Literal["auto", "local", "cli"]
    scope: Literal["user", "project", "temporary"]
    #: The folder of configuration that it belongs to.
    base: Path | None = None


class SlashCommand(Struct, frozen=True):
    """What a prompt can begin with: `/name`."""

    name: str
    description: str
    source: Literal["extension", "prompt", "skill"]
    origin: Origin


class SkillSummary(Struct, frozen=True):
    """What the model is told of a skill before it asks for it."""

    name: str
    description: str


class Additions(Protocol):
    """What users add, for work in a directory. It is read when first needed, and stays the same until `reload`."""

    def prepare(self, cwd: Path) -> Awaitable[None] | None:
        """Read everything without blocking the event loop; None if that has been done.

        A caller that is cancelled stops waiting at once, whatever the read is stuck in. The other methods read by themselves if
        nothing is prepared, and block the loop."""
        ...

    def prompt_parts(self, cwd: Path) -> PromptParts: ...

    def commands(self, cwd: Path) -> list[SlashCommand]: ...

    def expand(self, text: str, cwd: Path) -> str:
        """What a message of the user's stands for, if it begins with a slash command; else the message.

        Raises ConfigError if it names a command that cannot be used.
        """
        ...

    def skills(self, cwd: Path) -> list[SkillSummary]:
        """The skills that the model may ask for."""
        ...

    def skill_text(self, name: str, cwd: Path) -> str:
        """What such a skill says. Raises ConfigError if there is none of that name, or if it cannot be read any more."""
        ...

    def reload(self) -> None:
        """Read everything anew when it is next needed."""
        ...
