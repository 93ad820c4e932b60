"""Shell commands that the host runs for its user, as opposed to those of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage
from fairlead.core.runtime import Cancel
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.tools.truncate import Truncation


class BashDone(Struct):
    message: BashExecutionMessage
    truncation: Truncation


class UserCommands:
    """The host's commands that run, beside whatever the agent does. `ended_with` gets each one's outcome."""

    def __init__(self, workspace: Workspace, now_ms: Callable[[], int], ended_with: Callable[[BashDone], None]) -> None:
        self._workspace = workspace
        self._now_ms = now_ms
        self._ended_with = ended_with
        self._running: dict[Cancel, asyncio.Future[BashDone]] = {}

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

    async def ended(self) -> None:
        """Wait until none is running."""
        while self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(
        self, command: str, cancel: Cancel, exclude_from_context: bool, on_output: Callable[[str], None] | None
    ) -> BashDone:
        """Run `command` to its end; colours and control characters are taken out of its output."""
        from fairlead.tools.process import run_shell

        result = await run_shell(self._workspace, command, cancel=cancel, timeout=None, clean=True, on_output=on_output)
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

    def _ended(self, cancel: Cancel, done: asyncio.Future[BashDone]) -> None:
        del self._running[cancel]
        if not done.cancelled() and done.exception() is None:
            self._ended_with(done.result())
