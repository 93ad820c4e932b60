"""What extensions, servers and templates make of a message before the session accepts it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from fairlead.core.messages import CustomMessage, ImageContent, UserMessage
from fairlead.core.queues import Behavior
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.errors import RunAborted
from fairlead.session.additions import SessionAdditions
from fairlead.session.hook_calls import is_inside

if TYPE_CHECKING:
    from fairlead.session.hooks import Heard, Hooks, InputSource, Opening


class Rewriting:
    """Rewrites the messages for one session."""

    def __init__(self, additions: SessionAdditions) -> None:
        self._additions = additions
        #: Messages are queued in the order in which they were given, however long extensions handle each.
        self._in_order = asyncio.Lock()

    async def rewrite_queued(
        self, hooks: Hooks, text: str, images: list[ImageContent] | None, source: InputSource, behavior: Behavior | None
    ) -> Heard | None:
        """Return what extensions make of a message before it is queued; None if none wants to see it.

        An abort does not end this: a queued message outlives a run.
        """
        if not hooks.wants("input"):
            return None

        async with nullcontext() if is_inside() else self._in_order:
            return await self._additions.extensions.ask(hooks.input(text, images, source, behavior), CancelToken())

    async def rewrite_prompt(
        self, hooks: Hooks, text: str, images: list[ImageContent] | None, source: InputSource, cancel: CancelToken
    ) -> Heard | None:
        """Return what extensions make of a prompt; None if none wants to see it. Raises RunAborted."""
        return await self._ask(hooks.input(text, images, source, None), cancel) if hooks.wants("input") else None

    async def expand(
        self, text: str, images: list[ImageContent] | None, cancel: CancelToken | None
    ) -> tuple[str, list[ImageContent] | None]:
        """Return the text and the images that a slash command stands for. Raises ConfigError, and RunAborted."""
        servers = self._additions.servers
        if servers is not None:
            found = await servers.expand(text, cancel or CancelToken())
            if cancel is not None and cancel.fired:
                raise RunAborted("The prompt was aborted while it was being prepared.")
            if found is not None:
                return found[0], [*(images or ()), *found[1]] or None
        await self._additions.prepare(cancel)
        return self._additions.expand(text), images

    async def opening(
        self, message: UserMessage | CustomMessage, hooks: Hooks, images: list[ImageContent] | None, cancel: CancelToken
    ) -> Opening | None:
        """Return what extensions add to a run that begins with this message. Raises RunAborted."""
        if not hooks.wants("before_agent_start"):
            return None
        await self._additions.prepare(cancel)
        try:
            return await self._ask(hooks.opening(message, images, self._additions.system_prompt()), cancel)
        except RunAborted:
            return None  # the run begins, so that the message is kept, and ends at once

    async def _ask(self, work: Any, cancel: CancelToken) -> Any:
        try:
            return await self._additions.extensions.ask(work, cancel)
        except Interrupted:
            raise RunAborted("The prompt was aborted while an extension was looking at it.") from None
