"""Turns lines into typed values, and tolerates fields that the agent adds or leaves out. What all events have in common.

Agents of other versions send other fields. A value that matches the declarations is decoded in one step. Any other value is
built field by field: a field that is missing is UNSET (or None if the declaration allows that), a value of another type stays as
it came, and a message or block of an unknown kind becomes `Unknown`. So a client never fails because of what an agent says.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Union, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec import inspect as types

from fairlead.core import lenient

#: Frames in parts that a client keeps while parts are missing.
MOST_OPEN_FRAMES = 16

log = logging.getLogger("fairlead.client")


class Response(Struct, tag_field="type", tag="response"):
    """The answer to a command. `data` is JSON that is decoded when its type is known."""

    id: Any = None
    command: str | None = None
    success: bool = True
    data: msgspec.Raw | UnsetType = UNSET
    error: str | None = None
    code: str | int | None = None


class Chunk(Struct, tag_field="type", tag="rpc_chunk", rename="camel"):
    """Part of a line that is too long for one frame."""

    chunk_id: str
    index: int
    count: int
    data: str


class FrameDecoder:
    """Decodes lines to events, responses and chunks. `events` are the declared events by type."""

    def __init__(self, events: Mapping[str, type[Event]]) -> None:
        self._events = events
        union: Any = Union[(Response, Chunk, *events.values())]
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(union)

    def decode(self, line: bytes) -> Event | Response | Chunk:
        """Decode a line without its end. It never raises."""
        try:
            value: Any = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._lenient(line)
        return with_line(value, line) if isinstance(value, Event) else value

    def _lenient(self, line: bytes) -> Event | Response | Chunk:
        try:
            raw: Any = lenient.decode(line)
        except ValueError:
            raw = None
        if not isinstance(raw, dict):
            return with_line(UnparsedLine(line.decode("utf-8", "replace")), {"text": line.decode("utf-8", "replace")})
        return self.from_object(cast("dict[str, Any]", raw))

    def from_object(self, raw: dict[str, Any]) -> Event | Response | Chunk:
        """Build the event, response or chunk that a JSON object declares itself to be."""
        kind: Any = raw.get("type")
        if kind == "response":
            return _response(raw)
        if kind == "rpc_chunk" and (chunk := _chunk(raw)) is not None:
            return chunk
        declared = self._events.get(kind) if isinstance(kind, str) else None
        if declared is None:
            return with_line(UnknownEvent(kind if isinstance(kind, str) else ""), raw)
        return with_line(cast("Event", lenient_value(raw, declared)), raw)


def decode_value(data: msgspec.Raw | UnsetType, declared: Any) -> Any:
    """Decode the data of a response. Returns None if there is none or none is declared."""
    if data is UNSET or declared is None:
        return None
    try:
        return msgspec.json.decode(data, type=declared)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return lenient_value(lenient.decode(bytes(data)), declared)


def lenient_value(value: Any, declared: Any) -> Any:
    """Build a value of a declared type from JSON, as far as it matches."""
    try:
        return msgspec.convert(value, declared)
    except (msgspec.ValidationError, RecursionError):
        return _build(value, _info(declared))


@cache
def _info(declared: Any) -> types.Type:
    return types.type_info(declared)


def _build(value: Any, info: types.Type) -> Any:
    match info:
        case types.StructType() if isinstance(value, dict):
            return _struct(cast("dict[str, Any]", value), info)
        case types.UnionType():
            return _union(value, info)
        case types.ListType(item_type=item) if isinstance(value, list):
            return [_build(each, item) for each in cast("list[Any]", value)]
        case types.DictType(value_type=inner) if isinstance(value, dict):
            return {key: _build(each, inner) for key, each in cast("dict[str, Any]", value).items()}
        case types.Metadata(type=inner):
            return _build(value, inner)
        case types.RawType():
            return msgspec.Raw(msgspec.json.encode(value))
        case _:
            return value


def _struct(value: dict[str, Any], info: types.StructType) -> Struct:
    fields: dict[str, Any] = {}
    for field in info.fields:
        if field.encode_name in value:
            fields[field.name] = _build(value[field.encode_name], field.type)
        elif field.required:
            fields[field.name] = None if _allows_none(field.type) else UNSET
    return info.cls(**fields)


def _union(value: Any, info: types.UnionType) -> Any:
    members = [member for member in info.types if isinstance(member, types.StructType)]
    if isinstance(value, dict) and members:
        raw = cast("dict[str, Any]", value)
        tagged = [member for member in members if member.tag_field is not None]
        for member in tagged:
            if raw.get(cast("str", member.tag_field)) == member.tag:
                return _struct(raw, member)
        if tagged:
            return Unknown(str(raw.get(cast("str", tagged[0].tag_field), "")), raw)
        return _struct(raw, members[0])
    if isinstance(value, list):
        lists = [member for member in info.types if isinstance(member, types.ListType)]
        return _build(value, lists[0]) if lists else cast("Any", value)
    return cast("Any", value)


def _allows_none(info: types.Type) -> bool:
    return isinstance(info, types.NoneType | types.AnyType) or (
        isinstance(info, types.UnionType) and any(isinstance(member, types.NoneType) for member in info.types)
    )


def _response(raw: Mapping[str, Any]) -> Response:
    data = msgspec.Raw(msgspec.json.encode(raw["data"])) if "data" in raw else UNSET
    command, error = raw.get("command"), raw.get("error")
    return Response(
        id=raw.get("id"),
        command=command if isinstance(command, str) else None,
        success=raw.get("success") is True,
        data=data,
        error=None if error is None else str(error),
        code=raw.get("code"),
    )


def _chunk(raw: dict[str, Any]) -> Chunk | None:
    try:
        return msgspec.convert(raw, Chunk)
    except msgspec.ValidationError:
        return None


class _OpenFrame(Struct):
    """The parts of a frame that have come so far, by their index."""

    parts: dict[int, bytes]
    size: int = 0


class ChunkAssembler:
    """Joins the parts of long frames. Memory is bounded even if an agent never sends the last part of its frames.

    It keeps at most `MOST_OPEN_FRAMES` incomplete frames, and at most `most_bytes` of them all. Beyond that it drops the frame
    that began first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._frames: dict[str, _OpenFrame] = {}
        self._size = 0

    def add(self, chunk: Chunk) -> bytes | None:
        """Take in a part. Returns the whole frame if it was the last one that was missing."""
        try:
            data = base64.b64decode(chunk.data)
        except ValueError:
            self._drop(chunk.chunk_id, "a part of it cannot be decoded")
            return None
        frame = self._frames.setdefault(chunk.chunk_id, _OpenFrame({}))
        frame.size += len(data) - len(frame.parts.get(chunk.index, b""))
        self._size += len(data) - len(frame.parts.get(chunk.index, b""))
        frame.parts[chunk.index] = data
        if len(frame.parts) >= chunk.count:
            self._remove(chunk.chunk_id)
            return b"".join(frame.parts[index] for index in sorted(frame.parts))
        while self._size > self._most_bytes or len(self._frames) > MOST_OPEN_FRAMES:
            self._drop(next(iter(self._frames)), "too many parts of frames wait for the rest")
        return None

    def clear(self) -> None:
        """Forget all incomplete frames."""
        self._frames.clear()
        self._size = 0

    def _drop(self, id: str, why: str) -> None:
        log.warning("dropped the incomplete frame %s: %s", id, why)
        self._remove(id)

    def _remove(self, id: str) -> None:
        frame = self._frames.pop(id, None)
        self._size -= frame.size if frame else 0


class LineSplitter:
    """Splits bytes into lines at LF. Each byte is searched once, however long a line is."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def split(self, data: bytes) -> Sequence[bytes]:
        """Return the lines that `data` completes, without their ends and without blank ones.

        Raises ValueError if an unfinished line is longer than allowed.
        """
        if b"\n" not in data:
            self._parts.append(data)
            self._length += len(data)
            if self._length > self._longest:
                raise ValueError(f"a line of the agent is longer than {self._longest} bytes")
            return ()
        first, *rest = data.split(b"\n")
        lines = [b"".join((*self._parts, first)), *rest[:-1]]
        self._parts, self._length = ([rest[-1]], len(rest[-1])) if rest[-1] else ([], 0)
        return [line for line in lines if line.strip()]

    def rest(self) -> bytes:
        """Return what came after the last end of a line."""
        return b"".join(self._parts)


class Event(Struct, dict=True):
    """Something that happened in the agent. `raw` is the line as it came, including fields that are not declared here."""

    @property
    def raw(self) -> dict[str, Any]:
        """The JSON object that the agent sent. Each read decodes it again."""
        line: bytes | dict[str, Any] = self.__dict__.get("line", {})
        if isinstance(line, dict):
            return line

        return cast("dict[str, Any]", lenient.decode(line))

    @property
    def size(self) -> int:
        """The approximate number of bytes that the event takes."""
        line: bytes | dict[str, Any] = self.__dict__.get("line", b"")
        return len(line) if isinstance(line, bytes) else 1_000


class UnknownEvent(Event):
    """A frame of a type that is not declared. `raw` has all of it."""

    type: str


class UnparsedLine(Event):
    """A line on the agent's standard output that is not a JSON object. The client ignores it otherwise."""

    text: str


class Restarted(Event):
    """The agent's process ended, and the client started another one."""

    #: The session that the new process resumed; None if there was none to resume.
    session_file: str | None
    #: How the old process ended.
    exit_code: int | None


class Unknown(Struct):
    """A message or block of a kind that is not declared."""

    #: Its `role` or `type`.
    kind: str
    raw: dict[str, Any]


def with_line(event: Event, line: bytes | dict[str, Any]) -> Event:
    """Attach the line that the event came in, and return the event."""
    vars(event)["line"] = line  # pyright: ignore[reportIndexIssue]
    return event


def copy_with(event: Event, **changes: Any) -> Event:
    """Return a copy of the event with other values, and the same line."""
    return with_line(msgspec.structs.replace(event, **changes), event.__dict__.get("line", {}))
