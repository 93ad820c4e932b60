"""JSON-RPC 2.0, a message on each line: what a line of the client's is, and the lines that are sent to it."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.protocol.opal.events import NOTIFICATION, Event
from fairlead.protocol.opal.method import Method

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603

NULL = Raw(b"null")


class RpcError(Exception):
    """A request that cannot be carried out, in the client's terms. `data` says more, where there is more to say."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Request(Struct, frozen=True):
    """The id is kept as it was written, to be echoed. A method that is no string is shown as JSON."""

    id: Raw
    method: str
    params: Any


class Reply(Struct, frozen=True):
    """The client's answer to a request of the server's: a result, or an error."""

    id: Any
    result: Any | UnsetType = UNSET
    error: Any = None


Line: TypeAlias = Request | Reply | RpcError | None


class _Envelope(Struct):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelopes = msgspec.json.Decoder(_Envelope)


def read(line: bytes | None) -> Line:
    """What a line is; None: a notification, which nobody answers. A line that was too long for us is None itself."""
    if line is None:
        return RpcError(PARSE_ERROR, "Parse error", "The line is too long.")
    try:
        return _classified(_envelopes.decode(line))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        value = lenient.decode(line)
    except ValueError:
        return RpcError(PARSE_ERROR, "Parse error")
    if not isinstance(value, dict):  # also a list: there are no batches
        return RpcError(INVALID_REQUEST, "Invalid request")
    import json  # not msgspec, which has no integers of any length

    try:
        return _classified(_envelopes.decode(json.dumps(value, allow_nan=False).encode()))
    except (ValueError, RecursionError):  # a number such as 1e999, which nobody can write again
        return RpcError(PARSE_ERROR, "Parse error")


def _classified(outer: _Envelope) -> Line:
    if _value(outer.jsonrpc) != "2.0":
        return RpcError(INVALID_REQUEST, "Invalid request")
    if not isinstance(outer.id, UnsetType):
        if not isinstance(outer.method, UnsetType):
            method = _value(outer.method)
            name = method if isinstance(method, str) else bytes(outer.method).decode()
            bytes(outer.id).decode()  # msgspec does not look into what it skips, and the id will be echoed
            return Request(Raw(bytes(outer.id)), name, _value(outer.params))
        if not isinstance(outer.result, UnsetType):
            return Reply(_value(outer.id), result=_value(outer.result))
        if not isinstance(outer.error, UnsetType):
            return Reply(_value(outer.id), error=_value(outer.error))
    elif not isinstance(outer.method, UnsetType):
        return None
    return RpcError(INVALID_REQUEST, "Invalid request")


def _value(raw: Raw | UnsetType) -> Any:
    """What is written there; an empty object for params that are not."""
    return {} if isinstance(raw, UnsetType) else msgspec.json.decode(raw)


# What is sent


class _Message(Struct, kw_only=True):
    jsonrpc: str = "2.0"


class _Result(_Message, kw_only=True):
    id: Raw
    result: Any


class _Problem(Struct):
    code: int
    message: str
    data: str | UnsetType = UNSET


class _Failure(_Message, kw_only=True):
    id: Raw
    error: _Problem


class _Notification(_Message, kw_only=True):
    method: str
    params: Any


class _Asked(_Message, kw_only=True):
    id: str
    method: str
    params: Any


def result_line(id: Raw, result: Struct) -> bytes:
    return _line(_Result(id=id, result=result))


def error_line(id: Raw, error: RpcError) -> bytes:
    return _line(_Failure(id=id, error=_Problem(error.code, error.message, UNSET if error.data is None else error.data)))


def event_line(event: Event) -> bytes:
    return _line(_Notification(method=NOTIFICATION, params=event))


def request_line(id: str, request: Method) -> bytes:
    return _line(_Asked(id=id, method=request.method, params=request))


def _line(message: _Message) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # a file's name, say, that is no text
        return msgspec.json.encode(lenient.scrub(msgspec.to_builtins(message, builtin_types=(Raw,)))) + b"\n"
