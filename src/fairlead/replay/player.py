"""Plays a recording to a host: sends the recorded frames when the host has sent what came before them.

What the host sends is matched with the recorded input by meaning. Its ids replace the recorded ones in the answers. Where it
departs from the recording, the replay says what was expected and what came.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.replay.lines import HostMessage, LineFormat, Step, Steps, describe_message, differences, format_of, summary, with_id
from fairlead.replay.recording import Recording
from fairlead.wire.host_connection import Connection, HostOutput
from fairlead.wire.host_process import READ_PATIENCE
from fairlead.wire.stdio import StdioTransport

#: The exit code of a replay from which the host departed.
DEPARTED = 3
#: Exit codes that say that a signal ended the process. A replay waits for the host to end it again.
_BY_SIGNAL = (129, 130, 143)
#: Seconds to wait for the host before saying what the replay waits for.
STALLED_AFTER = 5.0
#: Milliseconds of the recording within which a read is answered in its recorded place rather than with an earlier answer.
NEAR = 1000.0
#: Bytes of frames that may wait for the host, and of a line from it.
_QUEUE_BYTES, _LINE_BYTES = 4 << 20, 64 << 20


class ReplayOptions(Struct, kw_only=True):
    """How to play a recording."""

    #: How many times faster than recorded; None for no delays.
    speed: float | None = 1.0
    #: Whether to continue after a departure.
    lenient: bool = False
    #: Called with each departure, and with each remark about the host.
    report: Callable[[str], None]
    remark: Callable[[str], None]


async def serve_recording(recording: Recording, stdin: int, stdout: int, options: ReplayOptions) -> int:
    """Play a recording to one host. Returns the exit code."""
    connection = Connection(StdioTransport(stdin, stdout, line_bytes=_LINE_BYTES), queue_bytes=_QUEUE_BYTES)
    player = Player(recording, format_of(recording.header.dialect), connection.output, options)
    connection.on_arrival = player.receive
    connection.on_end = player.end_input
    connection.on_broken = lambda: player.finish(0)
    loop = asyncio.get_running_loop()
    for name, code in (("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)):
        if hasattr(signal, name):
            loop.add_signal_handler(getattr(signal, name), player.finish, code)
    connection.start()
    code = await player.play()
    await connection.output.wait_flushed(READ_PATIENCE)
    return code


class Player:
    """Plays one recording once. `output` is where its frames go."""

    def __init__(self, recording: Recording, lines: LineFormat, output: HostOutput, options: ReplayOptions) -> None:
        self._lines = lines
        self._output = output
        self._options = options
        self._name = recording.path.name
        self._steps = Steps(recording, lines)
        #: The index of the step that is played next.
        self._at = 0
        #: Steps before this index are sent without delay.
        self._hurry_to = 0
        self._changed = asyncio.Event()
        self._input_ended = False
        #: Reads that are answered in their recorded place.
        self._waiting_reads: dict[Step, HostMessage] = {}
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        #: The time of the loop, and of the recording, from which delays are counted.
        self._base = (asyncio.get_running_loop().time(), self._steps.all[0].ms if self._steps.all else 0.0)

    async def play(self) -> int:
        """Play the recording. Returns the exit code."""
        playing = asyncio.ensure_future(self._play())
        await asyncio.wait([playing, self._over], return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            playing.cancel()
            return self._over.result()
        return playing.result()

    def finish(self, code: int) -> None:
        """End the replay with this exit code."""
        if not self._over.done():
            self._over.set_result(code)

    # What the host sends

    def receive(self, line: bytes | None) -> None:
        """Handle a line from the host."""
        message = self._lines.read(line)
        if message is None or message.kind == "progress" or self._over.done():
            return
        if message.kind == "reply":
            self._receive_reply(message)
        elif message.kind == "request" and self._lines.only_reads(message.name):
            self._receive_read(message)
        else:
            self._receive_request(message)

    def end_input(self) -> None:
        """Handle the end of the input: send what is left without delay, or say what was still expected."""
        self._input_ended = True
        self._hurry_to = len(self._steps.all)
        self._changed.set()

    def _receive_request(self, message: HostMessage) -> None:
        expected = next((step for step in self._steps.of_kind("input") if not step.is_done and not _is_reply(step)), None)
        if expected is None:
            self._depart(message, "no more input", None)
            return
        candidates = [step for step in self._steps.burst(expected.index) if _is_open_request(step, message.name)]
        match = next((step for step in candidates if not list(_differences(step, message))), None)
        if match is None:
            nearest = candidates[0] if candidates else expected
            if not self._depart(message, describe_message(_message(nearest)), nearest) or not candidates:
                return
            match = candidates[0]
        match.host_id = message.id
        self._on_arrival(match, hurry=self._lines.aborts(message.name))

    def _receive_reply(self, message: HostMessage) -> None:
        recorded = [step for step in self._steps.of_kind("input") if _is_reply(step) and _message(step).id == message.id]
        if not recorded:
            self._options.remark(
                f"The recording has no answer to the question {message.id!r}: {describe_message(message)} is ignored."
            )
            return
        step = recorded[0]
        if step.is_done:
            return
        is_same = _message(step).name == message.name and not list(_differences(step, message))
        if is_same or self._depart(message, describe_message(_message(step)), step):
            self._on_arrival(step)

    def _on_arrival(self, step: Step, *, hurry: bool = False) -> None:
        step.is_done = True
        if hurry:
            self._hurry_to = max(self._hurry_to, step.index)
        self._changed.set()

    # Reads

    def _receive_read(self, message: HostMessage) -> None:
        named = [step for step in self._steps.of_kind("read") if _message(step).name == message.name and step.answers]
        fitting = [step for step in named if not list(_differences(step, message))]
        if not fitting:
            expected = describe_message(_message(named[0])) if named else f"no {message.name}"
            if not self._depart(message, expected, named[0] if named else None) or not named:
                return
            fitting = named
        ahead = next((step for step in fitting if step.index >= self._at and not step.is_done), None)
        if ahead is not None and self._is_near(ahead):
            self._waiting_reads[ahead] = message
            ahead.is_done = True
            self._changed.set()
            return
        before = [step for step in fitting if step.index < self._at]
        step = before[-1] if before else fitting[0]
        if step.is_done:
            self._options.remark(f"{message.name} gets the answer of line {step.number} again.")
        self._answer_read(step, message)

    def _is_near(self, read: Step) -> bool:
        """Whether the replay will soon reach a read, without more input from the host."""
        between = self._steps.all[self._at : read.index]
        if any(step.kind in ("input", "end", "exit") and not step.is_done for step in between):
            return False
        return not between or read.ms - between[0].ms <= NEAR

    def _answer_read(self, step: Step, message: HostMessage) -> None:
        step.is_done = True
        for answer in step.answers:
            self._send(answer.frame, message.id)

    # Playing

    async def _play(self) -> int:
        for step in self._steps.all:
            self._at = step.index
            if step.kind == "exit" and step.code not in _BY_SIGNAL:
                return step.code
            if step.kind == "read":
                if message := self._waiting_reads.pop(step, None):
                    self._answer_read(step, message)
            elif step.kind == "input":
                if not await self._input(step):
                    return self._on_early_leave(step)
                self._base = (asyncio.get_running_loop().time(), step.ms)
            elif step.kind == "end":
                await self._end_of_input()
            elif step.kind == "frame" and not step.is_done and not step.is_beside:
                await self._delay(step)
                self._send_step(step)
                if self._output.paused:
                    await self._output.wait(CancelToken())
        self._at = len(self._steps.all)
        await self._end_of_input()
        return 0

    async def _input(self, step: Step) -> bool:
        """Wait until the host has sent an input. Returns False if it has left instead."""
        has_remarked = False
        while not step.is_done:
            self._send_ahead()
            if self._input_ended:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout(None if has_remarked else STALLED_AFTER):
                    await self._changed.wait()
            except TimeoutError:
                has_remarked = True
                self._options.remark(f"Waiting for {describe_message(_message(step))} (line {step.number} of {self._name}).")
        return True

    def _send_ahead(self) -> None:
        """Send responses that the recording has after the input it waits for, since that input came before them by chance."""
        for step in list(self._steps.burst(self._at)):
            if step.kind == "frame" and not step.is_done and step.answered and step.answered.is_done and not step.is_beside:
                self._send_step(step)

    async def _end_of_input(self) -> None:
        while not self._input_ended:
            self._changed.clear()
            await self._changed.wait()

    async def _delay(self, step: Step) -> None:
        """Wait for the time of a step, unless there is a reason to hurry."""
        if self._options.speed is None:
            return
        loop = asyncio.get_running_loop()
        time, ms = self._base
        due = time + (step.ms - ms) / 1000 / self._options.speed
        while step.index >= self._hurry_to and (left := due - loop.time()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _send_step(self, step: Step) -> None:
        step.is_done = True
        if step.answered is None:
            self._output.send(step.frame + b"\n")
        else:
            self._send(step.frame, step.answered.host_id)

    def _send(self, frame: bytes, ident: Any) -> None:
        self._output.send(with_id(frame, ident) + b"\n")

    # Departures

    def _depart(self, message: HostMessage, expected: str, step: Step | None) -> bool:
        """Report that the host departed from the recording. Returns True if the replay continues anyway."""
        found = list(_differences(step, message)) if step is not None and _message(step).name == message.name else []
        came = summary(found) if found else f"expected {expected}, got {describe_message(message)}"
        where = f" at line {step.number}" if step is not None else ""
        text = f"The host departs from the recording {self._name}{where}: {message.name}: {came}."
        if self._options.lenient:
            self._options.remark(text)
            if step is None or _message(step).name != message.name:
                self._answer_unexpected(message, text)
            return True
        self._options.report(text)
        self._send_error(message, text)
        self.finish(DEPARTED)
        return False

    def _answer_unexpected(self, message: HostMessage, text: str) -> None:
        """Answer a request that the recording does not have here with the answer that it has elsewhere, or with an error."""
        known = [
            step
            for step in self._steps.of_kind("input", "read")
            if _message(step).name == message.name and any(answer.is_response for answer in step.answers)
        ]
        if not known:
            self._send_error(message, text)
            return
        before = [step for step in known if step.index < self._at]
        for answer in (before[-1] if before else known[0]).answers:
            if answer.is_response:
                self._send(answer.frame, message.id)

    def _send_error(self, message: HostMessage, text: str) -> None:
        frame = self._lines.error(message, text)
        if frame is not None:
            self._output.send(frame)

    def _on_early_leave(self, step: Step) -> int:
        if self._over.done():  # the host departed before, and left because of the error
            return DEPARTED
        expected = f"{describe_message(_message(step))} (line {step.number})"
        text = f"The host left before the end of the recording {self._name}: expected {expected}."
        if self._options.lenient:
            self._options.remark(text)
            return 0
        self._options.report(text)
        return DEPARTED


def _message(step: Step) -> HostMessage:
    assert step.message is not None
    return step.message


def _is_reply(step: Step) -> bool:
    return _message(step).kind == "reply"


def _is_open_request(step: Step, name: str) -> bool:
    return step.kind == "input" and not step.is_done and not _is_reply(step) and _message(step).name == name


def _differences(step: Step, message: HostMessage) -> Any:
    return differences(_message(step).body, message.body)
