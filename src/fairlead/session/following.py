"""Follows a session from any position: the entries since then, the message that is arriving, and everything that happens next.

Each durable entry is delivered once and in order: a message as `MessageEnd`, any other as `EntryAppended`. Events that are not
about entries are delivered as they happen and are not repeated, except for the updates of the message that is arriving.

A listener that does not read costs little: past a number of events, no more are kept for it. When it reads again, it catches up
from the log, as one that was away does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from msgspec import Raw, Struct

from fairlead.core.events import AgentSettled, AgentStart, EntryAppended, Event, MessageEnd, MessageStart, SessionReplaced
from fairlead.core.message_updates import BlockEnded, BlockStarted, MessageUpdate, UpdateMaker
from fairlead.core.messages import AssistantMessage, Message
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import NoteEntry
from fairlead.session.run.state import RunState
from fairlead.session.session_events import Events


class Position(NamedTuple):
    """A place in a session: everything up to an entry, and the beginning of the message that follows it."""

    #: The number of the last entry; 0 before the first.
    entry: int = 0
    #: How many characters of the message that is arriving have been received.
    offset: int = 0


class NumberedEvent(Struct, frozen=True):
    """An event, and the position after it."""

    position: Position
    event: Event


#: How many events wait for a listener that does not read.
_MOST_WAITING = 1000


class Follower:
    """One listener."""

    def __init__(self, current: CurrentConversation, events: Events, run: RunState, after: Position | None) -> None:
        self._current = current
        self._events = events
        self._run = run
        self._after = after
        self._queue: asyncio.Queue[NumberedEvent] = asyncio.Queue()
        #: The conversation that is followed: not another one before its `SessionReplaced`.
        self._conversation = current.conversation
        #: The position in the log of the next entry to deliver, and the number of the last one that was delivered.
        self._next = 0
        self._entry = 0
        self._offset = 0
        #: The answer whose updates up to this offset, and the starts and ends of blocks, were delivered before they were sent.
        self._caught: tuple[UpdateMaker, int, int, frozenset[int]] | None = None
        #: Whether events were left out because too many wait, and what such a listener must not miss.
        self._is_behind = False
        self._replaced: SessionReplaced | None = None
        self._settled: AgentSettled | None = None

    async def follow(self) -> AsyncGenerator[NumberedEvent]:
        """Yield events until the caller stops."""
        unsubscribe = self._events.subscribe(self._receive)
        try:
            self._catch_up()
            while True:
                if self._is_behind and self._queue.empty():
                    self._continue()
                yield await self._queue.get()
        finally:
            unsubscribe()

    def _catch_up(self) -> None:
        """Deliver what the listener has missed."""
        self._conversation = self._current.conversation
        log, after = self._current.begun_log, self._after
        if after is None:  # from now on
            after = Position(self._current.conversation.last_number, 0)
        if log is not None:
            while self._next < len(log) and log.number_at(self._next) <= after.entry:
                self._next += 1
        self._entry = after.entry
        self._deliver_rest(after.offset)

    def _continue(self) -> None:
        """Deliver what was left out, to a listener that has read everything before it."""
        self._is_behind = False
        if self._replaced is not None:
            self._switch(self._replaced)
            self._replaced = None
        self._deliver_rest(self._offset)
        if not self._is_behind and self._settled is not None:
            self._put(self._settled)
            self._settled = None

    def _deliver_rest(self, known: int) -> None:
        """Deliver the next entries and the message that is arriving, without the characters that are known."""
        has_answer = self._flush()
        answer = self._run.answer
        if answer is not None and not self._is_behind:
            offset = 0 if has_answer or answer.is_interleaved or known > answer.offset else known
            self._offset = offset
            if offset == 0:
                self._put(MessageStart(answer.partial.shell()))
            for update in answer.since(offset):
                self._offset = max(offset, update.offset)
                self._put(update)
            self._caught = answer, answer.offset, len(answer.starts), frozenset(answer.ended)

    def _receive(self, event: Event) -> None:
        self._is_behind = self._is_behind or self._queue.qsize() >= _MOST_WAITING
        if self._is_behind:
            self._leave_out(event)
            return
        if isinstance(event, MessageUpdate):
            if not self._is_caught(event):
                self._offset = event.offset
                self._put(event)
            return
        if isinstance(event, SessionReplaced):
            self._switch(event)
            self._flush()
        elif isinstance(event, MessageEnd):
            self._end(event)
        elif isinstance(event, EntryAppended):
            self._flush(only_others=True)  # which delivers it
        else:
            self._flush(only_others=not isinstance(event, AgentSettled))
            self._leave_out(event) if self._is_behind else self._put(event)

    def _leave_out(self, event: Event) -> None:
        if isinstance(event, SessionReplaced):
            self._replaced = event
        elif isinstance(event, AgentSettled):
            self._settled = event
        elif isinstance(event, AgentStart):
            self._settled = None

    def _switch(self, event: SessionReplaced) -> None:
        """Deliver that another session follows."""
        self._conversation = self._current.conversation
        self._next = self._entry = self._offset = 0
        self._put(event)

    def _is_caught(self, event: MessageUpdate) -> bool:
        """Whether an update was delivered with the beginning of its message."""
        if self._caught is None or self._caught[0].partial is not event.partial:
            return False
        _, offset, started, ended = self._caught
        if isinstance(event, BlockStarted):
            return event.event.index < started
        return event.event.index in ended if isinstance(event, BlockEnded) else event.offset <= offset

    def _end(self, event: MessageEnd) -> None:
        """Deliver the end of a message with its number, after the entries before it."""
        log = self._current.log
        for position in range(self._next, len(log)):
            if any(message is event.message for message in log.read(log.at(position)[0])):
                self._flush(until=position)
                if self._is_behind:
                    return
                self._next, self._entry, self._offset = position + 1, log.number_at(position), 0
                self._put(event)
                return
        if not self._was_delivered(event.message):
            self._put(event)

    def _was_delivered(self, message: Message) -> bool:
        log = self._current.log
        return any(message is each for position in range(self._next) for each in log.read(log.at(position)[0]))

    def _flush(self, *, only_others: bool = False, until: int | None = None) -> bool:
        """Deliver the durable entries that are next, or those before a message. Returns whether an answer was among them."""
        conversation, log = self._current.conversation, self._current.begun_log
        has_answer = False
        if conversation is not self._conversation:
            return False
        while log is not None and self._next < (len(log) if until is None else until):
            entry, line = log.at(self._next)
            number = log.number_at(self._next)
            messages = log.read(entry)
            if number > conversation.last_number or (messages and only_others):
                break
            if self._queue.qsize() >= _MOST_WAITING:
                self._is_behind = True
                break
            self._next, self._entry = self._next + 1, number
            for message in messages:
                has_answer = has_answer or isinstance(message, AssistantMessage)
                self._offset = 0
                self._put(MessageEnd(message))
            if not messages and not isinstance(entry, NoteEntry):
                self._put(EntryAppended(Raw(line)))
        return has_answer

    def _put(self, event: Event) -> None:
        self._queue.put_nowait(NumberedEvent(Position(self._entry, self._offset), event))
