"""JSON mode: a run's events as lines, written as they happen."""

from __future__ import annotations

import time
from typing import BinaryIO

from fairlead.agent import Agent
from fairlead.core.events import Event
from fairlead.core.lenient import scrub_text
from fairlead.protocol.pi.frames import SessionHeader
from fairlead.wire.output import Output
from fairlead.wire.pi.encode import EventFrames
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.updates import Form, Pacing, Updates


class JsonLines:
    """Writes what happens to `stream`. Writing blocks the agent, which is what a pipeline wants."""

    def __init__(self, stream: BinaryIO, agent: Agent, profile: Profile, form: Form) -> None:
        self._stream = stream
        self._agent = agent
        self._output = Output(self._write, limit=agent.settings.output.queue_bytes)
        self._frames = EventFrames(self._output, profile, Updates(self._output, Pacing.of(agent.settings.output), form))
        agent.session.subscribe(self._tell)

    def header(self) -> None:
        """The first line: the session, as in a session file."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
        cwd = scrub_text(str(self._agent.session.workspace.cwd))
        self._frames.send(SessionHeader(version=3, id=self._agent.session.id, timestamp=stamp, cwd=cwd))

    def _tell(self, event: Event) -> None:
        self._frames.tell(event)

    def _write(self, frame: bytes) -> None:
        self._stream.write(frame)
        self._stream.flush()
        self._output.written(len(frame))
