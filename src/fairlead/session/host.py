"""What a session knows of its host: where it works, the person behind it, and the shell commands that it sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from fairlead.session.events import Notify
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.ui import Ui
    from fairlead.session.user_bash import BashDone, UserCommands


class Host:
    """The host of one session."""

    def __init__(
        self,
        workspace: Workspace,
        now_ms: Callable[[], int],
        notify: Notify,
        make_commands: Callable[[], UserCommands],
    ) -> None:
        self.workspace = workspace
        #: The time, in milliseconds since 1970.
        self.now_ms = now_ms
        #: Sends an event to everything that listens to the session.
        self.notify = notify
        #: Makes `ui` when that is first needed; None: no person can be asked.
        self.make_ui: Callable[[], Ui] | None = None
        #: The language tag of the user, if the host named one. The model answers in that language.
        self.locale: str | None = None
        self._make_commands = make_commands
        self._commands: UserCommands | None = None

    @cached_property
    def ui(self) -> Ui:
        """Asks and informs the person behind the host."""
        if self.make_ui is not None:
            return self.make_ui()
        from fairlead.core.ui import NoUi

        return NoUi()

    # Shell commands

    def bash(
        self, command: str, *, exclude_from_context: bool = False, on_output: Callable[[str], None] | None = None
    ) -> asyncio.Future[BashDone]:
        """Run a shell command for the user, beside whatever the agent does. It becomes part of the conversation.

        It counts as running from now on, not only once it is awaited.

        Args:
            command: The command line.
            exclude_from_context: Whether to keep it from the model.
            on_output: Called with each new piece of the output.

        Returns:
            A future with the message that the conversation gets, and how much of the output was left out.
        """
        if self._commands is None:
            self._commands = self._make_commands()
        return self._commands.run(command, exclude_from_context=exclude_from_context, on_output=on_output)

    def abort_bash(self) -> None:
        """Stop the latest of the running commands."""
        if self._commands is not None:
            self._commands.abort()

    def abort_all_commands(self) -> None:
        if self._commands is not None:
            self._commands.abort_all()

    def add_finished_commands(self) -> None:
        """Add commands to the conversation that ended while something else was going on, if it may have them now."""
        if self._commands is not None:
            self._commands.add_finished()

    async def commands_ended(self) -> None:
        """Wait until no command is running."""
        if self._commands is not None:
            await self._commands.ended()
