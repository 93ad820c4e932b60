"""What the server asks the client. Answers may come in any order, late, twice, malformed, or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, UnsetType

from fairlead.core.runtime import Cancel
from fairlead.protocol.opal.method import Method
from fairlead.wire.opal.jsonrpc import Reply, request_line

R = TypeVar("R", bound=Struct)


class NoAnswer(Exception):
    """The client did not say; the text says why. It cannot be told that nobody waits any more: the dialect has no word for it."""


class ServerRequests:
    """The requests that the client has not answered yet."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._open: dict[str, asyncio.Future[Reply | NoAnswer]] = {}
        self._client_left = False

    @property
    def can_be_asked(self) -> bool:
        """Whether there is a client that may answer."""
        return not self._client_left

    async def ask(self, request: Method, result: type[R], *, timeout: float | None, cancel: Cancel | None = None) -> R:
        """Ask, and give the answer. Raises NoAnswer: after `timeout` seconds, when `cancel` fires, when the client leaves, and
        for an answer that is an error or cannot be understood."""
        if self._client_left:
            raise NoAnswer("the client has left")
        if cancel is not None and cancel.fired:
            raise NoAnswer("the run was stopped")
        loop = asyncio.get_running_loop()
        ident = f"s2c-{next(self._numbers)}"
        answer = self._open[ident] = loop.create_future()
        forget = cancel.on_fire(lambda: self._close(ident, NoAnswer("the run was stopped"))) if cancel is not None else None
        late = NoAnswer(f"there was no answer within {timeout:g} seconds") if timeout is not None else None
        timer = loop.call_later(timeout, self._close, ident, late) if timeout is not None and late is not None else None
        try:
            self._send(request_line(ident, request))
            return _understood(await answer, result)
        finally:
            self._open.pop(ident, None)
            if forget is not None:
                forget()
            if timer is not None:
                timer.cancel()

    def hear(self, reply: Reply) -> None:
        """Take an answer. Without a request that it fits, nothing happens."""
        if isinstance(reply.id, str):
            self._close(reply.id, reply)

    def client_left(self) -> None:
        """No answer will come any more, neither to what was asked nor to what will be."""
        self._client_left = True
        for ident in list(self._open):
            self._close(ident, NoAnswer("the client has left"))

    def _close(self, ident: str, outcome: Reply | NoAnswer) -> None:
        answer = self._open.pop(ident, None)
        if answer is not None and not answer.done():  # it is, if the task that waits for it was cancelled
            answer.set_result(outcome)


def _understood(outcome: Reply | NoAnswer, result: type[R]) -> R:
    if isinstance(outcome, NoAnswer):
        raise outcome
    if isinstance(outcome.result, UnsetType):
        raise NoAnswer(f"the client answered with an error: {_message(outcome.error)}")
    try:
        return msgspec.convert(outcome.result, result)
    except msgspec.ValidationError as error:
        raise NoAnswer(f"the client's answer cannot be understood: {error}") from None


def _message(error: Any) -> str:
    match error:
        case {"message": str(message)}:
            return message
        case _:
            return "it gave no reason"
