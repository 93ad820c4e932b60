"""Where in a session a listener stands, so that it can connect again and miss nothing."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from fairlead.core.events import Event


class Position(NamedTuple):
    """A place in a session: everything up to an entry, and the beginning of the message that follows it."""

    #: The number of the last entry; 0 before the first.
    entry: int = 0
    #: How many characters of the message that is arriving have been received.
    offset: int = 0


class NumberedEvent(Struct, frozen=True):
    """An event, and the position after it."""

    position: Position
    event: Event
