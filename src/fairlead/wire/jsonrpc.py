"""JSON-RPC 2.0 with one message per line, in both directions: requests, notifications and answers. It does not define methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.runtime import CancelToken
from fairlead.errors import FairleadError
from fairlead.wire.pending import HostQuestion, Questions, Unanswered
from fairlead.wire.routing import HostReply, Message, Problem, Request, RequestCancelled, UnknownRequest

R = TypeVar("R", bound=Struct)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
REQUEST_CANCELLED = -32800

NULL = Raw(b"null")
#: The names of replies.
RESULT, ERROR = "result", "error"


class RpcError(FairleadError):
    """Why a request failed, as a JSON-RPC error object. `data` may give details, as any JSON value."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class BadParams(RpcError):
    """The params of a request cannot be used."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(INVALID_PARAMS, message, data)


class _Envelope(Struct):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelopes = msgspec.json.Decoder(_Envelope)


def read(line: bytes | None) -> Message | None:
    """Return the message in a line, or None for a blank line. A notification is a request without an id.

    `line` is None if the line was too long.
    """
    if line is None:
        return Problem(NULL, RpcError(PARSE_ERROR, "Parse error", "The line is too long."))
    if not line.strip():
        return None
    try:
        return _classify(_envelopes.decode(line))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        value = lenient.decode(line)
    except ValueError:
        return Problem(NULL, RpcError(PARSE_ERROR, "Parse error"))
    if not isinstance(value, dict):  # a list too: batches are not supported
        return _INVALID
    try:
        return _classify(_envelopes.decode(json.dumps(value, allow_nan=False).encode()))
    except (ValueError, RecursionError):  # a number such as 1e999, which cannot be encoded again
        return Problem(NULL, RpcError(PARSE_ERROR, "Parse error"))


_INVALID = Problem(NULL, RpcError(INVALID_REQUEST, "Invalid request"))


def _classify(outer: _Envelope) -> Message | None:
    if _value(outer.jsonrpc) != "2.0":
        return _INVALID
    if not isinstance(outer.method, UnsetType):
        method = _value(outer.method)
        # A method that is not a string is shown as JSON.
        name = method if isinstance(method, str) else bytes(outer.method).decode()
        if isinstance(outer.id, UnsetType):
            return Request(name, UNSET, _value(outer.params))
        bytes(outer.id).decode()  # msgspec does not validate what it skips, and the id will be echoed
        return Request(name, Raw(bytes(outer.id)), _value(outer.params))
    if not isinstance(outer.id, UnsetType):
        for name, raw in ((RESULT, outer.result), (ERROR, outer.error)):
            if not isinstance(raw, UnsetType):
                ident = _value(outer.id)
                return HostReply(name, NULL, ident if isinstance(ident, str) else None, _value(raw))
    return _INVALID


def _value(raw: Raw | UnsetType) -> Any:
    """Decode a field. A missing one counts as an empty object, as `params` should."""
    return {} if isinstance(raw, UnsetType) else msgspec.json.decode(raw)


# Outgoing lines


class _Message(Struct, kw_only=True):
    jsonrpc: str = "2.0"


class _Result(_Message, kw_only=True):
    id: Raw
    result: Any


class _Problem(Struct):
    code: int
    message: str
    data: Any = UNSET


class _Failure(_Message, kw_only=True):
    id: Raw
    error: _Problem


class _Notification(_Message, kw_only=True):
    method: str
    params: Any


class _Question(_Message, kw_only=True):
    id: str
    method: str
    params: Any


def result_line(id: Raw, result: Any) -> bytes:
    return _line(_Result(id=id, result=result))


def error_line(id: Raw, error: RpcError) -> bytes:
    problem = _Problem(error.code, error.message, UNSET if error.data is None else error.data)
    return _line(_Failure(id=id, error=problem))


def notification_line(method: str, params: Any) -> bytes:
    return _line(_Notification(method=method, params=params))


def question_line(id: str, method: str, params: Any) -> bytes:
    return _line(_Question(id=id, method=method, params=params))


def _line(message: _Message) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # for example a file name that is not valid Unicode
        return msgspec.json.encode(lenient.scrub(msgspec.to_builtins(message, builtin_types=(Raw,)))) + b"\n"


class JsonRpcCodec:
    """Implements `fairlead.wire.routing.Codec`, except for `parameters`. A notification gets no answer, not even an error."""

    def read(self, line: bytes | None) -> Message | None:
        return read(line)

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        return [] if isinstance(request.id, UnsetType) else [result_line(request.id, result)]

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        if not isinstance(message.id, UnsetType):
            return [error_line(message.id, as_rpc_error(error))]
        return [] if isinstance(message, Request) else [error_line(NULL, as_rpc_error(error))]


class OutboundRequests(Questions):
    """The requests to the host that it has not answered yet.

    `cancel_method` is the notification that withdraws one, with `requestId` in its params; None if the protocol has none.
    """

    def __init__(self, send: Callable[[bytes], None], *, cancel_method: str | None = None) -> None:
        numbers = count(1)
        super().__init__(send, lambda: f"s2c-{next(numbers)}")
        self._withdraw_line = None if cancel_method is None else _withdrawal(cancel_method)

    async def request(
        self, method: str, params: Any, result: type[R], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> R:
        """Send a request and return its result.

        Raises Unanswered after `timeout` seconds, when `cancel` fires, when the host leaves, and if the answer is an error or
        cannot be decoded.
        """
        question = HostQuestion(
            ask=lambda ident: question_line(ident, method, params),
            withdraw=self._withdraw_line,
            timeout=timeout,
            shows_timeout=False,
        )
        return _decode_reply(await self.ask(question, cancel or CancelToken()), result)


def _withdrawal(method: str) -> Callable[[str, str], bytes]:
    return lambda ident, target: notification_line(method, {"requestId": target})


def _decode_reply(reply: HostReply, result: type[R]) -> R:
    if reply.name != RESULT:
        raise Unanswered(f"the host answered with an error: {_message(reply.body)}")
    try:
        return msgspec.convert(reply.body, result)
    except msgspec.ValidationError as error:
        raise Unanswered(f"the host's answer cannot be decoded: {error}") from None


def _message(error: Any) -> str:
    match error:
        case {"message": str(message)}:
            return message
        case _:
            return "it gave no reason"


def as_rpc_error(error: BaseException) -> RpcError:
    """Convert an error to a JSON-RPC error."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, UnknownRequest):
        return RpcError(METHOD_NOT_FOUND, f"Method not found: {error}")
    if isinstance(error, RequestCancelled):
        return RpcError(REQUEST_CANCELLED, str(error))
    if isinstance(error, FairleadError):
        return RpcError(INTERNAL_ERROR, str(error))
    return RpcError(INTERNAL_ERROR, "Internal error", f"{type(error).__name__}: {error}")
