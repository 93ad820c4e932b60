"""What all events have in common, and the events that no agent declares."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import Struct


class Event(Struct, dict=True):
    """Something that happened in the agent. `raw` is the line as it came, including fields that are not declared here."""

    @property
    def raw(self) -> dict[str, Any]:
        """The JSON object that the agent sent. Each read decodes it again."""
        line: bytes | dict[str, Any] = self.__dict__.get("line", {})
        if isinstance(line, dict):
            return line
        from fairlead.core import lenient

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


def merged_copy(event: Event, **changes: Any) -> Event:
    """Return a copy of the event with other values, and the same line."""
    return with_line(msgspec.structs.replace(event, **changes), event.__dict__.get("line", {}))
