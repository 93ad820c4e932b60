"""Programs beside a session that bring it tools and prompts. What they are is not known here."""

from __future__ import annotations

from typing import Protocol

from fairlead.core.messages import ImageContent
from fairlead.core.runtime import Cancel
from fairlead.session.additions import SlashCommand


class Servers(Protocol):
    """They start by themselves, put their tools into the session's toolbox as they come, and end with the session."""

    async def ready(self, cancel: Cancel) -> None:
        """Wait for those that are about to be there, but not for long: whoever is late brings its tools later.

        Asked before every call of the model; mostly there is nothing to wait for.
        """
        ...

    def commands(self) -> list[SlashCommand]:
        """The slash commands that they have brought so far."""
        ...

    async def expand(self, text: str, cancel: Cancel) -> tuple[str, list[ImageContent]] | None:
        """What a message stands for that begins with one of their commands; None if it does not.

        Raises ConfigError if it names a command that cannot be used.
        """
        ...

    async def close(self) -> None: ...
