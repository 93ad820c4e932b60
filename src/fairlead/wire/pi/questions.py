"""What the agent asks its host. Answers may come in any order, late, twice, or never."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import count

import msgspec
from msgspec import Raw, Struct, UnsetType

from fairlead.core.runtime import Cancel
from fairlead.errors import BadCommand
from fairlead.protocol.pi.frames import Frame


class Withdrawn(Exception):
    """The run was aborted before the host answered; it has been told that nobody waits for the answer any more."""


class HostLeft(Exception):
    """The host is gone, and cannot answer."""


class Expired(Exception):
    """The host did not answer in time. It knew the time, and is told nothing."""


class Question(Struct, frozen=True):
    """What to ask, and what to expect. Each question and each withdrawal has an id of its own."""

    #: The frame that asks, for its id.
    ask: Callable[[str], Frame]
    #: The frame that takes the question back, for its own id and that of the question; None: the host does not know any.
    withdraw: Callable[[str, str], Frame] | None
    #: The type of the line that answers.
    answered_by: str
    #: Seconds that the host has to answer; None: as long as it takes.
    timeout: float | None = None
    #: Makes ids; None: they are numbers.
    new_id: Callable[[], str] | None = None
    #: Raises BadCommand if the host is to be told that its answer is malformed. Whoever asked gets such a line too.
    check: Callable[[bytes], object] | None = None
    #: The type of the lines that may come before it, and what to do with each; that raises BadCommand if one is malformed.
    updated_by: str | None = None
    on_update: Callable[[bytes], None] | None = None


class _Open(Struct, frozen=True):
    question: Question
    outcome: asyncio.Future[bytes | Exception]


class Questions:
    """The questions that the host has not answered yet."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self._send = send
        self._open: dict[str, _Open] = {}
        self._host_left = False
        # They begin anywhere, so that a line meant for another process finds no question here, and never repeat.
        self._numbers = count(int.from_bytes(os.urandom(8)) >> 1)

    async def ask(self, question: Question, cancel: Cancel) -> bytes:
        """Ask, and give the line that answers. Raises Withdrawn when `cancel` fires first, HostLeft when the host leaves,
        Expired when the question's own time is over.

        If the waiting task is cancelled, because its time is over, the question is taken back as well.
        """
        if self._host_left:
            raise HostLeft
        if cancel.fired:
            raise Withdrawn
        loop = asyncio.get_running_loop()
        ident = self._new_id(question)
        opened = self._open[ident] = _Open(question, loop.create_future())
        forget = cancel.on_fire(lambda: self._withdraw(ident))
        timer = None if question.timeout is None else loop.call_later(question.timeout, self._expire, ident)
        try:
            self._send(question.ask(ident))
            outcome = await opened.outcome
        finally:
            forget()
            if timer is not None:
                timer.cancel()
            self._withdraw(ident)  # does nothing, unless the task was cancelled
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def hear(self, kind: str, raw_id: Raw | UnsetType, line: bytes) -> None:
        """Take a line that answers something. Without a question that it fits, nothing happens.

        Raises BadCommand if it cannot be told what the line answers, or if the host is to be told that it is malformed.
        """
        try:
            ident = msgspec.json.decode(b"null" if isinstance(raw_id, UnsetType) else raw_id, type=str)
        except msgspec.DecodeError:  # another kind of value, or a number that is too large for any
            raise BadCommand("id: expected that of the frame which asked, as a string") from None
        opened = self._open.get(ident)
        if opened is None:
            return
        question = opened.question
        if kind == question.answered_by:
            self._close(ident, line)
            if question.check is not None:
                question.check(line)
        elif kind == question.updated_by and question.on_update is not None:
            question.on_update(line)

    @property
    def can_be_asked(self) -> bool:
        """Whether there is a host that may answer."""
        return not self._host_left

    def host_left(self) -> None:
        """No answer will come any more, neither to what was asked nor to what will be."""
        self._host_left = True
        for ident in list(self._open):
            self._close(ident, HostLeft())

    def _withdraw(self, ident: str) -> None:
        opened = self._open.get(ident)
        if opened is not None:
            self._close(ident, Withdrawn())
            if opened.question.withdraw is not None:
                self._send(opened.question.withdraw(self._new_id(opened.question), ident))

    def _expire(self, ident: str) -> None:
        if ident in self._open:
            self._close(ident, Expired())

    def _close(self, ident: str, outcome: bytes | Exception) -> None:
        opened = self._open.pop(ident)
        if not opened.outcome.done():  # it is, if the task that waits for it was cancelled
            opened.outcome.set_result(outcome)

    def _new_id(self, question: Question) -> str:
        return question.new_id() if question.new_id is not None else f"{next(self._numbers):016x}"
