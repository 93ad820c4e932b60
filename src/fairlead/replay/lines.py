"""The lines of a protocol as a replay reads them: requests, replies and responses, how two compare, and how to report an error.

It reads lines by their envelope only, so that a recording of any release can be played.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.secrets import REDACTED
from fairlead.protocol.pi.commands import ANSWER_NAMES
from fairlead.replay.recording import HostLine, InputEnd, ProcessExit, Recording, SentFrame, frame_lines
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


#: Fields that differ from one run of a host to the next.
VOLATILE = frozenset("_meta clientInfo cwd outputPath sessionPath timestamp working_dir workingDir".split())
_LONGEST_SHOWN = 200
_MOST_SHOWN = 5


def differences(recorded: Any, sent: Any, where: str = "") -> Iterator[str]:
    """Yield a phrase for each difference. A field that is null counts as absent, and a secret that was left out as equal."""
    if isinstance(recorded, dict) or isinstance(sent, dict):
        old, new = _fields(recorded), _fields(sent)
        if old is None or new is None:
            yield _phrase(where, recorded, sent)
            return
        for name in (*old, *(name for name in new if name not in old)):
            yield from differences(old.get(name), new.get(name), f"{where}.{name}" if where else name)
    elif isinstance(recorded, list) and isinstance(sent, list):
        before, now = cast("list[Any]", recorded), cast("list[Any]", sent)
        if len(before) != len(now):
            yield f"{where}: expected {len(before)} items, got {len(now)}"
            return
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{where}[{index}]")
    elif not _is_equal(recorded, sent):
        yield _phrase(where, recorded, sent)


def describe_message(message: HostMessage) -> str:
    """Name a message, with what it says."""
    if message.body in (None, {}):
        return message.name
    return f"{message.name} {_format_value(message.body)}"


def summary(found: list[str]) -> str:
    """Join differences into one text of bounded length."""
    more = f"; and {len(found) - _MOST_SHOWN} more differences" if len(found) > _MOST_SHOWN else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields that are compared; None if it is not an object. Nothing counts as an empty object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    return {name: each for name, each in fields.items() if name not in VOLATILE and each is not None}


def _is_equal(recorded: Any, sent: Any) -> bool:
    if isinstance(recorded, str) and isinstance(sent, str) and REDACTED in recorded:
        return _fits(recorded.split(REDACTED), sent)
    return recorded == sent and (type(recorded) is type(sent) or (_is_number(recorded) and _is_number(sent)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(parts: list[str], text: str) -> bool:
    """Whether a text consists of the parts in order, with anything between them."""
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at <= len(text) - len(last)


def _phrase(where: str, recorded: Any, sent: Any) -> str:
    prefix = f"{where}: " if where else ""
    if recorded is None:
        return f"{prefix}expected nothing, got {_format_value(sent)}"
    return f"{prefix}expected {_format_value(recorded)}, got {'nothing' if sent is None else _format_value(sent)}"


def _format_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


StepKind: TypeAlias = Literal["input", "read", "optional", "frame", "end", "exit"]


class Step(Struct, eq=False):
    """One entry.

    An `input` has to come from the host before what follows it is sent. A `read` is a request that changes nothing: the host
    may send it at any time, any number of times, or never. An `optional` line may come or not.
    """

    kind: StepKind
    index: int
    #: The number of its line in the recording.
    number: int
    ms: float
    message: HostMessage | None = None
    frame: bytes = b""
    info: FrameInfo | None = None
    #: Of an input or a read: the frames that have its id.
    answers: list[Step] = []
    #: Of a frame: the input or read whose id it has.
    answered: Step | None = None
    #: The exit code.
    code: int = 0
    #: Of an input: whether the host has sent it. Of a frame: whether it was sent. Of a read: whether it was used.
    is_done: bool = False
    #: Of an input: the id that the host gave it.
    host_id: Any = UNSET

    @property
    def is_response(self) -> bool:
        return self.info is not None and self.info.is_response

    @property
    def is_beside(self) -> bool:
        """Whether it is the answer to a read, which is sent when the host asks."""
        return self.answered is not None and self.answered.kind == "read"


class Steps:
    """All steps of a recording, in order."""

    def __init__(self, recording: Recording, lines: LineFormat) -> None:
        self._lines = lines
        self.all: list[Step] = []
        self._by_id: dict[bytes, Step] = {}
        self._without_id: defaultdict[str, deque[Step]] = defaultdict(deque)
        #: The questions that the recording has asked so far and the host has not answered.
        self._open: set[Any] = set()
        for number, entry in frame_lines(recording):
            step = self._step(number, entry)
            if step is not None:
                self.all.append(step)

    def of_kind(self, *kinds: StepKind) -> Iterator[Step]:
        """Yield the steps of these kinds."""
        return (step for step in self.all if step.kind in kinds)

    def burst(self, start: int) -> Iterator[Step]:
        """Yield the steps from an index on, up to the first frame that is not a response.

        The host may have sent the inputs among them without waiting for the responses.
        """
        for step in islice(self.all, start, None):
            if step.kind in ("exit", "end") or (step.kind == "frame" and not step.is_response and not step.is_beside):
                return
            yield step

    def _step(self, number: int, entry: HostLine | SentFrame | InputEnd | ProcessExit) -> Step | None:
        index = len(self.all)
        if isinstance(entry, InputEnd):
            return Step("end", index, number, entry.ms)
        if isinstance(entry, ProcessExit):
            return Step("exit", index, number, entry.ms, code=entry.code)
        if isinstance(entry, SentFrame):
            return self._frame(Step("frame", index, number, entry.ms, frame=bytes(entry.frame)))
        text = entry.text.encode() if isinstance(entry.text, str) else None
        message = self._lines.read(text if isinstance(entry.line, msgspec.UnsetType) else bytes(entry.line))
        return None if message is None else self._input(Step("input", index, number, entry.ms, message))

    def _input(self, step: Step) -> Step:
        message = step.message
        assert message is not None
        if message.kind == "progress":
            step.kind = "optional"
        elif message.kind == "reply":
            if message.id in self._open:
                self._open.discard(message.id)
            else:  # an answer to no question, which the agent ignored
                step.kind = "optional"
        else:
            if message.kind == "request" and self._lines.only_reads(message.name):
                step.kind = "read"
            if message.id is UNSET:
                self._without_id[message.name].append(step)
            else:
                self._by_id[msgspec.json.encode(message.id)] = step
        return step

    def _frame(self, step: Step) -> Step:
        info = step.info = self._lines.frame(step.frame)
        if info.question is not None:
            self._open.add(info.question)
        if info.answers is not UNSET:
            step.answered = self._by_id.get(msgspec.json.encode(info.answers))
        elif info.is_response and info.command is not None and (waiting := self._without_id.get(info.command)):
            step.answered = waiting[0] if len(waiting) == 1 else waiting.popleft()
        if step.answered is not None:
            step.answered.answers.append(step)
        return step
