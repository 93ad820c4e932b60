"""What a host hears of sub-agents: nothing, how they get on, or everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from fairlead.core.events import (
    Event,
    MessageStart,
    MessageUpdate,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
)
from fairlead.protocol.pi import frames
from fairlead.wire.pi.encode import EventFrames
from fairlead.wire.pi.outlet import FrameOutlet
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.updates import Updates

Level: TypeAlias = Literal["off", "progress", "events"]


class SubagentFrames:
    """Sends what is told of sub-agents, as far as the host wants to hear it. `own` and `updates` are the session's."""

    def __init__(self, output: FrameOutlet, profile: Profile, own: EventFrames, updates: Updates) -> None:
        self._level: Level = "off"
        self._output = output
        self._profile = profile
        self._own = own
        self._updates = updates
        self._children: dict[str, _ChildFrames] = {}

    def set_level(self, level: Level) -> None:
        self._level = level
        if level != "events":
            for child in self._children.values():
                child.close()
            self._children.clear()

    def tell(self, event: SubagentLifecycle | SubagentProgress | SubagentEvent) -> None:
        if self._level == "off":
            return
        match event:
            case SubagentLifecycle(payload=life):
                self._own.send(frames.SubagentLifecycle(life))
                if life.status != "started":
                    self._children.pop(life.id, None)
            case SubagentProgress(payload=payload):
                # While the host does not keep up, the next report has to do; the last one always leaves.
                if payload.progress.status != "running" or not self._output.behind:
                    self._own.send(frames.SubagentProgress(payload))
            case SubagentEvent() if self._level == "events" and self._own.wants("subagent_event"):
                self._child(event.id).tell(event.event)
            case _:
                pass

    def _child(self, id: str) -> _ChildFrames:
        child = self._children.get(id)
        if child is None:
            child = self._children[id] = _ChildFrames(id, self._output, self._profile, self._updates)
        return child


class _ChildFrames:
    """The frames of one sub-agent's run, each in a frame that says whose it is."""

    def __init__(self, id: str, output: FrameOutlet, profile: Profile, updates: Updates) -> None:
        self._envelope = _Envelope(id, output)
        self._like = updates
        self._updates = updates.another(self._envelope)
        self._frames = EventFrames(self._envelope, profile, self._updates)
        #: Whether the host has heard the beginning of the message that arrives.
        self._is_in_message = False

    def tell(self, event: Event) -> None:
        self._updates.form = self._like.form
        if isinstance(event, MessageStart):
            self._is_in_message = True
        elif isinstance(event, MessageUpdate) and not self._is_in_message:
            return
        self._frames.tell(event)

    def close(self) -> None:
        self._envelope.is_open = False


class _Envelope:
    """A `FrameOutlet` that puts each frame into a `subagent_event`."""

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

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        self._output.when_caught_up(callback)

    def send(self, frame: bytes) -> None:
        if self.is_open:
            self._output.send(b"".join((self._head, frame[:-1], self._tail)))
