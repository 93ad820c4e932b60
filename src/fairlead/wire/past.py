"""The messages of a conversation so far, for hosts that show it from the beginning. It works for every protocol."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.core.messages import Message
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import CustomMessageEntry, MessageEntry


def past_messages(conversation: Conversation, *, after: str | None = None) -> Iterator[tuple[str, Message]]:
    """Yield the messages up to where the conversation stands, each with the id of its entry.

    Those that a compaction hides from the model are included, and its summary is not. With `after`, only what follows that
    entry; if the conversation has left it, all messages.
    """
    if not conversation.has_begun:
        return
    log = conversation.log
    path = log.path()
    start = next((number + 1 for number, entry in enumerate(path) if entry.id == after), 0) if after is not None else 0
    for entry in path[start:]:
        if isinstance(entry, MessageEntry | CustomMessageEntry):
            for message in log.read(entry):
                yield entry.id, message
