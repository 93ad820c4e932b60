"""What the server asks the client."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from fairlead.core.runtime import Cancel
from fairlead.protocol.opal.method import Method
from fairlead.wire.jsonrpc import RESULT, question_line
from fairlead.wire.messages import Reply
from fairlead.wire.questions import Question, Questions, Unanswered

R = TypeVar("R", bound=Struct)


class ServerRequests(Questions):
    """The requests that the client has not answered yet. The dialect has no way to withdraw one."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        numbers = count(1)
        super().__init__(send, lambda: f"s2c-{next(numbers)}")

    async def request(self, request: Method, result: type[R], *, timeout: float | None, cancel: Cancel | None = None) -> R:
        """Ask, and return the answer. Raises Unanswered: after `timeout` seconds, when `cancel` fires, when the client leaves,
        and for an answer that is an error or makes no sense."""
        question = Question(ask=lambda ident: question_line(ident, request.method, request), timeout=timeout)
        return _understood(await self.ask(question, cancel or Cancel()), result)


def _understood(reply: Reply, result: type[R]) -> R:
    if reply.name != RESULT:
        raise Unanswered(f"the client answered with an error: {_message(reply.body)}")
    try:
        return msgspec.convert(reply.body, result)
    except msgspec.ValidationError as error:
        raise Unanswered(f"the client's answer makes no sense: {error}") from None


def _message(error: Any) -> str:
    match error:
        case {"message": str(message)}:
            return message
        case _:
            return "it gave no reason"
