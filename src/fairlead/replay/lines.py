"""What a replay has to know about the lines of a protocol: requests, replies, responses, and how to report an error.

It reads lines by their envelope only, so that a recording of any release can be played.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.protocol.pi.commands import ANSWER_NAMES
from fairlead.wire.jsonrpc import INTERNAL_ERROR, RpcError, error_line

LineKind: TypeAlias = Literal["request", "reply", "progress", "malformed"]
#: The name of a line that is not a command.
MALFORMED = "a malformed line"

#: Frames of the pi family that have an id of their own instead of that of a command.
_QUESTIONS = frozenset({"extension_ui_request", "host_tool_call", "host_uri_request"})
_CANCELS = frozenset({"host_tool_cancel", "host_uri_cancel"})
_PROGRESS = "host_tool_update"
#: Methods that only read: the last parts of their names.
_READING_METHODS = frozenset({"get", "list", "history", "ping", "state", "status", "version"})


class HostMessage(Struct):
    """A line from the host. `body` is all of it except the id."""

    kind: LineKind
    name: str
    id: Any = UNSET
    body: Any = None


class FrameInfo(Struct):
    """What a frame is for. `answers` is the id of the request that it belongs to; UNSET if it names none."""

    #: Whether it is the response to a request.
    is_response: bool = False
    #: The name of the request, if the frame says so.
    command: str | None = None
    answers: Any = UNSET
    #: The id of the question that it asks the host.
    question: str | int | None = None


class LineFormat(Protocol):
    """How a protocol writes its lines."""

    def read(self, line: bytes | None) -> HostMessage | None:
        """Read a line from the host; None for a blank one. A line that is None was too long."""
        ...

    def frame(self, frame: bytes) -> FrameInfo:
        """Read the envelope of a frame."""
        ...

    def only_reads(self, name: str) -> bool:
        """Whether a request changes nothing."""
        ...

    def aborts(self, name: str) -> bool:
        """Whether a request ends something that is running."""
        ...

    def error(self, message: HostMessage, text: str) -> bytes | None:
        """Return the frame that reports an error; None if the protocol has none for such a line."""
        ...


def format_of(dialect: str) -> LineFormat:
    """Return the format of a dialect's lines."""
    if dialect == "pi-2025":
        return Pi2025Lines()
    return PiLines() if dialect in ("pi", "omp", "xcsh") else JsonRpcLines()


def with_id(frame: bytes, ident: Any) -> bytes:
    """Return a frame with another id; without one if `ident` is UNSET."""
    fields = msgspec.json.decode(frame, type=dict[str, Raw])
    if ident is UNSET:
        fields.pop("id", None)
        return msgspec.json.encode(fields)
    new = Raw(msgspec.json.encode(ident))
    if "id" in fields:
        fields["id"] = new
        return msgspec.json.encode(fields)
    first = {name: fields[name] for name in ("jsonrpc", "type") if name in fields}
    return msgspec.json.encode({**first, "id": new, **fields})


def _object(line: bytes | None) -> dict[str, Any] | None:
    """Decode the object in a line; None if there is none."""
    try:
        value = None if line is None else lenient.decode(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


# The pi family


class _PiFrame(Struct):
    type: Any = None
    id: Any = UNSET
    command: str | None = None
    method: str | None = None


class PiLines:
    """Implements `LineFormat` for pi, omp and xcsh."""

    def read(self, line: bytes | None) -> HostMessage | None:
        if line is not None and not line.strip():
            return None
        fields = _object(line)
        name = None if fields is None else fields.get("type")
        if fields is None or not isinstance(name, str):
            return HostMessage("malformed", MALFORMED, UNSET if fields is None else fields.get("id", UNSET))
        kind = self._kind(name)
        return HostMessage(kind, name, fields.get("id", UNSET), _without(fields, "id", "type"))

    def _kind(self, name: str) -> LineKind:
        if name not in ANSWER_NAMES:
            return "request"
        return "progress" if name == _PROGRESS else "reply"

    def frame(self, frame: bytes) -> FrameInfo:
        seen = msgspec.json.decode(frame, type=_PiFrame)
        if seen.type in _QUESTIONS:
            return FrameInfo(question=seen.id)
        if seen.type in _CANCELS:
            return FrameInfo()
        return FrameInfo(seen.type == "response", seen.command, seen.id)

    def only_reads(self, name: str) -> bool:
        return name.startswith(("get_", "list_"))

    def aborts(self, name: str) -> bool:
        return name.startswith("abort")

    def error(self, message: HostMessage, text: str) -> bytes | None:
        name = "parse" if message.kind == "malformed" else message.name
        answer: dict[str, Any] = {"type": "response", "command": name, "success": False, "error": text}
        return _frame(answer, message.id)


class Pi2025Lines(PiLines):
    """Implements `LineFormat` for pi-2025, which has no responses, and errors without an id."""

    def _kind(self, name: str) -> LineKind:
        return "request"

    def error(self, message: HostMessage, text: str) -> bytes | None:
        return _frame({"type": "error", "error": text}, UNSET)


def _frame(fields: dict[str, Any], ident: Any) -> bytes:
    return msgspec.json.encode(fields if isinstance(ident, UnsetType) else {**fields, "id": ident}) + b"\n"


# JSON-RPC


class _RpcFrame(Struct):
    id: Any = UNSET
    method: str | None = None


class JsonRpcLines:
    """Implements `LineFormat` for protocols on JSON-RPC, such as that of Opal."""

    def read(self, line: bytes | None) -> HostMessage | None:
        if line is not None and not line.strip():
            return None
        fields = _object(line)
        if fields is None:
            return HostMessage("malformed", MALFORMED)
        method, ident = fields.get("method"), fields.get("id", UNSET)
        if isinstance(method, str):
            return HostMessage("request", method, ident, fields.get("params"))
        if "result" in fields or "error" in fields:
            return HostMessage("reply", "reply", ident, _without(fields, "id", "jsonrpc"))
        return HostMessage("malformed", MALFORMED, ident)

    def frame(self, frame: bytes) -> FrameInfo:
        seen = msgspec.json.decode(frame, type=_RpcFrame)
        if seen.method is None:
            return FrameInfo(True, None, seen.id)
        return FrameInfo(question=seen.id) if isinstance(seen.id, str | int) else FrameInfo()

    def only_reads(self, name: str) -> bool:
        return name.rpartition("/")[2] in _READING_METHODS

    def aborts(self, name: str) -> bool:
        return name.rpartition("/")[2] in ("abort", "cancel", "cancel_request")

    def error(self, message: HostMessage, text: str) -> bytes | None:
        if message.kind == "reply" or (message.kind == "request" and message.id is UNSET):
            return None
        ident = Raw(b"null" if message.id is UNSET else msgspec.json.encode(message.id))
        return error_line(ident, RpcError(INTERNAL_ERROR, text))
