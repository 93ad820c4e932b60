"""JSON mode: writes the events of a run as lines, as they happen."""

from __future__ import annotations

from typing import BinaryIO

from fairlead.agent import Agent
from fairlead.session.history.entries import encode_line
from fairlead.wire.connection import HostOutput
from fairlead.wire.pi.outlet import ChunkedOutlet
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.serve import server_type
from fairlead.wire.pi.updates import Form, Pacing, Updates


class JsonLines:
    """Writes the events of an agent to `stream`. A slow reader blocks the agent, as is usual in a pipeline."""

    def __init__(self, stream: BinaryIO, agent: Agent, profile: Profile, form: Form) -> None:
        self._stream = stream
        self._agent = agent
        self._output = HostOutput(self._write, limit=agent.settings.output.queue_bytes)
        outlet = ChunkedOutlet(self._output)
        updates = Updates(outlet, Pacing.of(agent.settings.output), form)
        frames = server_type(profile).events_type(outlet, profile, updates)
        agent.session.subscribe(frames.send_event)

    def header(self) -> None:
        """Write the first line: the header of the session, as in a session file."""
        self._output.send(encode_line(self._agent.session.history.log.header) + b"\n")

    def _write(self, frame: bytes) -> None:
        self._stream.write(frame)
        self._stream.flush()
        self._output.written(len(frame))
