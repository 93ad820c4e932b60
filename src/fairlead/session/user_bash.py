"""Shell commands that the host runs for its user, as opposed to those of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage
from fairlead.core.runtime import Cancel, Interrupted

if TYPE_CHECKING:
    from fairlead.session.session import Session
    from fairlead.tools.truncate import Truncation


class BashDone(Struct):
    message: BashExecutionMessage
    truncation: Truncation


class UserCommands:
    """The host's commands that run, beside whatever the agent does, and their place in the conversation of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._running: dict[Cancel, asyncio.Future[BashDone]] = {}
        #: Those that ended while something else was going on.
        self._unplaced: list[BashExecutionMessage] = []

    def run(
        self, command: str, *, exclude_from_context: bool = False, on_output: Callable[[str], None] | None = None
    ) -> asyncio.Future[BashDone]:
        """Run a command, with each new piece of its output for `on_output`.

        It counts as running from now on, not only once it is awaited.
        """
        cancel = Cancel()
        running = self._running[cancel] = asyncio.ensure_future(self._run(command, cancel, exclude_from_context, on_output))
        running.add_done_callback(lambda done: self._ended(cancel, done))
        return running

    def abort(self) -> None:
        """Stop the latest of the running commands."""
        if self._running:
            next(reversed(self._running)).fire()

    def abort_all(self) -> None:
        for cancel in list(self._running):
            cancel.fire()

    def take_places(self) -> None:
        """Give those that ended meanwhile their place in the conversation, if it may have them now."""
        if self._session.is_at_rest:
            for message in self._unplaced:
                self._session.conversation.add(message)
            self._unplaced.clear()

    async def ended(self) -> None:
        """Wait until none is running."""
        while self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(
        self, command: str, cancel: Cancel, exclude_from_context: bool, on_output: Callable[[str], None] | None
    ) -> BashDone:
        """Run `command` to its end; colours and control characters are taken out of its output."""
        from fairlead.tools.shell.process import run_shell

        done = await self._run_elsewhere(command, cancel, exclude_from_context)
        if done is not None:
            return done
        result = await run_shell(self._session.workspace, command, cancel=cancel, timeout=None, clean=True, on_output=on_output)
        message = BashExecutionMessage(
            command=command,
            output=result.output,
            cancelled=result.cancelled,
            truncated=result.truncation.truncated,
            timestamp=self._session.runtime.now_ms(),
            exit_code=None if result.cancelled else result.exit_code,
            full_output_path=result.full_output_path,
            exclude_from_context=exclude_from_context,
        )
        return BashDone(message, result.truncation)

    async def _run_elsewhere(self, command: str, cancel: Cancel, exclude_from_context: bool) -> BashDone | None:
        """What came of a command, if an extension ran it, or if it was stopped before it could begin."""
        session = self._session
        hooks = await session.ready()
        if hooks is None or not hooks.wants("user_bash"):
            return None
        try:
            return await session.ask(hooks.user_bash(command, exclude_from_context), cancel)
        except Interrupted:
            from fairlead.tools.truncate import whole

            now = session.runtime.now_ms()
            message = BashExecutionMessage(command, "", True, False, now, exclude_from_context=exclude_from_context)
            return BashDone(message, whole(""))

    def _ended(self, cancel: Cancel, done: asyncio.Future[BashDone]) -> None:
        del self._running[cancel]
        if done.cancelled() or done.exception() is not None:
            return
        message, session = done.result().message, self._session
        if session.is_at_rest:
            session.conversation.add(message)
            return
        # It must not come between a tool call and its result, nor onto a branch that is about to be left; but the host is
        # about to be told, so it is written down.
        from fairlead.session.history.entries import QUEUE
        from fairlead.session.history.queue_log import addition

        conversation = session.conversation
        conversation.keep(lambda: conversation.log.custom(QUEUE, addition("bash", message), keep=True))
        self._unplaced.append(message)
