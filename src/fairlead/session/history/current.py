"""The conversation that a session works with, and what a host can see of it and do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.core.events import ExtensionError
from fairlead.errors import SessionError, SessionLost
from fairlead.platform import process
from fairlead.session.events import Events
from fairlead.session.history.conversation import Conversation
from fairlead.session.selection import Selection

if TYPE_CHECKING:
    from fairlead.session.history.log import Log
    from fairlead.session.history.stored import StoredLog


class CurrentConversation:
    """The conversation of a session. A session has one at a time, and can replace it by another.

    Parts of the session that keep something of the conversation register in `on_replace` and `on_move`.
    """

    def __init__(self, conversation: Conversation, selection: Selection, events: Events) -> None:
        self.conversation = conversation
        #: Conversations that the session has left while something of them could not be written.
        self.unsaved: list[Conversation] = []
        #: Conversations that were left and are being released.
        self._closing: list[Conversation] = []
        #: Called to forget what belongs to the conversation that was replaced.
        self.on_replace: list[Callable[[], None]] = []
        #: Called to read again what is kept in the conversation: it is another one, or has moved within its tree.
        self.on_move: list[Callable[[], None]] = []
        #: Called when the conversation can no longer be written, to end its run.
        self.on_lost: Callable[[SessionLost], None] = lambda error: None
        #: Restores the state of a conversation that has begun before. Returns what is wrong with it, in sentences.
        self.resume: Callable[[bool, bool], list[str]] = lambda model, level: []
        self._selection = selection
        self.events = events
        self._opening = asyncio.Lock()
        #: Whether the model and the level of the first conversation are wanted.
        self._wants = (True, True)

    @property
    def log(self) -> Log:
        return self.conversation.log

    @property
    def begun_log(self) -> Log | None:
        """The log; None if the conversation has not begun."""
        return self.conversation.log if self.conversation.has_begun else None

    def load(self, *, model: bool = True, level: bool = True) -> list[str]:
        """Begin to work with the conversation: with its model and its thinking level, if those are wanted.

        Returns what is wrong with it, in sentences.
        """
        conversation, selection = self.conversation, self._selection
        self._wants = (model, level)
        conversation.on_trouble, conversation.on_notice = self._report_write_error, self._report_file_change
        conversation.on_lost = lambda error: self.on_lost(error) if conversation is self.conversation else None
        conversation.on_begin = selection.save
        conversation.on_stored = self._hold_events
        self._hold_events(conversation.stored)
        selection.on_model, selection.on_level = conversation.choose_model, conversation.choose_level
        self.reload()
        return self.resume(model, level) if conversation.has_begun else list(conversation.problems)

    async def open(self) -> list[str]:
        """Open the first conversation in its store, if it has one. Returns what is wrong with it. Raises SessionError."""
        async with self._opening:
            if self.conversation.opener is None:
                return []
            await self.conversation.open()
            for forget in self.on_replace:
                forget()
            model, level = self._wants
            return self.load(model=model, level=level)

    def replace(self, conversation: Conversation) -> list[str]:
        """Work with another conversation. Nothing may be running. Returns what `load` returns."""
        left, self.conversation = self.conversation, conversation
        self.unsaved = [each for each in (*self.unsaved, left) if each is not conversation and not each.close()]
        self._closing = [*self._closing, left]
        for forget in self.on_replace:
            forget()
        return self.load()

    def reload(self) -> None:
        """Have everything that is kept in the conversation read again."""
        for reread in self.on_move:
            reread()

    def flush(self) -> None:
        """Try again to write what could not be written."""
        self.conversation.flush()
        self.unsaved = [conversation for conversation in self.unsaved if not conversation.close()]

    def close(self) -> None:
        """Let other processes have the files."""
        for conversation in (*self.unsaved, self.conversation):
            conversation.close()
        if self.begun_log is not None:
            process.session_closed(self.begun_log.size())

    async def wait_closed(self) -> None:
        """Wait until other processes can have what was closed."""
        for conversation in (*self._closing, *self.unsaved, self.conversation):
            await conversation.wait_closed()
        self._closing = []

    def _hold_events(self, stored: StoredLog | None) -> None:
        """Have events wait until the entries that they tell about are durable."""
        self.events.follow(stored)

    def _report_write_error(self, error: SessionError) -> None:
        self.events.notify(
            ExtensionError("session", "write", f"{error} What could not be written is kept and will be written later.")
        )

    def _report_file_change(self, text: str) -> None:
        self.events.notify(ExtensionError("session", "write", text))
