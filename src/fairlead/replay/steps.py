"""The steps of a replay: the entries of a recording, and which of them belong together."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from fairlead.replay.lines import FrameInfo, HostMessage, LineFormat
from fairlead.replay.recording import HostLine, InputEnd, ProcessExit, Recording, SentFrame, frame_lines

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

    def of_kind(self, *kinds: StepKind, start: int = 0) -> Iterator[Step]:
        """Yield the steps of these kinds, from an index on."""
        return (step for step in islice(self.all, start, None) if step.kind in kinds)

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
