"""Sub-agents on the wire: the frames that a host can subscribe to, and the commands for sub-agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from fairlead.core.events import Event, MessageStart, SubagentEvent, SubagentLifecycle, SubagentProgress
from fairlead.core.message_updates import MessageUpdate
from fairlead.errors import BadCommand
from fairlead.protocol.pi import frames
from fairlead.protocol.pi import omp_commands as c
from fairlead.session.history.reading import read_transcript
from fairlead.wire.pi.paced_updates import FrameOutlet, Updates
from fairlead.wire.pi.pi_encoding import EventFrames, Spliced
from fairlead.wire.pi.profile import Profile
from fairlead.wire.routing import RequestRoute

if TYPE_CHECKING:
    from fairlead.wire.pi.pi_server import PiServer

Level: TypeAlias = Literal["off", "progress", "events"]


class SubagentFrames:
    """Sends the events of sub-agents at the level that the host subscribed to.

    `own` and `updates` belong to the main session.
    """

    def __init__(self, output: FrameOutlet, profile: Profile, own: EventFrames, updates: Updates) -> None:
        self._level: Level = "off"
        self._output = output
        self._profile = profile
        self._own = own
        self._updates = updates
        self._children: dict[str, _ChildFrames] = {}

    def set_level(self, level: Level) -> None:
        """Change the subscription."""
        self._level = level
        if level != "events":
            for child in self._children.values():
                child.close()
            self._children.clear()

    def send_event(self, event: SubagentLifecycle | SubagentProgress | SubagentEvent) -> None:
        """Send the frames of an event if the subscription includes it."""
        if self._level == "off":
            return
        match event:
            case SubagentLifecycle(payload=life):
                self._own.send(frames.SubagentLifecycle(life))
                if life.status != "started":
                    self._children.pop(life.id, None)
            case SubagentProgress(payload=payload):
                # A host that is behind gets fewer reports, but always the last one.
                if payload.progress.status != "running" or not self._output.behind:
                    self._own.send(frames.SubagentProgress(payload))
            case SubagentEvent() if self._level == "events" and self._own.wants("subagent_event"):
                self._child(event.id).send_event(event.event)
            case _:
                pass

    def _child(self, id: str) -> _ChildFrames:
        child = self._children.get(id)
        if child is None:
            child = self._children[id] = _ChildFrames(id, self._output, self._profile, self._updates)
        return child


class _ChildFrames:
    """Sends the frames of one sub-agent, each inside a frame that names the sub-agent."""

    def __init__(self, id: str, output: FrameOutlet, profile: Profile, updates: Updates) -> None:
        self._envelope = _Envelope(id, output)
        self._like = updates
        self._updates = updates.make_sibling(self._envelope)
        self._frames = EventFrames(self._envelope, profile, self._updates)
        #: Whether the host got the start of the message that is streaming.
        self._is_in_message = False

    def send_event(self, event: Event) -> None:
        self._updates.form = self._like.form
        if isinstance(event, MessageStart):
            self._is_in_message = True
        elif isinstance(event, MessageUpdate) and not self._is_in_message:
            return
        self._frames.send_event(event)

    def close(self) -> None:
        self._envelope.is_open = False


class _Envelope:
    """A `FrameOutlet` that wraps each frame in a `subagent_event`."""

    def __init__(self, id: str, output: FrameOutlet) -> None:
        self.is_open = True
        self._head = b'{"type":"subagent_event","payload":{"id":%b,"event":' % msgspec.json.encode(id)
        self._tail = b"}}\n"
        self._output = output

    @property
    def max_frame(self) -> int | None:
        limit = self._output.max_frame
        return None if limit is None else max(0, limit - len(self._head) - len(self._tail))

    @property
    def behind(self) -> bool:
        return self._output.behind

    def call_when_caught_up(self, callback: Callable[[], None]) -> None:
        self._output.call_when_caught_up(callback)

    def send(self, frame: bytes) -> None:
        if self.is_open:
            self._output.send(b"".join((self._head, frame[:-1], self._tail)))


def _set_subagent_subscription(server: PiServer, command: c.SetSubagentSubscription) -> c.SubagentSubscription:
    match command.level:
        case "off" | "progress" | "events" as level:
            server.subagents.set_level(level)
            return c.SubagentSubscription(level)
        case other:
            raise BadCommand(f"Invalid subagent subscription level: {other}")


def _get_subagents(server: PiServer, command: c.GetSubagents) -> c.SubagentList:
    subagents = server.session.subagents
    return c.SubagentList(subagents.snapshots() if subagents is not None else [])


def _get_subagent_messages(server: PiServer, command: c.GetSubagentMessages) -> Spliced:
    path = _transcript(server, command)
    piece = read_transcript(path, command.from_byte or 0)
    head = b'{"sessionFile":%b,"fromByte":%d,"nextByte":%d,"reset":%b' % (
        msgspec.json.encode(str(path)),
        piece.start,
        piece.end,
        b"true" if piece.reset else b"false",
    )
    return Spliced((head, b',"entries":[', b",".join(piece.lines), b'],"messages":[', b",".join(piece.messages), b"]}"))


def _transcript(server: PiServer, command: c.GetSubagentMessages) -> Path:
    subagents = server.session.subagents
    if command.subagent_id:
        path = subagents.transcript_of(command.subagent_id) if subagents is not None else None
        if path is None:
            raise BadCommand(f"Unknown subagent or session file unavailable: {command.subagent_id}")
        return path
    if not command.session_file:
        raise BadCommand("get_subagent_messages requires subagentId or sessionFile")
    path = server.session.host.workspace.resolve(command.session_file)
    if subagents is None or not subagents.is_transcript(path):
        raise BadCommand(f"Unknown subagent or session file unavailable: {command.session_file}")
    return path


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(c.SetSubagentSubscription, _set_subagent_subscription),
    RequestRoute(c.GetSubagents, _get_subagents),
    RequestRoute(c.GetSubagentMessages, _get_subagent_messages),
)
