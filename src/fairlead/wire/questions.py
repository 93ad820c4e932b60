"""Questions to the host. Answers may arrive in any order, late, twice, or never."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.wire.routing import HostReply


class Unanswered(Exception):
    """The host did not answer."""


class Withdrawn(Unanswered):
    """The run was aborted before the host answered. The host was notified if the protocol has a frame for it."""


class HostLeft(Unanswered):
    """The host is gone and cannot answer."""


class Expired(Unanswered):
    """The host did not answer in time."""


class HostQuestion(Struct, frozen=True, kw_only=True):
    """What to ask, and which replies to expect. Each question and each withdrawal has a separate id."""

    #: Takes the question's id and returns the frame that asks it.
    ask: Callable[[str], Any]
    #: Takes a new id and the question's id, and returns the frame that withdraws it. None if the protocol has no such frame.
    withdraw: Callable[[str, str], Any] | None = None
    #: The name of the reply that answers the question. None if every reply does.
    answered_by: str | None = None
    #: Seconds that the host has to answer. None for no limit.
    timeout: float | None = None
    #: Whether the question says how long the host has, so that it need not be withdrawn after that.
    shows_timeout: bool = True
    #: Returns a new id. None to use the `new_id` of `Questions`.
    new_id: Callable[[], str] | None = None
    #: Raises FairleadError if the host should get an error for a malformed answer. The caller gets the answer in any case.
    check: Callable[[Any], object] | None = None
    #: The name of the replies that report progress, and what to do with each. Raises FairleadError if one is malformed.
    updated_by: str | None = None
    on_update: Callable[[Any], None] | None = None


class _Open(Struct, frozen=True):
    question: HostQuestion
    outcome: asyncio.Future[HostReply | Exception]


class Questions:
    """The open questions. `send` sends the frames that `HostQuestion` makes."""

    def __init__(self, send: Callable[[Any], None], new_id: Callable[[], str] | None = None) -> None:
        self._send = send
        self._open: dict[str, _Open] = {}
        self._host_left = False
        self._make_id = new_id or random_ids()

    @property
    def can_be_asked(self) -> bool:
        """Whether the host is still there to answer."""
        return not self._host_left

    async def ask(self, question: HostQuestion, cancel: CancelToken) -> HostReply:
        """Ask a question, and return the reply.

        Raises Withdrawn if `cancel` fires first, HostLeft if the host leaves, and Expired after the question's timeout.
        If the waiting task is cancelled, the question is withdrawn as well.
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

    def receive(self, reply: HostReply) -> None:
        """Pass a reply to its question. A reply without an open question is ignored.

        Raises FairleadError if the reply is malformed and the host should get an error.
        """
        opened = None if reply.question is None else self._open.get(reply.question)
        if opened is None or reply.question is None:
            return
        question = opened.question
        if question.answered_by in (None, reply.name):
            self._close(reply.question, reply)
            if question.check is not None:
                question.check(reply.body)
        elif reply.name == question.updated_by and question.on_update is not None:
            question.on_update(reply.body)

    def host_left(self) -> None:
        """Fail all open and all later questions with HostLeft."""
        self._host_left = True
        for ident in list(self._open):
            self._close(ident, HostLeft())

    def _expire(self, ident: str) -> None:
        if ident in self._open and not self._open[ident].question.shows_timeout:
            self._withdraw(ident, Expired())
        else:
            self._close(ident, Expired())

    def _withdraw(self, ident: str, outcome: Unanswered | None = None) -> None:
        opened = self._open.get(ident)
        if opened is not None:
            self._close(ident, outcome or Withdrawn())
            if opened.question.withdraw is not None:
                self._send(opened.question.withdraw(self._new_id(opened.question), ident))

    def _close(self, ident: str, outcome: HostReply | Exception) -> None:
        opened = self._open.pop(ident, None)
        if opened is not None and not opened.outcome.done():  # done already if the waiting task was cancelled
            opened.outcome.set_result(outcome)

    def _new_id(self, question: HostQuestion) -> str:
        return (question.new_id or self._make_id)()


def random_ids() -> Callable[[], str]:
    """Return a function that makes ids.

    They never repeat and start at a random number, so a reply meant for another process does not match a question here.
    """
    numbers = count(int.from_bytes(os.urandom(8)) >> 1)
    return lambda: f"{next(numbers):016x}"
