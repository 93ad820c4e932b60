"""What a session knows of its host: where it works, the person behind it, and the shell commands that it sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage
from fairlead.core.runtime import CancelToken, Interrupted, NoUi
from fairlead.session.history import run_log
from fairlead.session.history.entries import QUEUE
from fairlead.session.session_events import Notify
from fairlead.tools import truncate
from fairlead.tools.shell import command_process
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.runtime import Ui
    from fairlead.session.additions import Extensions
    from fairlead.session.history.current import CurrentConversation
    from fairlead.tools.truncate import Truncation


class Host:
    """The host of one session."""

    def __init__(
        self,
        workspace: Workspace,
        now_ms: Callable[[], int],
        notify: Notify,
        current: CurrentConversation,
        extensions: Extensions,
        is_at_rest: Callable[[], bool],
    ) -> None:
        """`is_at_rest` says whether anything may be added to the conversation now."""
        self.workspace = workspace
        #: The time, in milliseconds since 1970.
        self.now_ms = now_ms
        #: Sends an event to everything that listens to the session.
        self.notify = notify
        #: Makes `ui` when that is first needed; None: no person can be asked.
        self.make_ui: Callable[[], Ui] | None = None
        #: The language tag of the user, if the host named one. The model answers in that language.
        self.locale: str | None = None
        self._current = current
        self._extensions = extensions
        self._is_at_rest = is_at_rest
        self._commands: UserCommands | None = None

    @cached_property
    def ui(self) -> Ui:
        """Asks and informs the person behind the host."""
        if self.make_ui is not None:
            return self.make_ui()

        return NoUi()

    # Shell commands

    def bash(
        self, command: str, *, exclude_from_context: bool = False, on_output: Callable[[str], None] | None = None
    ) -> asyncio.Future[BashDone]:
        """Run a shell command for the user, in parallel to the agent. It becomes part of the conversation.

        It counts as running from now on, not only once it is awaited.

        Args:
            command: The command line.
            exclude_from_context: Whether to keep it from the model.
            on_output: Called with each new piece of the output.

        Returns:
            A future with the message that the conversation gets, and how much of the output was left out.
        """
        if self._commands is None:
            self._commands = UserCommands(self.workspace, self.now_ms, self._current, self._extensions, self._is_at_rest)
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
            await self._commands.wait_ended()


class BashDone(Struct):
    """A command that has ended: its message in the conversation, and how much of its output was left out."""

    message: BashExecutionMessage
    truncation: Truncation


class UserCommands:
    """Runs the commands of a host, and adds them to the conversation when `is_at_rest` says that it may change."""

    def __init__(
        self,
        workspace: Workspace,
        now_ms: Callable[[], int],
        current: CurrentConversation,
        extensions: Extensions,
        is_at_rest: Callable[[], bool],
    ) -> None:
        self._workspace = workspace
        self._now_ms = now_ms
        self._current = current
        self._extensions = extensions
        self._is_at_rest = is_at_rest
        self._running: dict[CancelToken, asyncio.Future[BashDone]] = {}
        #: Those that ended while something else was going on.
        self._finished: list[BashExecutionMessage] = []

    def run(
        self, command: str, *, exclude_from_context: bool = False, on_output: Callable[[str], None] | None = None
    ) -> asyncio.Future[BashDone]:
        """See `Host.bash`."""
        cancel = CancelToken()
        running = self._running[cancel] = asyncio.ensure_future(self._run(command, cancel, exclude_from_context, on_output))
        running.add_done_callback(lambda done: self._on_end(cancel, done))
        return running

    def abort(self) -> None:
        """Stop the latest of the running commands."""
        if self._running:
            next(reversed(self._running)).fire()

    def abort_all(self) -> None:
        for cancel in list(self._running):
            cancel.fire()

    def add_finished(self) -> None:
        """Add those that ended meanwhile to the conversation, if it may have them now."""
        if self._is_at_rest():
            for message in self._finished:
                self._current.conversation.add(message)
            self._finished.clear()

    async def wait_ended(self) -> None:
        """Wait until none is running."""
        while self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(
        self, command: str, cancel: CancelToken, exclude_from_context: bool, on_output: Callable[[str], None] | None
    ) -> BashDone:
        """Run `command` to its end. Colours and control characters are removed from its output."""
        done = await self._run_elsewhere(command, cancel, exclude_from_context, on_output or (lambda text: None))
        if done is not None:
            return done
        result = await command_process.run_shell(
            self._workspace, command, cancel=cancel, timeout=None, clean=True, on_output=on_output
        )
        message = BashExecutionMessage(
            command=command,
            output=result.output,
            cancelled=result.cancelled,
            truncated=result.truncation.truncated,
            timestamp=self._now_ms(),
            exit_code=None if result.cancelled else result.exit_code,
            full_output_path=result.full_output_path,
            exclude_from_context=exclude_from_context,
        )
        return BashDone(message, result.truncation)

    async def _run_elsewhere(
        self, command: str, cancel: CancelToken, exclude_from_context: bool, show: Callable[[str], None]
    ) -> BashDone | None:
        """The outcome of a command that an extension ran, or that was stopped before it could begin; else None."""
        hooks = await self._extensions.ready()
        if hooks is None or not hooks.wants("user_bash"):
            return None
        try:
            return await self._extensions.ask(hooks.user_bash(command, exclude_from_context, cancel, show), cancel)
        except Interrupted:
            message = BashExecutionMessage(command, "", True, False, self._now_ms(), exclude_from_context=exclude_from_context)
            return BashDone(message, truncate.whole(""))

    def _on_end(self, cancel: CancelToken, done: asyncio.Future[BashDone]) -> None:
        del self._running[cancel]
        if done.cancelled() or done.exception() is not None:
            return
        message, conversation = done.result().message, self._current.conversation
        if self._is_at_rest():
            conversation.add(message)
            return
        # It must not come between a tool call and its result, nor onto a branch that is about to be left. But the host is
        # about to get the result, so it is written down.
        conversation.keep(lambda: conversation.log.note(QUEUE, run_log.addition("bash", message)))
        self._finished.append(message)
